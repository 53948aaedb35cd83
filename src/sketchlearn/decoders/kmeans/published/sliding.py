"""Sliding Frank-Wolfe for the Beurling LASSO (Denoyelle, Duval, Peyre and Soubies 2019; de Castro and Gamboa 2012).

``|z - A mu|^2 / 2 + lambda |mu|`` is minimised over all positive measures, so that no number of clusters need be given.
A step adds the atom at the maximum of ``eta(x) = <atom(x), residual> / lambda`` if that is above 1 (where it is not,
the measure is optimal), solves the LASSO for the weights, and slides: places and weights descend together.  Lambda
falls along a path, each problem started from the solution of the last, down to what the noise of the sketch alone
correlates with some atom.  Atoms whose removal costs no more than noise are then dropped: what is left is counted.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise
from sketchlearn.decoders.budget import FEW_STEPS
from sketchlearn.decoders.kmeans.published import outcome
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import descended
from sketchlearn.decoders.steps.lbfgs import lbfgs
from sketchlearn.decoders.steps.weights import losses, solve_weights

_PATH = 0.4  # from one lambda to the next


@outcome.decoder
def decode_sliding(
    problem: Problem,
    k: int,
    rng: np.random.Generator,
    *,
    own_count: bool = False,
    width: float | None = None,
    starts: int = 30,
    polish: bool = True,
) -> tuple[State, int, str]:
    """Decode centres without fixing their number.

    With `own_count` as many centres as the decoder counts are returned, and the number that is asked for is the most
    there can be.  `width` is the standard deviation of a cluster in the units of the rows, 0 for points, by default
    what the sketch resolves; `starts` the number of places that the search for the maximum of eta starts from;
    `polish` whether to end with a descent on all parameters.
    """
    variance = outcome.envelope(problem, k, width)
    if own_count:
        # too narrow a width takes one cluster for several: the width counts that explains most with least
        tried = [variance * f for f in (1.0, 2.0, 4.0)] if width is None else [variance]
        fits = [_counted(problem, _path(problem, v, k, rng, starts), width is None, polish) for v in tried]
        state = min(fits, key=lambda f: _criterion(problem, f))
        return state, state.k, f"sliding Frank-Wolfe ({state.k} clusters counted)"
    found = outcome.reduced(problem, _path(problem, variance, 2 * k, rng, starts), k, rng)
    state = descended(problem, found, free=width is None, polish=polish)
    return state, state.k, "sliding Frank-Wolfe"


def _path(problem: Problem, variance: float, most: int, rng: np.random.Generator, starts: int) -> State:
    """Atoms at the end of the path of lambda; at least one."""
    measure = _Measure(problem, variance, rng, starts)
    least = noise_correlation(problem, variance)
    strength = max(measure.highest()[1] * _PATH, least)
    while True:
        measure.solve(strength, most)
        if strength <= least or measure.state.k >= most:
            break
        strength = max(strength * _PATH, least)
    if not measure.state.k:
        return State.shared(np.ones(1), np.zeros((1, problem.dim)), variance)
    return measure.state


def noise_correlation(problem: Problem, variance: float) -> float:
    """What noise alone correlates with some atom: its standard deviation, times that of the largest of many."""
    e = np.exp(-0.5 * variance * problem.operator.squared_norms.astype(np.float64))
    level = noise.sampling_variance(problem.power) / problem.n + problem.added
    return float(np.sqrt(0.5 * np.sum((problem.u * e) ** 2 * level) * 2.0 * np.log(problem.size + 1.0)))


def _criterion(problem: Problem, state: State) -> float:
    """Schwarz's criterion; a misfit below what noise leaves of the right model is worth nothing."""
    plain = State.shared(state.weights, state.means, float(state.shapes[0]))
    floor, deviation = problem.floor(plain)
    excess = max(state.value / (floor * (1.0 + noise.DEVIATIONS * deviation)), 1.0)
    return 2 * problem.size * float(np.log(excess)) + plain.parameters * float(np.log(2 * problem.size))


