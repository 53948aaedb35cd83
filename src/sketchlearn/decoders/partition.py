"""k-means and k-medians on a decoded mixture: the last step, which never touches the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.kernels import lloyd

CRITERIA = {"means": "kmeans", "medians": "kmedians"}


def check_criterion(criterion: str) -> None:
    """Refuse what is no criterion."""
    if criterion not in CRITERIA:
        raise ValueError(f"criterion={criterion!r}: choose 'means' or 'medians'")


def task_of(criterion: str) -> str:
    """The task that a criterion belongs to."""
    return CRITERIA[criterion]


def partition(
    mixture: Mixture,
    k: int,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    points: int = 8000,
    restarts: int = 5,
    gain: float = 0.01,
    criterion: str = "means",
) -> tuple[Array, Array, float]:
    """Centres, weights of the cells, and mean cost (squared distance; distance for medians).

    Points drawn from the mixture (with importance weights) are clustered, from `start` and from
    `restarts` random starts; a random start wins only if it is better by the relative `gain`.
    """
    x, w, owner = mixture.weighted_points(max(points, 60 * mixture.n_components), rng)
    best: tuple[Array, float] | None = None
    if start is not None:
        best = _lloyd(x, w, start, 1, rng)
        if restarts and mixture.n_components == k and k > 20 and _overlap(mixture, x, w, owner) < 0.005:
            restarts = 0
    if restarts or best is None:
        other = _lloyd(x, w, k, max(restarts, 1), rng)
        if best is None or other[1] < best[1] * (1.0 - gain):
            best = other
    centers = best[0]
    if criterion == "medians":
        centers = _weiszfeld(x, w, centers)
    distances = _squared_distances(x, centers)
    labels = distances.argmin(1)
    cost = distances[np.arange(len(x)), labels]
    if criterion == "medians":
        cost = np.sqrt(cost)
    weights = np.bincount(labels, w, k)
    return centers, weights / weights.sum(), float(w @ cost / w.sum())


def nearest_cost(problem: Problem, mixture: Mixture, criterion: str) -> float:
    """Estimate of the mean cost from the total variance (points have no width of their own).

    At low frequencies the sketch knows the total variance of the data (1 per column in normalised units);
    what the spread of the points doesn't explain is the cost.
    """
    spread = float(mixture.weights @ ((mixture.means - mixture.mean) ** 2).sum(1))
    within = max(problem.dim - spread, 0.0)
    return within if criterion == "means" else float(np.sqrt(within))


def _lloyd(x: Array, w: Array, init: Array | int, restarts: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Best of some runs: from given centres, or from greedy k-means++ starts."""
    columns = np.ascontiguousarray(x.T, np.float32)
    best: tuple[Any, float] | None = None
    for _ in range(restarts):
        if isinstance(init, int):
            tries = 2 + int(np.log(init)) if init > 1 else 1
            centers = lloyd.seed_centers(columns, w, init, rng.uniform(size=(init, tries)))
        else:
            centers = np.array(init, np.float32)
        _, cost = lloyd.lloyd(columns, w, centers, 100, 1e-5)
        if best is None or cost < best[1]:
            best = centers, float(cost)
    assert best is not None
    centers, _ = best
    _, cost = lloyd.lloyd(columns, w, centers, 100, 1e-9)
    return centers.astype(np.float64), float(cost)


def _squared_distances(x: Array, centers: Array) -> Array:
    d2 = (x**2).sum(1)[:, None] - 2.0 * x @ centers.T + (centers**2).sum(1)
    return np.maximum(d2, 0.0)


def _overlap(mixture: Mixture, x: Array, w: Array, owner: npt.NDArray[np.intp]) -> float:
    """Share of the mass that lies closer to another component than to its own."""
    return float(w[_squared_distances(x, mixture.means).argmin(1) != owner].sum() / w.sum())


def _weiszfeld(x: Array, w: Array, centers: Array, rounds: int = 60) -> Array:
    """Lloyd's alternation with geometric medians instead of means."""
    scale = np.sqrt(np.average(_squared_distances(x, centers).min(1), weights=w)) + 1e-300
    for _ in range(rounds):
        d2 = _squared_distances(x, centers)
        labels = d2.argmin(1)
        pull = w / np.sqrt(d2[np.arange(len(x)), labels] + (1e-6 * scale) ** 2)
        mass = np.bincount(labels, pull, len(centers))
        moved = np.stack([np.bincount(labels, pull * x[:, j], len(centers)) for j in range(x.shape[1])], 1)
        new = np.where(mass[:, None] > 0, moved / np.maximum(mass, 1e-300)[:, None], centers)
        if np.abs(new - centers).max() < 1e-6 * scale:
            return new
        centers = new
    return centers
