"""Message passing with descents in between: the proposals of :mod:`~sketchlearn.decoders.steps.messages`, made fits.

Most clusters are known long before the messages agree on all: a descent is tried early, and what it misses is looked
for at the peaks of the residual, so that the number of sweeps does not grow with k.  The state with the smallest misfit
counts; while it is above the noise, the messages start again, from some of what they have found and then elsewhere.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.budget import AGREE, GAIN, PATIENCE, RESTARTS, STEPS
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import LIGHTEST, NARROWEST, State
from sketchlearn.decoders.steps.greedy import search, widest
from sketchlearn.decoders.steps.messages import Passing
from sketchlearn.decoders.steps.refine import refine, refine_shared

ROUNDS = 40  # EM steps of a run of messages


def best_of_runs(
    passing: Passing, restarts: int = RESTARTS, rounds: int = ROUNDS, polish: bool | None = None
) -> tuple[State, int]:
    """The state with the lowest misfit, and how many runs it took until one explained the sketch or two agreed."""
    problem = passing.problem
    descend = not problem.drowned if polish is None else polish
    best: State | None = None
    values: list[float] = []
    for _ in range(restarts):
        state = _attempt(problem, passing, rounds, descend)
        values.append(state.value)
        if best is None or state.value < best.value:
            best = state
        # under additive noise wrong centres can come near the floor: the lowest misfit of several runs counts
        enough = len(values) >= (PATIENCE if problem.drowned else 1) and problem.explains(best)
        agree = len(values) > 1 and sorted(values)[1] < AGREE * min(values)
        if enough or (agree and not problem.drowned) or _spent(passing):
            break
    assert best is not None
    return best, len(values)


def descended(problem: Problem, state: State, *, free: bool = True, polish: bool = True) -> State:
    """Components of one width after a last descent on means, weights and, if `free`, the width; as they are if not."""
    variance = float(np.mean(state.shapes))
    state = State.shared(state.weights, state.means, variance)
    if polish:
        start = state.revived()
        largest = max(4.0 * variance, widest(problem, state.k))
        state = refine_shared(problem, start, STEPS, free=free, largest=largest, lightest=1e-3)
    widths = np.full(state.k, max(float(state.shapes[0]), NARROWEST))
    out = State(SPHERICAL, np.maximum(state.weights, LIGHTEST), state.means, widths, state.value)
    return out if polish else State(SPHERICAL, state.weights, state.means, widths, problem.misfit(out))


def with_own_widths(problem: Problem, state: State) -> State:
    """The state with a width of its own for each component, if that explains more."""
    start = State(SPHERICAL, state.weights, state.means, np.maximum(state.shapes, 1e-6))
    found = refine(problem, start.revived(), STEPS, largest=max(10.0 * float(state.shapes.max()), 1e-4))
    if not (np.isfinite(found.value) and found.value < state.value):
        return state
    return State(SPHERICAL, np.maximum(found.weights, LIGHTEST), found.means, found.shapes, found.value)


def _attempt(problem: Problem, passing: Passing, rounds: int, descend: bool) -> State:
    """A run from random centres, and others that forget some of what was found, while that helps."""
    if not descend:
        return passing.run(passing.somewhere(), rounds)
    best = _staged(problem, passing, rounds)
    failures = 0
    while failures < PATIENCE and not problem.explains(best) and not _spent(passing):
        state = _polished(problem, passing.run(passing.released(best, failures), rounds))
        failures = 0 if state.value < GAIN * best.value else failures + 1
        if state.value < best.value:
            best = state
    return best


def _staged(problem: Problem, passing: Passing, rounds: int) -> State:
    """One run of the messages, which ends as soon as a descent from where they are explains the sketch."""
    messages = passing.somewhere()
    for stage in (4, 8, 16):
        if stage >= rounds:
            break
        state = _polished(problem, passing.run(messages, stage - messages.round))
        if not problem.explains(state):
            found = search(problem, state.k, passing.rng, start=state.means).state
            widths = np.full(state.k, max(float(found.shapes[0]), NARROWEST))
            other = State(SPHERICAL, np.maximum(found.weights, 0.0), found.means, widths, found.value)
            state = min(state, with_own_widths(problem, other), key=lambda s: s.value)
        if problem.explains(state):
            return state
    return _polished(problem, passing.run(messages, rounds - messages.round))


def _polished(problem: Problem, state: State) -> State:
    """A descent on all parameters, with one width first."""
    width = float(state.weights @ state.shapes)
    return with_own_widths(problem, descended(problem, State.shared(state.weights, state.means, width)))


def _spent(passing: Passing) -> bool:
    """Whether no run may begin any more."""
    return passing.iterations > 1000
