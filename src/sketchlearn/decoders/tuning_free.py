"""The default decoder for k-means: nothing to tune, and it says whether it worked.

1. Search k components with a shared width (:mod:`sketchlearn.decoders.search`), restarting while the
   certificate (misfit over noise floor) says that something is missing.
2. If the misfit stays above three noise floors, the isotropic model is wrong.  Per-component variances are
   tried first; if they don't halve the misfit, an over-complete mixture with a full covariance per
   component is fitted, with shrinkage scaled to the misfit, several times, and the fits are pooled.
3. k-means (or k-medians) on the decoded mixture gives the centres.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.partition import partition
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit, refine
from sketchlearn.decoders.search import Found, search
from sketchlearn.decoders.solution import Mixture, Solution
from sketchlearn.sketch.value import Sketch

MISMATCH = 3.0  # misfit over noise floor beyond which the model is taken to be wrong
_RESTARTS = 3
_SHRINKAGE = 0.1
_FULL_STEPS = 300


def decode_tuning_free(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    n_decodes: int | None = None,
    start: Array | None = None,
    trace: list[dict[str, Any]] | None = None,
) -> Solution:
    """Decode k centres; see the module for the steps."""
    problem = Problem.from_sketch(sketch)
    k = n_components
    found = _best_of_restarts(problem, k, rng, start, trace)
    mixture, path = _spherical(found, np.full(k, found.variance)), "k components"
    residual, ratio, pooled = found.value, found.ratio, 1
    if ratio > MISMATCH:
        mixture, path, residual, pooled = _fall_back(problem, found, k, rng, n_decodes, trace)
        ratio = residual / found.floor
    over_complete = mixture.n_components > k
    centers, weights, cost = partition(
        mixture,
        k,
        rng,
        start=None if over_complete else found.means,
        points=(20_000 if pooled == 1 else 40_000) if over_complete else 8000,
        restarts=15 if over_complete else 5,
        gain=0.0 if over_complete else 0.01,
        criterion=criterion,
    )
    reliable, verdict = judge(ratio, found, path)
    power = 2 if criterion == "means" else 1
    return Solution(
        mixture=mixture.scaled(problem.scale, problem.center),
        centers=centers * problem.scale + problem.center,
        weights=weights,
        residual=residual,
        noise_floor=found.floor,
        ratio=ratio,
        reliable=reliable,
        verdict=verdict,
        decoder=f"tuning-free ({path})",
        iterations=found.rounds,
        inertia=cost * problem.scale**power,
        trace=trace or [],
    )


def _best_of_restarts(
    problem: Problem, k: int, rng: np.random.Generator, start: Array | None, trace: list[dict[str, Any]] | None
) -> Found:
    begin = None if start is None else (start - problem.center) / problem.scale
    best: Found | None = None
    for attempt in range(_RESTARTS):
        found = search(problem, k, rng, start=begin if attempt == 0 else None, effort=1 + attempt, trace=trace)
        if best is None or found.value < best.value:
            best = found
        if best.certified:
            break
    assert best is not None
    return best


def _spherical(found: Found, variances: Array) -> Mixture:
    return Mixture(_simplex(found.weights), found.means, variances)


def _simplex(weights: Array) -> Array:
    w = np.maximum(weights, 0.0)
    return w / w.sum()


def _fall_back(
    problem: Problem,
    found: Found,
    k: int,
    rng: np.random.Generator,
    n_decodes: int | None,
    trace: list[dict[str, Any]] | None,
) -> tuple[Mixture, str, float, int]:
    """Mixture, path, misfit and number of pooled decodes for data that the isotropic model doesn't explain."""
    alone = Fit(found.means, found.weights, np.full(k, max(found.variance, 1e-6)), found.value)
    hetero = refine(problem, alone, "spherical", 100, largest=10 * max(found.variance, 1e-4))
    if hetero.value < 0.5 * found.value and (n_decodes is None or hetero.value < MISMATCH * found.floor):
        return Mixture(_simplex(hetero.weights), hetero.means, hetero.covariances), "own variances", hetero.value, 1
    d, m = problem.dim, problem.size
    count = min(2 * k, max(m // (2 * (d + 2)), k))
    fits = []
    for _ in range(n_decodes or 2):
        wide = search(problem, count, rng, replacements=8, trace=trace)
        fits.append(_full_covariances(problem, wide))
    weights = np.concatenate([_simplex(f.weights) for f in fits]) / len(fits)
    mixture = Mixture(weights, np.concatenate([f.means for f in fits]), np.concatenate([f.covariances for f in fits]))
    misfit = float(np.mean([f.value for f in fits]))
    return mixture, f"{len(fits)} x {count} components with full covariances", misfit, len(fits)


def _full_covariances(problem: Problem, found: Found) -> Fit:
    """Diagonal, then full covariances, shrunk to the pooled one in proportion to the misfit."""
    k, d = found.means.shape
    widest = float(4.0 * np.max(np.ptp(np.stack(problem.box), axis=0)) ** 2)
    start = Fit(found.means, np.maximum(found.weights, 1e-4), np.full((k, d), max(found.variance, 1e-6)), found.value)
    diagonal = refine(problem, start, "diag", 60, largest=widest)
    weights = np.maximum(diagonal.weights, 1e-4)
    average = np.average(diagonal.covariances, axis=0, weights=weights)
    s = np.maximum(diagonal.covariances, 0.02 * average)[:, :, None] * np.eye(d)
    strength = _SHRINKAGE * 2.0 * diagonal.value / problem.size
    full = refine(
        problem, Fit(diagonal.means, weights, s, np.inf), "full", _FULL_STEPS, largest=widest, strength=strength
    )
    return full


def judge(ratio: float, found: Found, path: str) -> tuple[bool, str]:
    """The certificate, and what it means in words."""
    if ratio <= MISMATCH:
        return True, (
            f"reliable: the misfit is {ratio:.2f} times what sampling noise alone leaves, so the model explains the data"
        )
    return False, (
        f"not certified: the misfit is {ratio:.3g} times the noise floor. Either components are missing (try more "
        "components, a larger sketch, or another seed) or the clusters are not Gaussian, as on most real data; "
        f"the centres then come from a richer model ({path}) and are usually close to those of k-means"
    )
