"""Sliding Frank-Wolfe for the Beurling LASSO (Denoyelle, Duval, Peyre and Soubies 2019; de Castro and Gamboa 2012).

``|z - A mu|^2 / 2 + lambda |mu|`` is minimised over all positive measures, so that no number of clusters need be given.
A step adds the atom at the maximum of ``eta(x) = <atom(x), residual> / lambda`` if that is above 1 (where it is not,
the measure is optimal), solves the LASSO for the weights, and slides: places and weights descend together.  Lambda
falls along a path, each problem started from the solution of the last, down to what the noise of the sketch alone
correlates with some atom.  Atoms whose removal costs no more than noise are then dropped: what is left is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.clompr import best_atom
from sketchlearn.decoders.lbfgs import lbfgs
from sketchlearn.decoders.literature import outcome
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit
from sketchlearn.decoders.search import noise_floor, solve_weights
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.sketches.value import Sketch

_PATH = 0.4  # from one lambda to the next
_OPTIMAL = 1.02  # eta up to which a measure counts as optimal
_STEPS = 30  # of a slide
_WIDTHS = (1.0, 2.0, 4.0)  # variances that are tried where the decoder counts, in units of what the sketch resolves


def decode_sliding(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    own_count: bool = False,
    width: float | None = None,
    starts: int = 30,
    polish: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode centres without fixing their number.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    own_count : bool
        Return as many centres as the decoder counts; `n_components` is then the most there can be.
    width : float, optional
        Standard deviation of a cluster in the units of the rows, 0 for points; by default what the sketch resolves.
    starts : int
        Places that the search for the maximum of eta starts from.
    polish : bool
        End with a descent on all parameters.
    """
    if starts < 1:
        raise ValueError("starts must be at least 1")
    problem = outcome.prepared(sketch, criterion)
    k, variance = n_components, outcome.envelope(problem, n_components, width)
    if own_count:
        # too narrow a width takes one cluster for several: the width counts that explains most with least
        tried = [variance * f for f in _WIDTHS] if width is None else [variance]
        fits = [_counted(problem, *_path(problem, v, k, rng, starts, trace), v, width is None, polish) for v in tried]
        fit = min(fits, key=lambda f: _criterion(problem, f))
        name = f"sliding Frank-Wolfe ({len(fit.means)} clusters counted)"
    else:
        means, _ = _path(problem, variance, 2 * k, rng, starts, trace)
        kept, weights = outcome.reduced(problem, means, variance, k, rng)
        fit = outcome.descended(problem, kept, weights, variance, width is None, polish)
        name = "sliding Frank-Wolfe"
    return outcome.solution(problem, fit, name, criterion, rng, rounds=len(fit.means), trace=trace)


def _path(
    problem: Problem,
    variance: float,
    most: int,
    rng: np.random.Generator,
    starts: int,
    trace: list[dict[str, Any]] | None,
) -> tuple[Array, Array]:
    """Atoms at the end of the path of lambda; at least one."""
    measure = _Measure(problem, variance, rng, starts)
    least = noise_correlation(problem, variance)
    strength = max(measure.highest()[1] * _PATH, least)
    while True:
        measure.solve(strength, most)
        if trace is not None:
            trace.append({"lambda": strength, "components": len(measure.means)})
        if strength <= least or len(measure.means) >= most:
            break
        strength = max(strength * _PATH, least)
    if not len(measure.means):
        return np.zeros((1, problem.dim)), np.ones(1)
    return measure.means, measure.weights


def noise_correlation(problem: Problem, variance: float) -> float:
    """What noise alone correlates with some atom: its standard deviation, times that of the largest of many."""
    e = np.exp(-0.5 * variance * problem.operator.squared_norms.astype(np.float64))
    level = noise.sampling_variance(problem.power) / problem.n + problem.added
    return float(np.sqrt(0.5 * np.sum((problem.u * e) ** 2 * level) * 2.0 * np.log(problem.size + 1.0)))


def _criterion(problem: Problem, fit: Fit) -> float:
    """Schwarz's criterion; a misfit below what noise leaves of the right model is worth nothing."""
    floor, deviation = noise_floor(problem, len(fit.means), float(fit.covariances[0]))
    parameters = len(fit.means) * (problem.dim + 1) + 1
    excess = max(fit.value / (floor * (1.0 + 2.0 * deviation)), 1.0)
    return 2 * problem.size * float(np.log(excess)) + parameters * float(np.log(2 * problem.size))


