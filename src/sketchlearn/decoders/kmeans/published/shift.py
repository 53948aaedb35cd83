"""Sketch-and-shift (Belhadji and Gribonval 2024): mean-shift on the density that a sketch describes.

The residual's correlation with an atom, as a function of place, is a smoothed density of the rows less what has been
explained: its modes are clusters.  The published form repeats: many points climb to the modes at once (mean-shift, a
fixed-point iteration without a step size), the heaviest that are apart become atoms, weights are fitted by
non-negative least squares, and the residual is climbed again, until k atoms are there; then all of them climb once
more, each on what the others leave.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.kmeans.published.outcome import LIGHT, nothing, published
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import climb, pick
from sketchlearn.decoders.steps.weights import reweighted

_COARSEST = 0.5  # variance of the first smoothing, in units of the data's own


@published("sketch-and-shift")
def decode_shift(
    problem: Problem, k: int, variance: float, rng: np.random.Generator, *, starts: int = 30
) -> tuple[State, int]:
    """Decode k centres as modes of the sketched density.

    `starts` is the number of points per missing cluster that climb in a round.
    """
    levels = [_COARSEST, np.sqrt(_COARSEST * variance), 0.0] if 0 < variance < _COARSEST else [_COARSEST, 0.0]
    state, rounds = nothing(problem, variance), 0
    while state.k < k and rounds < 3 * k + 3:
        rounds += 1
        residual = problem.residual(state)
        points = rng.standard_normal((min(starts * (k - state.k), 4096), problem.dim))
        modes = climb(problem, residual, variance, points, levels, k, steps=12)
        found = pick(problem, residual, variance, modes, -(-(k - state.k) // 2))
        if not len(found):
            break
        state = _fitted(problem, state.joined(found, state.shapes), k)
    return _swept(problem, state, variance, k), rounds


def _fitted(problem: Problem, state: State, k: int) -> State:
    """Atoms with a weight, by non-negative least squares: the k heaviest at most."""
    weights = reweighted(problem, state).weights
    order = np.argsort(-weights)[:k]
    return reweighted(problem, state.select(np.sort(order[weights[order] > LIGHT * weights.max(initial=0.0)])))


def _swept(problem: Problem, state: State, variance: float, k: int) -> State:
    """Every atom climbs what the others leave of the sketch, a few times."""
    for _ in range(6 if state.k else 0):
        means = state.means.copy()
        for l in range(state.k):
            others = State(state.family, state.weights, means, state.shapes).select(np.arange(state.k) != l)
            means[l] = climb(problem, problem.residual(others), variance, means[l : l + 1], [0.0], k, steps=2)[0]
        state = reweighted(problem, State(state.family, state.weights, means, state.shapes))
    return state
