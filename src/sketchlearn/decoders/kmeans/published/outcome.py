"""What published decoders share: a problem from a sketch, the last descent, and a solution with its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sketchlearn.decoders import verdicts
from sketchlearn.decoders.kmeans.partition import check_criterion, partition, task_of
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import LIGHTEST
from sketchlearn.decoders.steps.weights import completed, prune
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

_EQUATIONS, _KNOWN = 2.5, 0.5  # fewest numbers of the sketch for one of the model, largest relative error of a weight


def prepared(sketch: Sketch, criterion: str) -> Problem:
    """The sketch in units of its own width; ValueError for an unknown criterion."""
    check_criterion(criterion)
    return Problem.from_sketch(sketch, standard_metric(characteristic(sketch.features)))


def envelope(problem: Problem, k: int, width: float | None) -> float:
    """Variance of a component: of a width in the units of the rows, or what the sketch resolves if it is None."""
    if width is None:
        return 1.0 / problem.effective_radius(k) ** 2
    if not 0 <= width < np.inf:
        raise ValueError(f"width={width!r}: give a number that is not negative, or None to learn it from the sketch")
    return float((width / problem.scale) ** 2)


def reduced(problem: Problem, state: State, k: int, rng: np.random.Generator) -> State:
    """Exactly k components with their weights: those that matter most, and copies if there are too few."""
    kept = completed(prune(problem, state, k), k, rng)
    means, weights = np.clip(kept.means, *problem.box), np.maximum(kept.weights, 0.0)
    return State(kept.family, weights, means, kept.shapes)


def doubt_of(problem: Problem, state: State) -> str:
    """Why a model with a small misfit need not be the right one; empty if nothing speaks against it."""
    k, d = state.means.shape
    if problem.drowned:
        return "most of its noise was added to it: wrong centres may explain it as well"
    if 2 * problem.size < _EQUATIONS * k * (d + 2):
        return "the sketch has hardly more numbers than the model: almost anything fits it; use a larger one"
    gram, _ = problem.gram(state)
    inverse = np.linalg.inv(gram + 1e-9 * np.trace(gram) / k * np.eye(k))
    errors = np.sqrt(np.maximum(np.diag(inverse), 0.0) * state.value / (2 * problem.size))
    if (errors > _KNOWN * np.maximum(state.weights, 0.0)).any():
        return "it does not determine all weights: clusters coincide, the map is too coarse or there is too much noise"
    return ""


def solution(
    problem: Problem,
    state: State,
    name: str,
    criterion: str,
    rng: np.random.Generator,
    *,
    rounds: int,
    trace: list[dict[str, Any]] | None,
) -> ClusterSolution:
    """Centres of the cells of a fitted mixture, and how well it explains the sketch."""
    state = replace(state, value=problem.misfit(state))
    floor, _ = problem.floor(state)
    ratio = state.value / floor
    mixture = state.with_weights(np.maximum(state.weights, LIGHTEST)).mixture()
    centers, shares, cost = partition(mixture, state.k, rng, start=state.means, restarts=0, criterion=criterion)
    code, verdict = verdicts.of_search(ratio, name, doubt_of(problem, state))
    return ClusterSolution(
        task=task_of(criterion),
        decoder=name,
        residual=state.value,
        noise_floor=floor,
        ratio=ratio,
        code=code,
        verdict=verdict,
        iterations=rounds,
        trace=trace or [],
        mixture=problem.mixture(mixture),
        centers=problem.points(centers),
        weights=shares,
        inertia=cost * problem.scale ** (2 if criterion == "means" else 1),
        criterion=criterion,
    )
