"""Mixtures of elliptic stable laws from a sketch.

Heavy tails have no moments, but their characteristic functions are as simple as Gaussian ones, which is all that a
sketch needs.  Components are searched with a shared Gaussian envelope, which is right enough to find the places;
then stability, location and scatter of every component are fitted together, and components that explain little are
moved to where the residual is large until the misfit is at the noise floor (Keriven 2017, section 5.6, with other
starts: single greedy runs fail there more often than not).
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.families import Stable
from sketchlearn.decoders.metric import View, unwhiten, whitening_metric
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import StableSolution
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import climb, pick, search
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.decoders.steps.weights import heaviest, reweighted
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

_STARTS = (1, 2, 3, 2, 3)
_ROUNDS = 8
_LEAST_VARIANCE = 0.01  # of a row, in the weights of the frequencies
_CLOSE = 1.2  # misfit over noise floor at which a search has succeeded
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
    with single_blas_thread:
        return _decode(sketch, n_components, Stable(scatter_type), rng, trace)


def _decode(
    sketch: Sketch, k: int, family: Stable, rng: np.random.Generator, trace: list[dict[str, Any]] | None
) -> StableSolution:
    problem = robust_problem(sketch, family.scatter_type)
    limits = {"smallest": 1e-2 / problem.effective_radius(k) ** 2, "largest": 100.0}
    best: State | None = None
    rounds = 0
    records: list[dict[str, Any]] = [] if trace is None else trace
    for multiple in _STARTS:
        begin = perf_counter()
        state, done = _attempt(problem, family, k, multiple, limits, rng)
        rounds += done
        if best is None or state.value < best.value:
            best = state
        ratio = best.value / problem.floor(best)[0]
        records.append(
            {
                "stage": f"search of {multiple} k components",
                "why": "no search has explained the sketch yet" if records else "always first",
                "found": f"misfit {ratio:.3g} times the noise floor",
                "accepted": ratio < _CLOSE,
                "seconds": round(perf_counter() - begin, 4),
            }
        )
        if ratio < _CLOSE:
            break
    assert best is not None
    for _ in range(2):  # weights of the frequencies from the noise that the model leaves
        problem = problem.reweighted(noise.renewed_weights(problem, problem.left(best), _LEAST_VARIANCE))
        best = refine(problem, best, 400, boxed=True, saddles=True, **limits)
    floor = problem.floor(best)[0]
    ratio = best.value / floor
    unreliable = _undetermined(problem, best, limits)
    code, verdict = verdicts.of_stable(ratio, k, unreliable)
    facts = family.describe(best.shapes, k, problem.dim)
    locations, scatters = unwhiten(
        best.means * problem.scale + problem.center,
        facts["scatters"] * problem.scale**2,
        family.scatter_type,
        problem.metric,
    )
    return StableSolution(
        task="stable",
        decoder="search",
        residual=best.value,
        noise_floor=floor,
        ratio=ratio,
        code=code,
        verdict=verdict,
        iterations=rounds,
        trace=records,
        weights=best.simplex,
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
    problem: Problem, family: Stable, k: int, multiple: int, limits: dict[str, float], rng: np.random.Generator
) -> tuple[State, int]:
    """Search `multiple` times k components, fit them as stable laws, reduce to k, and move what is misplaced."""
    found = search(problem, k * multiple, rng, replacements=4, effort=multiple)
    variance = float(np.clip(found.state.shapes[0], 2 * limits["smallest"], 1.0))
    shapes = family.rounded(np.full(found.state.k, variance), problem.dim)
    state = State(family, found.state.weights, found.state.means, shapes)
    state = refine(problem, state, 60, boxed=True, saddles=True, **limits)
    while state.k > k:  # drop a third of the surplus at a time, so that neighbours can take over
        state = heaviest(problem, state, state.k - max(1, (state.k - k) // 3))
        state = refine(problem, reweighted(problem, state), 40, boxed=True, saddles=True, **limits)
    state = refine(problem, state, 300, boxed=True, saddles=True, **limits)
    failures, rounds = 0, found.rounds
    for _ in range(_ROUNDS if k > 1 else 0):
        if state.value < _CLOSE * problem.floor(state)[0] or failures >= 2:
            break
        rounds += 1
        better = _move(problem, state, variance * (0.4 if failures else 1.0), limits, rng)
        failures = failures + 1 if better.value > 0.99 * state.value else 0
        state = min(state, better, key=lambda s: s.value)
    return state, rounds


def _move(problem: Problem, state: State, variance: float, limits: dict[str, float], rng: np.random.Generator) -> State:
    """One component more where the residual is large, then one less."""
    residual, (k, d) = problem.residual(state), state.means.shape
    points = rng.standard_normal((max(24, 2 * k), d))
    half = len(points) // 2
    points[:half] = state.means[rng.integers(k, size=half)] + 2.0 * np.sqrt(variance) * points[:half]
    points = climb(problem, residual, variance, points, [1 / 1.2**2, 1 / 2.5**2, 0.0], k, steps=4)
    best = state
    for x in pick(problem, residual, variance, points, 2):
        grown = reweighted(problem, state.joined(x[None], state.family.rounded([variance], d)))
        grown = refine(problem, grown, 60, boxed=True, saddles=True, **limits)
        for drop in np.argsort(grown.weights)[: min(3, k)]:
            smaller = reweighted(problem, grown.select(np.delete(np.arange(k + 1), drop)))
            smaller = refine(problem, smaller, 60, boxed=True, saddles=True, **limits)
            if smaller.value < best.value:
                best = smaller
    return refine(problem, best, 200, boxed=True, saddles=True, **limits) if best is not state else state


def _undetermined(problem: Problem, state: State, limits: dict[str, float]) -> tuple[int, ...]:
    """Components with next to no weight or at the edge of what the sketch resolves."""
    low, high = state.family.bounds(problem.dim, limits["smallest"], limits["largest"])
    edge = ((state.shapes[:, 1:] <= low[1:] + 1e-9) | (state.shapes[:, 1:] >= high[1:] - 1e-9)).any(1)
    edge |= state.shapes[:, 0] <= low[0] + 1e-6
    light = state.simplex * problem.n < min(10.0, 0.5 * problem.n / state.k)
    return tuple(int(l) for l in np.flatnonzero(edge | light))
