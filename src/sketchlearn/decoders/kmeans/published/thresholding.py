"""Iterative thresholding of a mixture from its sketch (Bourrier, Gribonval and Perez 2013; Bourrier 2014).

The model has k atoms.  A round adds the atoms that correlate best with the residual (several local maxima, each
climbed from a random place), fits all weights by non-negative least squares, and keeps the k heaviest: a hard
threshold, as in iterative hard thresholding for sparse vectors; then the atoms that are left move down the misfit.
It ends when the residual no longer falls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.kmeans.published import outcome
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import descended
from sketchlearn.decoders.steps.greedy import climb, pick
from sketchlearn.decoders.steps.refine import refine_shared
from sketchlearn.decoders.steps.weights import reweighted
from sketchlearn.sketches.value import Sketch

_STEPS = 15  # of the descent in a round
_GAIN = 0.99
_PATIENCE = 3


def decode_thresholding(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    width: float | None = None,
    candidates: int | None = None,
    rounds: int = 50,
    polish: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres by adding atoms and keeping the k heaviest.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    width : float, optional
        Standard deviation of a cluster in the units of the rows, 0 for points; by default what the sketch resolves.
    candidates : int, optional
        Atoms that are added in a round, by default 2k.
    rounds : int
        Most rounds.
    polish : bool
        End with a descent on all parameters.
    """
    more = 2 * n_components if candidates is None else candidates
    if more < 1 or rounds < 1:
        raise ValueError("candidates and rounds must be at least 1")
    problem = outcome.prepared(sketch, criterion)
    k, variance = n_components, outcome.envelope(problem, n_components, width)
    state = State.shared(np.zeros(0), np.zeros((0, problem.dim)), variance)
    best, waited, done = state, 0, 0
    while done < rounds:
        done += 1
        residual = problem.residual(state)
        points = climb(problem, residual, variance, rng.standard_normal((2 * more, problem.dim)), [0.1, 0.0], k)
        union = state.joined(pick(problem, residual, variance, points, more), state.shapes)
        if not union.k:
            break
        union = reweighted(problem, union)
        heaviest = np.argsort(-union.weights)[:k]
        keep = np.sort(heaviest[union.weights[heaviest] > 0])
        if not len(keep):
            break
        state = refine_shared(problem, union.select(keep), _STEPS, free=False, largest=1.0)
        waited = 0 if state.value < _GAIN * best.value else waited + 1
        if state.value < best.value:
            best = state
        if waited >= _PATIENCE:
            break
    state = descended(problem, outcome.reduced(problem, best, k, rng), free=width is None, polish=polish)
    return outcome.solution(problem, state, "thresholding", criterion, rng, rounds=done, trace=trace)
