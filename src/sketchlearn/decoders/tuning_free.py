"""The default decoder for k-means: nothing to tune, and it says whether it worked.

1. Search k components with a shared width (:mod:`sketchlearn.decoders.search`), restarting while the
   certificate (misfit over noise floor) says that something is missing.
2. If the misfit stays above three noise floors, the isotropic model is wrong.  Per-component variances are
   tried first; if they don't halve the misfit, an over-complete mixture with a full covariance per
   component is fitted, with shrinkage scaled to the misfit, several times, and the fits are pooled.
3. k-means (or k-medians) on the decoded mixture gives the centres.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.partition import check_criterion, partition, task_of
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit, noise_floor, refine
from sketchlearn.decoders.search import Found, left_over, search
from sketchlearn.decoders.search import noise_floor as noise_floor_shared
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

_RESTARTS = 3
_MORE_RESTARTS = 10  # while the misfit is so large that a cluster must be missing
_MISSING = 100.0
_CROWDED_RESTARTS = 6  # where noise that was added leaves little else
_SHRINKAGE = 0.1
_NOISE_CAP = 0.01  # frequencies count at most 1 / this times more than those with the full noise
_FULL_STEPS = 200  # half as many in more than 20 dimensions, where each costs much and the last ones gain little
_DECODES = 3  # pooled fits of the richer model
_FINAL_RESTARTS = 12
_ROWS_PER_COMPONENT = 20  # below this, covariances can't be learned


def decode_tuning_free(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    n_decodes: int | None = None,
    start: Array | None = None,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres; see the module for the steps."""
    check_criterion(criterion)
    problem = Problem.from_sketch(sketch, standard_metric(characteristic(sketch.features)))
    k = n_components
    found = _best_of_restarts(problem, k, rng, start, trace)
    if found.ratio < _MISSING:
        found = _look_closer(problem, found, rng, trace)
    plain = _mixture(found.weights, found.means, np.full(k, found.variance))
    fit = _Outcome(plain, found.value, found.floor, "shared width")
    if fit.ratio > verdicts.CLUSTERS:
        fit = _fall_back(problem, found, rng, n_decodes, trace)
    over_complete = fit.mixture.n_components > k
    centers, weights, cost = partition(
        fit.mixture,
        k,
        rng,
        start=None if over_complete else found.means,
        points=20_000 if over_complete else 8000,
        restarts=_FINAL_RESTARTS if over_complete else 5,
        gain=0.0 if over_complete else 0.01,
        criterion=criterion,
    )
    moved = noise.excess_inertia(problem, found.means, found.weights, found.variance) if problem.added.any() else 0.0
    code, verdict = verdicts.of_clusters(fit.ratio, fit.path, k, found.ratio, fit.certifiable, moved)
    return ClusterSolution(
        task=task_of(criterion),
        decoder=f"tuning-free ({fit.path})",
        residual=fit.misfit,
        noise_floor=fit.floor,
        # an over-complete fit can follow the noise: what counts is that the plain model was refuted
        ratio=fit.ratio if fit.certifiable else found.ratio,
        code=code,
        verdict=verdict,
        iterations=found.rounds,
        trace=trace or [],
        mixture=problem.mixture(fit.mixture),
        centers=problem.points(centers),
        weights=weights,
        inertia=cost * problem.scale ** (2 if criterion == "means" else 1),
        criterion=criterion,
    )


@dataclass
class _Outcome:
    """A fitted mixture (normalised units), its misfit and noise floor, and how it came about."""

    mixture: Mixture
    misfit: float
    floor: float
    path: str
    certifiable: bool = True

    @property
    def ratio(self) -> float:
        return self.misfit / self.floor


def _best_of_restarts(
    problem: Problem, k: int, rng: np.random.Generator, start: Array | None, trace: list[dict[str, Any]] | None
) -> Found:
    begin = None if start is None else problem.normalised(start)
    best: Found | None = None
    values: list[float] = []
    # where noise was added, wrong centres can come near the floor: the lowest misfit of several searches counts
    crowded = noise.drowned(problem.n, problem.added)
    for attempt in range(_MORE_RESTARTS):
        if crowded and attempt >= _CROWDED_RESTARTS and best is not None and best.certified:
            break
        if best is not None and attempt >= _RESTARTS and (best.ratio < _MISSING or max(values[-3:]) < 1.2 * best.value):
            break  # close enough, or the searches agree: the model is wrong, not the search
        effort = 1 + attempt % _RESTARTS
        found = search(problem, k, rng, start=begin if attempt == 0 else None, effort=effort, trace=trace)
        values.append(found.value)
        if best is None or found.value < best.value:
            best = found
        if best.certified and not (crowded and attempt < _CROWDED_RESTARTS - 1):
            break
    assert best is not None
    return best


