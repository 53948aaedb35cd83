"""Alternating descent conditional gradient (Boyd, Schiebinger and Recht 2017) for a measure of given mass.

The misfit is minimised over all positive measures of mass 1.  A step of the conditional gradient method adds the atom
that correlates best with the residual; then the fully corrective part alternates: weights by non-negative least
squares, atoms without weight dropped, places down the gradient of the misfit.  The measure may hold more atoms than
clusters; at the end those that matter least are removed.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.budget import FEW_STEPS, GAIN, PATIENCE
from sketchlearn.decoders.kmeans.published.outcome import highest, nothing, published
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import refine_shared
from sketchlearn.decoders.steps.weights import reweighted


@published("alternating descent")
def decode_adcg(
    problem: Problem, k: int, variance: float, rng: np.random.Generator, *, starts: int = 30, surplus: float = 1.0
) -> tuple[State, int]:
    """Decode k centres by conditional gradients with descent of the places.

    `starts` is the number of places that the search for the next atom starts from, `surplus` how many atoms the measure
    may hold beyond k, as a share of k.
    """
    if surplus < 0:
        raise ValueError("surplus must not be negative")
    most = k + int(np.ceil(surplus * k))
    state, least, waited, rounds = nothing(problem, variance), np.inf, 0, 0
    while rounds < 3 * most:
        rounds += 1
        atom, _ = highest(problem, state, starts, rng)
        state = corrected(problem, state.joined(atom[None], state.shapes))
        waited = 0 if state.value < GAIN * least else waited + 1
        least = min(state.value, least)
        done = state.k >= k and problem.explains(state, k)
        if waited >= PATIENCE or state.k >= most or done:
            break
    return state, rounds


def corrected(problem: Problem, state: State) -> State:
    """Weights and places in turn; atoms without weight are dropped."""
    for _ in range(2):
        state = reweighted(problem, state)
        keep = state.weights > 1e-6 * state.weights.max(initial=0.0)
        if not keep.any():
            return State(state.family, np.full(1, 1e-6), state.means[:1], state.shapes, problem.energy)
        state = refine_shared(problem, state.select(keep), FEW_STEPS, free=False, largest=1.0)
    return state
