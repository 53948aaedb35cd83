"""Every number of components from one sketch, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sketchlearn.decoders.certificate import Certifier
from sketchlearn.decoders.kmeans.partition import partition
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import Code
from sketchlearn.decoders.steps.greedy import Found, search
from sketchlearn.decoders.sweep import CERTIFIED, Sweep, SweepRow, numbers_of_components
from sketchlearn.decoders.verdicts import CLUSTERS
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

_EXPLAINED = 1.5  # misfit over noise floor of a model that may be right
_DROP = 1.6  # of the misfit, by one more component that is a cluster


def sweep_kmeans(sketch: Sketch, ks: Iterable[int], *, rng: np.random.Generator) -> Sweep:
    """Decode every k, each warm-started from the last."""
    numbers = numbers_of_components(sketch, ks)
    metric = standard_metric(characteristic(sketch.features))
    problem = Problem.from_sketch(sketch, metric)
    certifier = Certifier(problem, rng)
    rows, models, found, certified = [], [], None, None
    for k in numbers:
        found = _next(problem, k, rng, found)
        if certified is None and found.ratio <= CLUSTERS and certifier.can(k):
            certified = k if certifier.certify(found.state).passed else None
        mixture = found.state.with_weights(np.maximum(found.state.weights, 1e-12)).mixture()
        centers_cost = partition(mixture, k, rng, start=mixture.means, points=4000, restarts=0).cost
        parameters = k * (problem.dim + 1) + 1
        criterion = 2 * problem.size * np.log(found.value) + parameters * np.log(2 * problem.size)
        inertia = centers_cost * problem.scale**2
        code = Code.UNCERTIFIED if found.ratio <= CLUSTERS else Code.MISFIT
        code = Code.RELIABLE if k == certified else code
        rows.append(SweepRow(k, found.value, found.ratio, inertia, float(criterion), code))
        models.append(problem.mixture(mixture))
    return Sweep(tuple(rows), *_recommend(rows, certified), tuple(models))


def _next(problem: Problem, k: int, rng: np.random.Generator, last: Found | None) -> Found:
    """k components from the last solution, and from scratch where that doesn't explain the data."""
    found = search(problem, k, rng, start=None if last is None else last.state.means, replacements=8)
    if not found.explained and (last is None or found.value > 0.3 * last.value):
        fresh = search(problem, k, rng, replacements=8)
        found = fresh if fresh.value < found.value else found
    return found


def _recommend(rows: list[SweepRow], certified: int | None) -> tuple[int, str]:
    if certified is not None:
        return certified, f"{CERTIFIED}: no cluster is missing, and the sketch determines all"
    for row in rows:
        if row.ratio < _EXPLAINED:
            return row.k, (
                f"the smallest k whose misfit is at the noise floor (ratio {row.ratio:.2f}), though it is not certified"
            )
    # no k explains the data: clusters are not round, and more components than clusters still help, but slowly
    because = "no k brings it down to the noise: the clusters are not round Gaussians of one width, or k must be larger"
    chosen, least, at = None, rows[0].residual, rows[0].k
    for row in rows[1:]:
        if row.residual * _DROP ** (row.k - at) < least:
            chosen = row.k
        if row.residual < least:
            least, at = row.residual, row.k
    if chosen is None:
        return rows[0].k, f"the smallest k, a weak reason: no other lowers the misfit much, and {because}"
    return chosen, f"the last k whose clusters lower the misfit by a factor of {_DROP} each, a weak reason: {because}"