def _counted(problem: Problem, means: Array, weights: Array, variance: float, free: bool, polish: bool) -> Fit:
    """Atoms are removed or merged one by one while Schwarz's criterion falls."""
    fit = outcome.descended(problem, means, weights, variance, free, polish)
    while len(fit.means) > 1:
        gram, _ = problem.gram(fit.means, fit.covariances)
        inverse = np.linalg.inv(gram + 1e-6 * np.trace(gram) / len(gram) * np.eye(len(gram)))
        a = np.maximum(fit.weights, 1e-12)
        last = int(np.argmin(a**2 / np.diag(inverse)))
        keep = np.delete(np.arange(len(a)), last)
        i, j = np.unravel_index(int(np.argmax(gram - 2 * np.trace(gram) * np.eye(len(a)))), gram.shape)
        rest = np.delete(np.arange(len(a)), [i, j])
        middle = (a[i] * fit.means[i] + a[j] * fit.means[j]) / (a[i] + a[j])
        s = float(fit.covariances[0])
        trials = [
            outcome.descended(problem, fit.means[keep], a[keep], s, free, polish),
            outcome.descended(
                problem, np.vstack([fit.means[rest], middle]), np.append(a[rest], a[i] + a[j]), s, free, polish
            ),
        ]
        best = min(trials, key=lambda f: f.value)
        if _criterion(problem, best) > _criterion(problem, fit):
            break
        fit = best
    return fit


class _Measure:
    """A sum of atoms of one width, and the steps of the algorithm."""

    def __init__(self, problem: Problem, variance: float, rng: np.random.Generator, starts: int) -> None:
        self.problem, self.variance, self.rng, self.starts = problem, variance, rng, starts
        self.means, self.weights = np.zeros((0, problem.dim)), np.zeros(0)
        e2 = problem.u * np.exp(-variance * problem.operator.squared_norms)
        self.envelope = np.sqrt(e2 / problem.u)
        self.unit_a = 1.0 / np.sqrt(float(e2.sum()))
        self.unit_c = 1.0 / np.sqrt(float(e2 @ problem.operator.squared_norms) / problem.dim)

    def highest(self) -> tuple[Array, float]:
        """Where the residual correlates best with an atom, and how well."""
        residual = self.problem.residual(self.means, self.variance, self.weights)
        near = np.clip(self.rng.standard_normal((self.starts, self.problem.dim)), *self.problem.box)
        damped = self.problem.u * self.envelope
        place = best_atom(self.problem.reweighted(damped), residual, near)
        return place, float(self.problem.correlation(place[None], damped * residual)[0][0])

    def solve(self, strength: float, most: int) -> int:
        """The solution for one lambda, from the current one; the number of atoms that were added."""
        added = 0
        if len(self.means):
            self._slide(strength)
        while len(self.means) < most:
            place, height = self.highest()
            if height <= _OPTIMAL * strength:
                break
            added += 1
            self.means = np.vstack([self.means, place])
            gram, b = self.problem.gram(self.means, self.variance)
            self.weights = solve_weights(gram, b - strength)
            self._slide(strength)
        return added

    def _slide(self, strength: float) -> None:
        """Places and weights descend together; atoms without weight are dropped."""
        keep = self.weights > 1e-6 * self.weights.max(initial=0.0)
        if not keep.any():
            self.means, self.weights = self.means[:0], self.weights[:0]
            return
        means, weights = self.means[keep], self.weights[keep]
        problem, (k, d) = self.problem, means.shape
        unit_c = self.unit_c / np.maximum(weights, 0.1 * weights.mean())[:, None]
        unit_f = max(1e-3 * problem.energy, 1e-300)

        def fun(v: Array) -> tuple[float, Array]:
            c, a = v[: k * d].reshape(k, d) * unit_c, v[k * d :] * self.unit_a
            value, along, _, cross, _, _ = problem.value_and_products(c, self.variance, a)
            by_place = problem.operator.adjoint(cross) * (-a[:, None] * unit_c)
            by_weight = (0.5 * along + strength) * self.unit_a
            gradient = np.concatenate([by_place.ravel(), by_weight])
            return (0.5 * value + strength * float(a.sum())) / unit_f, gradient / unit_f

        low, high = (np.broadcast_to(b, (k, d)) / unit_c for b in problem.box)
        lower, upper = np.append(low.ravel(), np.zeros(k)), np.append(high.ravel(), np.full(k, np.inf))
        start = np.clip(np.append((means / unit_c).ravel(), weights / self.unit_a), lower, upper)
        v = lbfgs(fun, start, lower, upper, _STEPS)[0]
        self.means, self.weights = v[: k * d].reshape(k, d) * unit_c, v[k * d :] * self.unit_a
