"""What published decoders share: a problem from a sketch, the last descent, and a solution with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from sketchlearn.accepts import NOTHING, whole
from sketchlearn.arrays import Array
from sketchlearn.decoders import drive, verdicts
from sketchlearn.decoders.kmeans.partition import Partition, cluster_model, partition, task_of
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import ClusterSolution, said
from sketchlearn.decoders.state import LIGHTEST, State
from sketchlearn.decoders.steps.amp import descended
from sketchlearn.decoders.steps.pursuit import best_point
from sketchlearn.decoders.steps.weights import completed, prune
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

Algorithm = Callable[..., tuple[State, int]]

LIGHT = 1e-3  # of the mean or the largest weight: lighter components are dropped
_OPTIONS = (
    "`width` is the standard deviation of a cluster in the\n    units of the rows, 0 for points, by default what the "
    "sketch resolves; `polish` says whether to end with a descent on\n    all parameters."
)


def prepared(sketch: Sketch, criterion: str) -> Problem:
    """The sketch in units of its own width; ValueError for an unknown criterion."""
    task_of(criterion)
    return Problem.from_sketch(sketch, standard_metric(characteristic(sketch.features)))


def check_counts(options: dict[str, Any]) -> None:
    """Refuse options that count something and are no positive integers, whatever the algorithm."""
    for name in options.keys() & {"starts", "restarts", "replicates", "rounds", "candidates", "particles", "steps"}:
        (whole() | NOTHING).check(name, options[name])


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
        return "most of the noise in the sketch was added to it: wrong centres may explain it as well"
    if 2 * problem.size < 2.5 * k * (d + 2):
        return "the sketch has hardly more numbers than the model, so almost anything fits: use a larger sketch"
    gram, _ = problem.gram(state)
    inverse = np.linalg.inv(gram + 1e-9 * np.trace(gram) / k * np.eye(k))
    errors = np.sqrt(np.maximum(np.diag(inverse), 0.0) * state.value / (2 * problem.size))
    if (errors > 0.5 * np.maximum(state.weights, 0.0)).any():
        return (
            "the sketch does not determine all weights: clusters coincide, the map is too coarse, or there is too "
            "much noise"
        )
    return ""


def solution(
    problem: Problem,
    state: State,
    name: str,
    criterion: str,
    rng: np.random.Generator,
    *,
    rounds: int,
    trace: list[dict[str, Any]] | None = None,
    floor: float = 0.0,
    cells: Partition | None = None,
    judge: Callable[[float, str, str], verdicts.Verdict] = verdicts.of_search,
) -> ClusterSolution:
    """Centres of the cells of a fitted mixture, and how well it explains the sketch.

    The noise floor is at least `floor`; `cells` are given by algorithms that don't take them from the mixture.
    """
    state = replace(state, value=problem.misfit(state))
    floor = max(problem.floor(state)[0], floor)
    mixture = state.with_weights(np.maximum(state.weights, LIGHTEST)).mixture()
    if cells is None:
        cells = partition(mixture, state.k, rng, start=state.means, restarts=0, criterion=criterion)
    judged = judge(state.value / floor, name, doubt_of(problem, state))
    certificate = said(task_of(criterion), name, state.value, floor, judged, rounds, trace)
    return cluster_model(problem, mixture, cells, criterion, **certificate)


def decoder(algorithm: Callable[..., tuple[State, int, str]]) -> Callable[..., ClusterSolution]:
    """Make a decoder of an algorithm that finds k components (a decorator).

    The algorithm takes a problem, a number of components, a generator and options of its own.  It returns what it
    found, its number of rounds and its name.
    """

    @drive.decoder
    def decode(
        sketch: Sketch, k: int, *, rng: np.random.Generator, criterion: str = "means", **options: Any
    ) -> ClusterSolution:
        check_counts(options)
        problem = prepared(sketch, criterion)
        state, rounds, name = algorithm(problem, k, rng, **options)
        return solution(problem, state, name, criterion, rng, rounds=rounds)

    decode.__module__, decode.__qualname__ = algorithm.__module__, algorithm.__name__
    decode.__doc__ = f'{algorithm.__doc__}\n\n    `criterion` is "means" or "medians".'
    return decode


def published(name: str) -> Callable[[Algorithm], Callable[..., ClusterSolution]]:
    """Make a decoder of an algorithm that finds components of a given variance (a decorator).

    The algorithm takes a problem, a number of components, their variance, a generator and options of its own.  It
    returns what it found, of which the k components that matter most are kept, and its number of rounds.
    """

    def made(algorithm: Algorithm) -> Callable[..., ClusterSolution]:
        @decoder
        @wraps(algorithm)
        def ended(
            problem: Problem,
            k: int,
            rng: np.random.Generator,
            *,
            width: float | None = None,
            polish: bool = True,
            **options: Any,
        ) -> tuple[State, int, str]:
            found, rounds = algorithm(problem, k, envelope(problem, k, width), rng, **options)
            state = descended(problem, reduced(problem, found, k, rng), free=width is None, polish=polish)
            return state, rounds, name

        ended.__doc__ = f"{ended.__doc__} {_OPTIONS}"
        return ended

    return made


def nothing(problem: Problem, variance: float) -> State:
    """No components, of some variance."""
    return State.shared(np.zeros(0), np.zeros((0, problem.dim)), variance)


def highest(problem: Problem, state: State, starts: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Where the residual correlates best with an atom of the state's width, and how well."""
    envelope = np.exp(-0.5 * float(state.shapes[0]) * problem.operator.squared_norms)
    residual, damped = problem.residual(state), problem.u * envelope
    near = np.clip(rng.standard_normal((starts, problem.dim)), *problem.box)
    place = best_point(problem.reweighted(damped), residual, near)
    return place, float(problem.correlation(place[None], damped * residual)[0][0])
