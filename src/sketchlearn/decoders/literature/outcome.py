"""What the decoders of this room share: a problem from a sketch, the last descent, and a solution with its verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.partition import check_criterion, partition, task_of
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit, misfit, noise_floor, refine
from sketchlearn.decoders.search import prune, refine_shared
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

_STEPS = 100
_EQUATIONS, _KNOWN = 2.5, 0.5  # fewest numbers of the sketch for one of the model, largest relative error of a weight
_LIGHTEST = 1e-12  # a descent may take all weight from components that explain nothing
_NARROWEST = 1e-8  # variance of points, in units of the data's own


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


def descended(
    problem: Problem, means: Array, weights: Array, variance: float, free: bool = True, polish: bool = True
) -> Fit:
    """Means, weights and, if `free`, one shared width after a last descent; as they are without `polish`."""
    if not polish:
        fit = Fit(means, weights, np.full(len(means), max(variance, _NARROWEST)))
        fit.value = misfit(problem, fit, "spherical")
        return fit
    largest = max(4.0 * variance, 4.0 / problem.effective_radius(len(means)) ** 2)
    c, a, s, value = refine_shared(
        problem, means, np.maximum(weights, 1e-6), variance, free, _STEPS, largest, lightest=1e-3
    )
    return Fit(c, np.maximum(a, _LIGHTEST), np.full(len(c), max(s, _NARROWEST)), value)


def with_own_widths(problem: Problem, fit: Fit, steps: int = _STEPS) -> Fit:
    """The fit with a width of its own for each component, if that explains more."""
    largest = max(10.0 * float(fit.covariances.max()), 1e-4)
    start = Fit(fit.means, np.maximum(fit.weights, 1e-6), np.maximum(fit.covariances, 1e-6))
    found = refine(problem, start, "spherical", steps, largest=largest)
    found.weights = np.maximum(found.weights, _LIGHTEST)
    return found if np.isfinite(found.value) and found.value < fit.value else fit


def reduced(problem: Problem, means: Array, variance: float, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Exactly k of some components with their weights: those that matter most, and copies if there are too few."""
    kept, weights = prune(problem, means, variance, k)
    short = k - len(kept)
    if short > 0:
        extra = kept[rng.integers(len(kept), size=short)]
        kept = np.vstack([kept, extra + 1e-3 * rng.standard_normal(extra.shape)])
        weights = np.append(weights, np.zeros(short))
    return np.clip(kept, *problem.box), np.maximum(weights, 0.0)


def doubt_of(problem: Problem, fit: Fit, value: float) -> str:
    """Why a model with a small misfit need not be the right one; empty if nothing speaks against it."""
    k, d = fit.means.shape
    if noise.drowned(problem.n, problem.added):
        return "most of its noise was added to it: wrong centres may explain it as well"
    if 2 * problem.size < _EQUATIONS * k * (d + 2):
        return "the sketch has hardly more numbers than the model: almost anything fits it; use a larger one"
    gram, _ = problem.gram(fit.means, fit.covariances)
    inverse = np.linalg.inv(gram + 1e-9 * np.trace(gram) / k * np.eye(k))
    errors = np.sqrt(np.maximum(np.diag(inverse), 0.0) * value / (2 * problem.size))
    if (errors > _KNOWN * np.maximum(fit.weights, 0.0)).any():
        return "it does not determine all weights: clusters coincide, the map is too coarse or there is too much noise"
    return ""


def solution(
    problem: Problem,
    fit: Fit,
    name: str,
    criterion: str,
    rng: np.random.Generator,
    *,
    rounds: int,
    trace: list[dict[str, Any]] | None,
) -> ClusterSolution:
    """Centres of the cells of a fitted mixture, and how well it explains the sketch."""
    k = len(fit.means)
    value = misfit(problem, fit, "spherical")
    floor, _ = noise_floor(problem, fit, "spherical")
    ratio = value / floor
    weights = np.maximum(fit.weights, _LIGHTEST)
    mixture = Mixture(weights / weights.sum(), fit.means, fit.covariances)
    centers, shares, cost = partition(mixture, k, rng, start=fit.means, restarts=0, criterion=criterion)
    code, verdict = verdicts.of_search(ratio, name, doubt_of(problem, fit, value))
    return ClusterSolution(
        task=task_of(criterion),
        decoder=name,
        residual=value,
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
