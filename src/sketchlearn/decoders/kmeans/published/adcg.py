"""Alternating descent conditional gradient (Boyd, Schiebinger and Recht 2017) for a measure of given mass.

The misfit is minimised over all positive measures of mass 1.  A step of the conditional gradient method adds the atom
that correlates best with the residual; then the fully corrective part alternates: weights by non-negative least
squares, atoms without weight dropped, places down the gradient of the misfit.  The measure may hold more atoms than
clusters; at the end those that matter least are removed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.kmeans.published import outcome
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import descended
from sketchlearn.decoders.steps.pursuit import best_point
from sketchlearn.decoders.steps.refine import refine_shared
from sketchlearn.decoders.steps.weights import reweighted
from sketchlearn.sketches.value import Sketch

_STEPS = 20  # of the descent of the places
_SWEEPS = 2  # alternations in a round
_GAIN = 0.995
_PATIENCE = 3


def decode_adcg(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    width: float | None = None,
    starts: int = 30,
    surplus: float = 1.0,
    polish: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres by conditional gradients with descent of the places.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    width : float, optional
        Standard deviation of a cluster in the units of the rows, 0 for points; by default what the sketch resolves.
    starts : int
        Places that the search for the next atom starts from.
    surplus : float
        Atoms the measure may hold beyond k, as a share of k.
    polish : bool
        End with a descent on all parameters.
    """
    if starts < 1 or surplus < 0:
        raise ValueError("starts must be at least 1 and surplus not negative")
    problem = outcome.prepared(sketch, criterion)
    k, variance = n_components, outcome.envelope(problem, n_components, width)
    most = k + int(np.ceil(surplus * k))
    damped = problem.u * np.exp(-0.5 * variance * problem.operator.squared_norms)  # atoms have this envelope
    state = State.shared(np.zeros(0), np.zeros((0, problem.dim)), variance)
    least, waited, rounds = np.inf, 0, 0
    while rounds < 3 * most:
        rounds += 1
        near = np.clip(rng.standard_normal((starts, problem.dim)), *problem.box)
        atom = best_point(problem.reweighted(damped), problem.residual(state), near)
        state = corrected(problem, state.joined(atom[None], state.shapes))
        waited = 0 if state.value < _GAIN * least else waited + 1
        least = min(state.value, least)
        floor, deviation = problem.floor(state, k)
        done = state.k >= k and state.value < floor * (1.0 + 2.0 * deviation)
        if waited >= _PATIENCE or state.k >= most or done:
            break
    state = descended(problem, outcome.reduced(problem, state, k, rng), free=width is None, polish=polish)
    return outcome.solution(problem, state, "alternating descent", criterion, rng, rounds=rounds, trace=trace)


def corrected(problem: Problem, state: State) -> State:
    """Weights and places in turn; atoms without weight are dropped."""
    for _ in range(_SWEEPS):
        state = reweighted(problem, state)
        keep = state.weights > 1e-6 * state.weights.max(initial=0.0)
        if not keep.any():
            return State(state.family, np.full(1, 1e-6), state.means[:1], state.shapes, problem.energy)
        state = refine_shared(problem, state.select(keep), _STEPS, free=False, largest=1.0)
    return state