def _counted(problem: Problem, state: State, free: bool, polish: bool) -> State:
    """Atoms are removed or merged one by one while Schwarz's criterion falls."""
    state = descended(problem, state, free=free, polish=polish)
    while state.k > 1:
        gram, _ = problem.gram(state)
        a, everyone = np.maximum(state.weights, 1e-12), np.arange(state.k)
        last = int(np.argmin(losses(gram, a)))
        i, j = np.unravel_index(int(np.argmax(gram - 2 * np.trace(gram) * np.eye(len(a)))), gram.shape)
        middle = (a[i] * state.means[i] + a[j] * state.means[j]) / (a[i] + a[j])
        rest = state.with_weights(a).select(np.delete(everyone, [i, j]))
        trials = [
            state.with_weights(a).select(np.delete(everyone, last)),
            rest.joined(middle[None], state.shapes[:1], np.array([a[i] + a[j]])),
        ]
        best = min((descended(problem, t, free=free, polish=polish) for t in trials), key=lambda f: f.value)
        if _criterion(problem, best) > _criterion(problem, state):
            break
        state = best
    return state


class _Measure:
    """A sum of atoms of one width, and the steps of the algorithm."""

    def __init__(self, problem: Problem, variance: float, rng: np.random.Generator, starts: int) -> None:
        self.problem, self.variance, self.rng, self.starts = problem, variance, rng, starts
        self.state = outcome.nothing(problem, variance)
        e2 = problem.u * np.exp(-variance * problem.operator.squared_norms)
        self.unit_a = 1.0 / np.sqrt(float(e2.sum()))
        self.unit_c = 1.0 / np.sqrt(float(e2 @ problem.operator.squared_norms) / problem.dim)

    def highest(self) -> tuple[Array, float]:
        """Where the residual correlates best with an atom, and how well."""
        return outcome.highest(self.problem, self.state, self.starts, self.rng)

    def solve(self, strength: float, most: int) -> None:
        """The solution for one lambda, from the current one."""
        if self.state.k:
            self._slide(strength)
        while self.state.k < most:
            place, height = self.highest()
            if height <= 1.02 * strength:
                break
            self.state = self.state.joined(place[None], self.state.shapes)
            gram, b = self.problem.gram(self.state)
            self.state = self.state.with_weights(solve_weights(gram, b - strength))
            self._slide(strength)

    def _slide(self, strength: float) -> None:
        """Places and weights descend together; atoms without weight are dropped."""
        self.state = self.state.select(self.state.weights > 1e-6 * self.state.weights.max(initial=0.0))
        if not self.state.k:
            return
        problem, (k, d), weights = self.problem, self.state.means.shape, self.state.weights
        unit_c = self.unit_c / np.maximum(weights, 0.1 * weights.mean())[:, None]
        unit_f = max(1e-3 * problem.energy, 1e-300)

        def objective(v: Array) -> tuple[float, Array]:
            c, a = v[: k * d].reshape(k, d) * unit_c, v[k * d :] * self.unit_a
            value, _, along, pull = problem.shared_width(c, self.variance, a)
            by_place, by_weight = pull * (-a[:, None] * unit_c), (strength - along) * self.unit_a
            gradient = np.concatenate([by_place.ravel(), by_weight])
            return (0.5 * value + strength * float(a.sum())) / unit_f, gradient / unit_f

        low, high = (np.broadcast_to(b, (k, d)) / unit_c for b in problem.box)
        lower, upper = np.append(low.ravel(), np.zeros(k)), np.append(high.ravel(), np.full(k, np.inf))
        start = np.clip(np.append((self.state.means / unit_c).ravel(), weights / self.unit_a), lower, upper)
        v = lbfgs(objective, start, lower, upper, FEW_STEPS)[0]
        self.state = State.shared(v[k * d :] * self.unit_a, v[: k * d].reshape(k, d) * unit_c, self.variance)
