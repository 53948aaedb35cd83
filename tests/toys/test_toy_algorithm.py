"""A published algorithm in a page: orthogonal matching pursuit without replacement (Bourrier et al. 2013)."""

import numpy as np
from clusters import gaussian_clusters, mean_cost

import sketchlearn as sl
from sketchlearn.decoders import register_decoder
from sketchlearn.decoders.kmeans.published import outcome
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import descended
from sketchlearn.decoders.steps.pursuit import best_point, normal_places
from sketchlearn.decoders.steps.weights import reweighted


@register_decoder("kmeans", "toy-pursuit")
def pursuit(sketch, k, *, rng, trace=None, criterion="means", width=None, candidates=20):
    """k times: the atom that correlates best with the residual, then all weights; one descent at the end."""
    problem = outcome.prepared(sketch, criterion)
    variance = outcome.envelope(problem, k, width)
    damped = problem.u * np.exp(-0.5 * variance * problem.operator.squared_norms)
    state = State.shared(np.zeros(0), np.zeros((0, problem.dim)), variance)
    for _ in range(k):
        near = normal_places(problem, candidates, rng)
        place = best_point(problem.reweighted(damped), problem.residual(state), near)
        state = reweighted(problem, state.joined(place[None], state.shapes))
    state = descended(problem, state, free=width is None)
    return outcome.solution(problem, state, "toy pursuit", criterion, rng, rounds=k, trace=trace)


def test_it_finds_clusters_that_are_well_apart():
    X, centers, _ = gaussian_clusters(4, 3, 100, n=8000, seed=3)
    solution = sl.decode(
        sl.sketch(X, sl.design(X[::8], n_components=4, seed=0)), 4, decoder="toy-pursuit", random_state=0
    )
    assert mean_cost(X, solution.centers) < 1.05 * mean_cost(X, centers)
    assert solution.trace[0]["stage"] == "toy pursuit"
