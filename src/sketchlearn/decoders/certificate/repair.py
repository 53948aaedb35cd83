"""Repairing a fit where the tests point: components are added where one is missing, and those not needed pruned.

A search that has put one component on two clusters, or two on one, is in a local minimum that no small step leaves.
The score of a missing component says where to add one; with enough of them everything is explained, and the components
that matter least can go again until as many are left as were asked for.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import over
from sketchlearn.decoders.certificate.examine import RESIDUAL, residual_test
from sketchlearn.decoders.certificate.scores import missing_limit, search_missing
from sketchlearn.decoders.certificate.tangent import Tangent, remainders
from sketchlearn.decoders.certificate.whitened import APART, Whitened
from sketchlearn.decoders.state import State

Box = tuple[Array, Array]


def grow(problem: Whitened, box: Box, rng: np.random.Generator, most: int) -> bool:
    """Add up to `most` components where they are missing; says whether everything is explained then."""
    limit = 0.0
    for i in range(most + 1):
        tangent = Tangent(problem)
        noise = remainders(problem, rng)
        limit = limit or missing_limit(tangent, noise, box, rng)
        left = residual_test(tangent, noise)
        score, place, error, _, _ = search_missing(tangent, noise, box, rng, 120)
        if score < limit and left < 0.75 * RESIDUAL:
            return True
        if score < limit:  # there is something, but not here: look again, harder
            more = search_missing(tangent, noise, box, rng, 400, 160)
            if more[0] > score:
                score, place, error = more[:3]
        if score < 3.0 or i == most or over("more repair"):
            break
        weight = float(np.clip(score * error, 1.0 / problem.n, 0.3))
        problem.replace(with_component(problem.state, place, weight))
        problem.settle()
    return False


def with_component(state: State, place: Array, weight: float) -> State:
    """One more component of the typical shape."""
    state = state.with_weights(state.weights * (1.0 - weight))
    return state.joined(place[None], state.family.typical(state.shapes), np.array([weight]))


def shrink(problem: Whitened, k: int) -> None:
    """Take the least needed components away until k are left."""
    while len(problem.state.weights) > k:
        problem.replace(without(problem.state, int(np.argmin(need(problem)))))
        problem.settle(1)
    problem.settle()


def need(problem: Whitened) -> Array:
    """How badly each component is needed, in squared standard errors: of its weight, or of the way to a heavier one."""
    state = problem.state
    k, d = state.means.shape
    covariance = Tangent(problem).covariance()
    cost = state.weights**2 / np.maximum(np.diag(covariance)[k * d :], 1e-300)
    distances = ((state.means[:, None] - state.means) ** 2).sum(2)
    for l in range(k):
        heavier = np.flatnonzero(state.weights > state.weights[l])
        for j in heavier[np.argsort(distances[l, heavier])[:3]]:
            at, to = np.arange(l * d, l * d + d), np.arange(j * d, j * d + d)
            between = covariance[np.ix_(at, at)] + covariance[np.ix_(to, to)]
            between = between - covariance[np.ix_(at, to)] - covariance[np.ix_(to, at)]
            way = state.means[l] - state.means[j]
            between[np.diag_indices(d)] += 1e-12 * np.trace(between)
            cost[l] = min(cost[l], float(way @ np.linalg.solve(between, way)))
    return cost * problem.n


def without(state: State, l: int) -> State:
    """The state without a component; a near neighbour takes its rows over."""
    means, weights = state.means.copy(), state.weights.copy()
    if len(weights) > 1:
        distances = ((means - means[l]) ** 2).sum(1)
        distances[l] = np.inf
        near = int(np.argmin(distances))
        if distances[near] < (APART * state.width) ** 2:
            total = weights[l] + weights[near]
            means[near] = (weights[l] * means[l] + weights[near] * means[near]) / total
            weights[near] = total
    kept = np.delete(np.arange(len(weights)), l)
    return State(
        state.family, weights[kept] / weights[kept].sum(), means[kept], state.family.select(state.shapes, kept)
    )


def coarse_to_fine(problem: Whitened, k: int, box: Box, rng: np.random.Generator) -> bool:
    """Fit the frequencies below a radius that doubles, growing where they ask for it; k components are left at the end.

    What is fitted below one radius places the components well within the next wavelength: no phase is ambiguous.
    Not so if half as many again don't explain even the first of them: then the data are something else, and it says so.
    """
    w, z = problem.w, problem.z
    d = w.shape[1]
    radii = np.sqrt((w * w).sum(1))
    state = State.shared(np.ones(1), np.zeros((1, d)), 1.0)
    most = k + k // 2 + 3
    radius = max(1.5, float(np.sort(radii)[min(2 * (d + 2), len(radii) - 1)]))
    while True:
        seen = np.flatnonzero(radii <= radius)
        part = Whitened(w[seen], z[seen], problem.n, state, problem.extra[seen])
        part.settle()
        most_here = (2 * len(seen) - 1) // (d + 1)
        explained = grow(part, box, rng, max(min(most, most_here) - len(part.state.weights), 0))
        if len(state.weights) == 1 and len(part.state.weights) == most and not explained:
            return False
        if len(part.state.weights) > max(k, most - 2):
            shrink(part, max(k, most - 3))
        state = part.state
        if len(seen) == len(radii):
            break
        if over("the finer scales"):
            return False
        radius = min(2.0 * radius, float(radii.max()))
    problem.replace(state)
    problem.settle()
    if len(state.weights) > k:
        shrink(problem, k)
    return True
