"""Iterative thresholding of a mixture from its sketch (Bourrier, Gribonval and Perez 2013; Bourrier 2014).

The model has k atoms.  A round adds the atoms that correlate best with the residual (several local maxima, each
climbed from a random place), fits all weights by non-negative least squares, and keeps the k heaviest: a hard
threshold, as in iterative hard thresholding for sparse vectors; then the atoms that are left move down the misfit.
It ends when the residual no longer falls.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.budget import FEW_STEPS, GAIN, PATIENCE
from sketchlearn.decoders.kmeans.published.outcome import nothing, published
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import climb, pick
from sketchlearn.decoders.steps.refine import refine_shared
from sketchlearn.decoders.steps.weights import reweighted


@published("thresholding")
def decode_thresholding(
    problem: Problem,
    k: int,
    variance: float,
    rng: np.random.Generator,
    *,
    candidates: int | None = None,
    rounds: int = 50,
) -> tuple[State, int]:
    """Decode k centres by adding atoms and keeping the k heaviest.

    `candidates` is the number of atoms that are added in a round, by default 2k; `rounds` the most rounds.
    """
    more = 2 * k if candidates is None else candidates
    state = best = nothing(problem, variance)
    waited = done = 0
    while done < rounds and waited < PATIENCE:
        done += 1
        residual = problem.residual(state)
        points = climb(problem, residual, variance, rng.standard_normal((2 * more, problem.dim)), [0.1, 0.0], k)
        union = reweighted(problem, state.joined(pick(problem, residual, variance, points, more), state.shapes))
        heaviest = np.argsort(-union.weights)[:k]
        keep = np.sort(heaviest[union.weights[heaviest] > 0])
        if not len(keep):
            break
        state = refine_shared(problem, union.select(keep), FEW_STEPS, free=False, largest=1.0)
        waited = 0 if state.value < GAIN * best.value else waited + 1
        best = min(state, best, key=lambda s: s.value)
    return best, done