def _look_closer(problem: Problem, found: Found, rng: np.random.Generator, trace: list[dict[str, Any]] | None) -> Found:
    """Search again with frequencies weighted by what noise leaves at each, given the clusters found.

    At low frequencies almost all of the sampling noise is absorbed by the fitted weights and means: a cluster of
    one row in ten thousand, invisible beside the full noise, stands out there.
    """
    k = len(found.means)
    renewed = noise.renewed_weights(problem, left_over(problem, found.variance), _NOISE_CAP)
    closer = problem.reweighted(problem.u / problem.u.max() * renewed)
    again = search(closer, k, rng, start=found.means, replacements=8, trace=trace)
    residual = problem.residual(again.means, again.variance, again.weights)
    value = float(problem.u @ (residual[0] ** 2 + residual[1] ** 2))
    if value > 1.1 * found.value:
        return found
    floor, deviation = noise_floor_shared(problem, k, again.variance)
    return Found(again.means, again.weights, again.variance, value, floor, deviation, found.rounds + again.rounds)


def _mixture(weights: Array, means: Array, covariances: Array) -> Mixture:
    w = np.maximum(weights, 0.0)
    return Mixture(w / w.sum(), means, covariances)


def _fall_back(
    problem: Problem, found: Found, rng: np.random.Generator, n_decodes: int | None, trace: list[dict[str, Any]] | None
) -> _Outcome:
    """A richer model for data that k components of one width don't explain."""
    k = len(found.means)
    alone = Fit(found.means, found.weights, np.full(k, max(found.variance, 1e-6)), found.value)
    own = refine(problem, alone, "spherical", 100, largest=10 * max(found.variance, 1e-4))
    floor = noise_floor(problem, own, "spherical")[0]
    if own.value < verdicts.CLUSTERS * floor:
        return _Outcome(_mixture(own.weights, own.means, own.covariances), own.value, floor, "own widths")
    d, m = problem.dim, problem.size
    if problem.n < _ROWS_PER_COMPONENT * k:
        # too few rows to speak of shapes
        return _Outcome(_mixture(own.weights, own.means, own.covariances), own.value, floor, "own widths, few rows")
    count = min(2 * k, max(m // (2 * (d + 2)), k))
    fits = []
    for _ in range(n_decodes or _DECODES):
        fits.append(_full_covariances(problem, search(problem, count, rng, replacements=8, trace=trace)))
    pool = _mixture(
        np.concatenate([np.maximum(f.weights, 0.0) / np.maximum(f.weights, 0.0).sum() for f in fits]),
        np.concatenate([f.means for f in fits]),
        np.concatenate([f.covariances for f in fits]),
    )
    misfit = float(np.mean([f.value for f in fits]))
    floor = float(np.mean([noise_floor(problem, f, "full")[0] for f in fits]))
    path = f"{len(fits)} pooled fits of {count} components with full covariances"
    return _Outcome(pool, misfit, floor, path, certifiable=False)


def _full_covariances(problem: Problem, found: Found) -> Fit:
    """Diagonal, then full covariances, shrunk to the pooled one in proportion to the misfit."""
    k, d = found.means.shape
    widest = max(4.0, float(4.0 * np.max(np.ptp(np.stack(problem.box), axis=0)) ** 2))
    start = Fit(found.means, np.maximum(found.weights, 1e-4), np.full((k, d), max(found.variance, 1e-6)), found.value)
    diagonal = refine(problem, start, "diag", 60, largest=widest)
    weights = np.maximum(diagonal.weights, 1e-4)
    average = np.average(diagonal.covariances, axis=0, weights=weights)
    s = np.maximum(diagonal.covariances, 0.02 * average)[:, :, None] * np.eye(d)
    strength = _SHRINKAGE * 2.0 * diagonal.value / problem.size
    begin = Fit(diagonal.means, weights, s, np.inf)
    steps = _FULL_STEPS if d <= 20 else _FULL_STEPS // 2
    return refine(problem, begin, "full", steps, largest=widest, strength=strength)
