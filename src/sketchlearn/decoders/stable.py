"""Mixtures of elliptic stable laws from a sketch.

Heavy tails have no moments, but their characteristic functions are as simple as Gaussian ones, which is all that a
sketch needs.  Components are searched with a shared Gaussian envelope, which is right enough to find the places;
then stability, location and scatter of every component are fitted together, and components that explain little are
moved to where the residual is large until the misfit is at the noise floor (Keriven 2017, section 5.6, with other
starts: single greedy runs fail there more often than not).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sketchlearn.atoms.stable import EllipticStable
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.atom_clompr import hard_threshold
from sketchlearn.decoders.atom_problem import AtomFit, AtomProblem, joined
from sketchlearn.decoders.metric import View, unwhiten, whitening_metric
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.search import climb, pick, search
from sketchlearn.decoders.solution import StableSolution
from sketchlearn.designs.stable import stable_parameter_count
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

_STARTS = (1, 2, 3, 2, 3)
_ROUNDS = 8
_LEAST_VARIANCE = 0.01  # of a row, in the weights of the frequencies
_REACH = 50.0  # components lie within this many spreads of the centre


def decode_stable(
    sketch: Sketch,
    n_components: int,
    scatter_type: str = "full",
    *,
    rng: np.random.Generator,
    trace: list[dict[str, Any]] | None = None,
) -> StableSolution:
    """Decode a mixture of elliptic stable laws from a sketch.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features, best from :func:`sketchlearn.designs.stable.design_stable`.
    n_components : int
        Number of components.
    scatter_type : {"full", "diag"}
        Shape of the scatter matrices.
    rng : numpy Generator
        Source of the random starts.
    trace : list, optional
        Gets one dict per start.

    Returns
    -------
    StableSolution

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.stable import design_stable
    >>> X = np.random.default_rng(0).standard_cauchy(size=(20_000, 1))
    >>> s = sl.sketch(X, design_stable(X[:1000], 1, seed=0))
    >>> sl.decode(s, 1, task="stable", random_state=0).alphas.round(1)
    array([1.])
    """
    if n_components < 1:
        raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
    with threadpool_limits(1, "blas"):
        return _decode(sketch, n_components, EllipticStable(scatter_type), rng, trace)


def _decode(
    sketch: Sketch, k: int, atom: EllipticStable, rng: np.random.Generator, trace: list[dict[str, Any]] | None
) -> StableSolution:
    base = robust_problem(sketch, atom.scatter_type)
    smallest = 1e-2 / base.effective_radius(k) ** 2
    problem = AtomProblem.of(base, atom, smallest, 100.0)
    best: AtomFit | None = None
    rounds = 0
    for multiple in _STARTS:
        fit, done = _attempt(base, problem, k, multiple, rng)
        rounds += done
        if best is None or fit.value < best.value:
            best = fit
        ratio = best.value / _floor(problem, best, k)
        if trace is not None:
            trace.append({"start": multiple, "ratio": ratio})
        if ratio < 1.2:
            break
    assert best is not None
    for _ in range(2):  # weights of the frequencies from the noise that the model leaves
        problem = problem.reweighted(noise.renewed_weights(problem, _left(problem, best), _LEAST_VARIANCE))
        best = problem.refine(best, 400)
    floor = _floor(problem, best, k)
    ratio = best.value / floor
    unreliable = _undetermined(problem, best)
    code, verdict = verdicts.of_stable(ratio, k, unreliable)
    facts = atom.describe(best.shapes, base.dim)
    kind = atom.scatter_type
    locations, scatters = unwhiten(
        best.means * base.scale + base.center, facts["scatters"] * base.scale**2, kind, base.metric
    )
    weights = best.weights / best.weights.sum()
    return StableSolution(
        task="stable",
        decoder="search",
        residual=best.value,
        noise_floor=floor,
        ratio=ratio,
        code=code,
        verdict=verdict,
        iterations=rounds,
        trace=trace or [],
        weights=weights,
        alphas=facts["alphas"],
        locations=locations,
        scatters=scatters,
        unreliable=unreliable,
    )


def robust_problem(sketch: Sketch, kind: str) -> Problem:
    """The sketch in units of the recipe: neither the range nor the low frequencies say where heavy tails belong."""
    features = characteristic(sketch.features)
    metric = whitening_metric(features, kind)
    near = np.zeros(features.dim) if features.center is None else features.center
    view = View.of(sketch, metric, near=near)
    scale = features.designed_width
    if scale is None or (metric is None and features.whitening is not None):
        scale = float(np.sqrt(features.dim / np.mean(view.operator.squared_norms)))
    problem = Problem.from_view(view, metric, at=(view.place, scale))
    return replace(problem, box=(np.maximum(problem.box[0], -_REACH), np.minimum(problem.box[1], _REACH)))


def _attempt(
    base: Problem, problem: AtomProblem, k: int, multiple: int, rng: np.random.Generator
) -> tuple[AtomFit, int]:
    """Search `multiple` times k components, fit them as stable laws, reduce to k, and move what is misplaced."""
    d, atom = base.dim, problem.atom
    found = search(base, k * multiple, rng, replacements=4, effort=multiple)
    variance = float(np.clip(found.variance, 2 * problem.smallest, 1.0))
    fit = AtomFit(found.means, found.weights, atom.round_shapes(np.full(len(found.means), variance), d))
    fit = problem.refine(fit, 60)
    while len(fit.means) > k:  # drop a third of the surplus at a time, so that neighbours can take over
        surplus = len(fit.means) - k
        fit = hard_threshold(problem, fit, len(fit.means) - max(1, surplus // 3))
        fit = problem.refine(AtomFit(fit.means, problem.solve_weights(problem.atoms(fit)), fit.shapes), 40)
    fit = problem.refine(fit, 300)
    failures, rounds = 0, found.rounds
    for _ in range(_ROUNDS if k > 1 else 0):
        if fit.value < 1.2 * _floor(problem, fit, k) or failures >= 2:
            break
        rounds += 1
        better = _move(base, problem, fit, k, variance * (0.4 if failures else 1.0), rng)
        failures = failures + 1 if better.value > 0.99 * fit.value else 0
        fit = min(fit, better, key=lambda f: f.value)
    return fit, rounds


def _move(
    base: Problem, problem: AtomProblem, fit: AtomFit, k: int, variance: float, rng: np.random.Generator
) -> AtomFit:
    """One component more where the residual is large, then one less."""
    r = problem.residual(fit)
    residual = np.stack([r.real, r.imag]).astype(np.float32)
    points = rng.standard_normal((max(24, 2 * k), base.dim))
    half = len(points) // 2
    points[:half] = fit.means[rng.integers(k, size=half)] + 2.0 * np.sqrt(variance) * points[:half]
    points = climb(base, residual, variance, points, [1 / 1.2**2, 1 / 2.5**2, 0.0], k, steps=4)
    best = fit
    for x in pick(base, residual, variance, points, 2):
        grown = joined(fit, x[None], problem.atom.round_shapes([variance], base.dim), False)
        grown = AtomFit(grown.means, problem.solve_weights(problem.atoms(grown)), grown.shapes)
        grown = problem.refine(grown, 60)
        for drop in np.argsort(grown.weights)[: min(3, k)]:
            keep = np.delete(np.arange(k + 1), drop)
            smaller = grown.select(keep, grown.weights[keep])
            smaller = AtomFit(smaller.means, problem.solve_weights(problem.atoms(smaller)), smaller.shapes)
            smaller = problem.refine(smaller, 60)
            if smaller.value < best.value:
                best = smaller
    return problem.refine(best, 200) if best is not fit else fit


def _left(problem: AtomProblem, fit: AtomFit) -> Array:
    """Variance of a row within the components: an upper bound on what a perfect fit leaves."""
    return noise.left_by_envelope(fit.weights, problem.atom.envelope(fit.shapes, problem.operator))


def _floor(problem: AtomProblem, fit: AtomFit, k: int) -> float:
    assert isinstance(problem.atom, EllipticStable)
    parameters = stable_parameter_count(k, problem.operator.shape[1], problem.atom.scatter_type)
    return noise.noise_floor(problem, _left(problem, fit), parameters)[0]


def _undetermined(problem: AtomProblem, fit: AtomFit) -> tuple[int, ...]:
    """Components with next to no weight or at the edge of what the sketch resolves."""
    k, d = fit.means.shape
    low, high = problem.atom.shape_bounds(d, problem.smallest, problem.largest)
    weights = fit.weights / max(float(fit.weights.sum()), 1e-12)
    edge = ((fit.shapes[:, 1:] <= low[1:] + 1e-9) | (fit.shapes[:, 1:] >= high[1:] - 1e-9)).any(1)
    edge |= fit.shapes[:, 0] <= low[0] + 1e-6
    light = weights * problem.n < min(10.0, 0.5 * problem.n / k)
    return tuple(int(l) for l in np.flatnonzero(edge | light))
