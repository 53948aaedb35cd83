"""k-means and k-medians on a decoded mixture: the last step, which never touches the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders import device
from sketchlearn.decoders.budget import ROUNDS
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.kernels import lloyd
from sketchlearn.models.mixture import Mixture
from sketchlearn.threads import in_parallel

DRAWS = 20_000  # of rows from a mixture, at least; costs are then known to 1 %
_TRIAL = 10_000  # draws that starts are tried on; half as many are those that they are seeded from
_STARTS = 8  # random starts
_PIECE = 2**19  # distances at a time, which stay in the cache
_MEDIANS, _MEDIAN_STARTS = 3000, 4  # draws on which starts of k-medians are tried, and how many next to k-means


def task_of(criterion: str) -> str:
    """The task that a criterion belongs to; ValueError if there is none."""
    if criterion not in ("means", "medians"):
        raise ValueError(f"criterion={criterion!r}: choose 'means' or 'medians'")
    return f"k{criterion}"


class Partition(NamedTuple):
    """Centres (k, d), weights of their cells (k,), and mean cost (squared distance; distance for medians)."""

    centers: Array
    weights: Array
    cost: float


def partition(
    mixture: Mixture,
    k: int,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    restarts: int = 5,
    criterion: str = "means",
) -> Partition:
    """k-means on points drawn from a mixture of k components, from `start` and from `restarts` random starts.

    A random start wins only if it is better by a hundredth.
    """
    x, w, owner = mixture.weighted_points(max(8000, 60 * mixture.n_components), rng)
    best: tuple[Array, float] | None = None
    if start is not None:
        if restarts and _is_best(mixture, k) and _overlap(mixture, x, w, owner) < 0.005:
            return _cells(x, w, start, criterion)
        best = k_means(x, w, start, 1, rng)
        # (single precision does not see clusters that are thousands of times narrower than the data)
        if _cells(x, w, best[0], "means").cost > _cells(x, w, start, "means").cost:
            best = start, best[1]
    if restarts or best is None:
        other = k_means(x, w, k, max(restarts, 1), rng)
        if best is None or other[1] < 0.99 * best[1]:
            best = other
    return _cells(x, w, best[0], criterion)


def partition_thoroughly(mixture: Mixture, k: int, rng: np.random.Generator, criterion: str = "means") -> Partition:
    """k-means on points drawn from a mixture of more components than k: the best of many ways to share them out.

    Starts, at random and one at components, are tried on a part of the draws, and the best of them are improved by
    *breathing*: centres are added where the cost is, and those taken away again that are missed least.  That reaches
    better optima than more restarts do, in less time.  The noise of the centres costs about k / draws, so draws grow
    with k.
    """
    draws = max(DRAWS, 1000 * k, 60 * mixture.n_components)
    x, w, _ = mixture.weighted_points(draws, rng)
    order = rng.permutation(len(x))
    x, w = x[order], w[order]
    part = _Draws.of(x[:_TRIAL], w[:_TRIAL])
    few = min(_TRIAL // 2, len(part.weights))
    tries = 2 + int(np.log(k))

    def started(uniforms: Array | None) -> tuple[float, npt.NDArray[np.float32]]:
        if uniforms is None:
            centers = lloyd.best_among(part.points[:few], w[:few], np.asarray(mixture.means, np.float32), k)
        else:
            centers = lloyd.seed_centers(part.points[:few], w[:few], k, uniforms)
        return part.improved(centers, 40, 1e-4), centers

    def breathed(run: tuple[tuple[float, npt.NDArray[np.float32]], np.random.Generator]) -> Any:
        return _breathed(part, run[0][1], run[0][0], run[1])

    runs = sorted(in_parallel(started, [None, *rng.uniform(size=(_STARTS, k, tries))]), key=lambda run: run[0])
    best = zip(runs[:3], rng.spawn(3), strict=True)
    centers = min(in_parallel(breathed, best), key=lambda run: run[0])[1]
    _Draws.of(x, w).improved(centers, 100, 1e-6)
    found = centers.astype(np.float64)
    return _cells(x, w, medians_start(x, w, found, rng) if criterion == "medians" else found, criterion)


@dataclass
class _Draws:
    """Points (n, d), and their weights."""

    points: npt.NDArray[np.float32]
    weights: Array

    @classmethod
    def of(cls, x: Array, w: Array) -> _Draws:
        return cls(np.ascontiguousarray(x, np.float32), w)

    def improved(self, centers: npt.NDArray[np.float32], steps: int, tolerance: float) -> float:
        """Lloyd's iterations in place; the cost."""
        return device.lloyd(self.points, self.weights, centers, steps, tolerance)[1]

    def uses(self, centers: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """Cost of every cell, and what taking its centre away would add (rows go to the second nearest)."""
        d2 = (centers**2).sum(1)[:, None] - np.float32(2.0) * (centers @ self.points.T)
        own = np.arange(d2.shape[1])
        nearest = d2.argmin(0)
        least = d2[nearest, own]
        d2[nearest, own] = np.inf
        second = d2.min(0)
        squares = np.einsum("ij,ij->i", self.points, self.points)
        cost: Array = np.bincount(nearest, self.weights * (least + squares), len(centers)).astype(np.float64)
        return cost, np.bincount(nearest, self.weights * (second - least), len(centers)).astype(np.float64)


def _breathed(
    draws: _Draws, centers: npt.NDArray[np.float32], cost: float, rng: np.random.Generator
) -> tuple[float, npt.NDArray[np.float32]]:
    """Centres added where the cost is, then those removed that are missed least, while that helps."""
    k, d = centers.shape
    breath = min(4, k - 1)
    while breath > 0:
        costs, _ = draws.uses(centers)
        width = np.sqrt(costs.sum() / draws.weights.sum() / d)
        full = np.argsort(-costs)[:breath]
        more = centers[full] + 0.1 * width * rng.standard_normal((breath, d))
        trial = np.ascontiguousarray(np.vstack([centers, more]), np.float32)
        draws.improved(trial, 15, 1e-3)
        for _ in range(breath):
            trial = np.ascontiguousarray(np.delete(trial, np.argmin(draws.uses(trial)[1]), 0))
        now = draws.improved(trial, 40, 1e-4)
        if now < cost * (1.0 - 1e-4):
            cost, centers = now, trial
        else:
            breath -= 1
    return cost, centers


def _cells(x: Array, w: Array, centers: Array, criterion: str) -> Partition:
    if criterion == "medians":
        centers = k_medians(x, w, centers)
    labels, distances = nearest_centers(x, centers)
    cost = distances[:, 0]
    if criterion == "medians":
        cost = np.sqrt(cost)
    weights = np.bincount(labels, w, len(centers))
    return Partition(centers, weights / weights.sum(), float(w @ cost / w.sum()))


def standard_errors(
    mixture: Mixture, centers: Array, covariance: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Of centres (k, d) and weights of the cells (k,), from the covariance of means (k d) and weights (k).

    A centre is the mean of what the components put into its cell: it moves with their means in proportion to their
    shares, and with their weights towards what they put there.  Cells themselves are taken as they are.
    """
    x, w, owner = mixture.weighted_points(4000, rng)
    k, d = mixture.means.shape
    labels, _ = nearest_centers(x, centers)
    pair = labels * k + owner
    mass = np.bincount(pair, w, k * k).reshape(k, k)
    sums = np.stack([np.bincount(pair, w * x[:, i], k * k).reshape(k, k) for i in range(d)], 2)
    total = np.maximum(mass.sum(1), 1e-300)
    share = mass / total[:, None]
    # d center_j = sum_l share_jl d mean_l + (sums_jl - mass_jl center_j) / (a_l total_j) d a_l
    pull = sums - mass[:, :, None] * (sums.sum(1) / total[:, None])[:, None, :]
    pull = pull / (np.maximum(mixture.weights, 1e-12)[None, :, None] * total[:, None, None])
    places, amounts = covariance[: k * d, : k * d].reshape(k, d, k, d), covariance[k * d :, k * d :]
    mixed = covariance[: k * d, k * d :].reshape(k, d, k)
    variance = np.empty((k, d))
    for i in range(d):
        own, towards = places[:, i, :, i], pull[:, :, i]
        variance[:, i] = ((share @ own) * share + (towards @ amounts + 2.0 * share @ mixed[:, i]) * towards).sum(1)
    part = mass / np.maximum(mixture.weights, 1e-12)
    weights = ((part @ amounts) * part).sum(1)
    return np.sqrt(np.maximum(variance, 0.0)), np.sqrt(np.maximum(weights, 0.0))


def cluster_model(
    problem: Problem, mixture: Mixture, cells: Partition, criterion: str, **known: Any
) -> ClusterSolution:
    """The model of some cells of a mixture, in the units of the rows, with what else is known."""
    return ClusterSolution(
        mixture=problem.mixture(mixture),
        centers=problem.points(cells.centers),
        weights=cells.weights,
        inertia=cells.cost * problem.scale ** (2 if criterion == "means" else 1),
        criterion=criterion,
        **known,
    )


def k_means(x: Array, w: Array, init: Array | int, restarts: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Best of some runs: from given centres, or from greedy k-means++ starts."""
    points = np.ascontiguousarray(x, np.float32)
    best: tuple[Any, float] | None = None
    for _ in range(restarts):
        if isinstance(init, int):
            tries = 2 + int(np.log(init)) if init > 1 else 1
            centers = lloyd.seed_centers(points, w, init, rng.uniform(size=(init, tries)))
        else:
            centers = np.array(init, np.float32)
        _, cost = device.lloyd(points, w, centers, 100, 1e-5)
        if best is None or cost < best[1]:
            best = centers, float(cost)
    assert best is not None
    centers, _ = best
    _, cost = device.lloyd(points, w, centers, 100, 1e-9)
    return centers.astype(np.float64), float(cost)


def squared_distances(x: Array, centers: Array) -> Array:
    d2 = (x**2).sum(1)[:, None] - 2.0 * x @ centers.T + (centers**2).sum(1)
    return np.maximum(d2, 0.0)


def nearest_centers(x: Array, centers: Array, count: int = 1) -> tuple[Index, Array]:
    """The nearest centre of each point, and squared distances to the nearest one or two, in order, (n, count)."""
    labels, least = np.empty(len(x), np.intp), np.empty((len(x), count))
    step = max(1, _PIECE // len(centers))
    for i in range(0, len(x), step):
        at = slice(i, i + step)
        d2 = squared_distances(x[at], centers)
        labels[at] = d2.argmin(1)
        rows = np.arange(len(d2))
        for j in range(count):
            nearest = labels[at] if j == 0 else d2.argmin(1)
            least[at, j] = d2[rows, nearest]
            d2[rows, nearest] = np.inf
    return labels, least


def _is_best(mixture: Mixture, k: int) -> bool:
    """Whether merging any two components would cost more than splitting any one could gain: no need to try others."""
    if mixture.n_components != k:
        return False
    if k == 1:
        return True
    a = mixture.weights
    apart = squared_distances(mixture.means, mixture.means)
    merging = np.outer(a, a) / np.maximum(a[:, None] + a, 1e-300) * apart
    merging[np.diag_indices(k)] = np.inf
    # half of a normal variable is known from its sign with 2 / pi of its variance
    return bool(merging.min() > 3.0 * float((a * mixture.variances()).max()) * 2.0 / (np.pi * mixture.dim))


def _overlap(mixture: Mixture, x: Array, w: Array, owner: Index) -> float:
    """Share of the mass that lies closer to another component than to its own."""
    return float(w[nearest_centers(x, mixture.means)[0] != owner].sum() / w.sum())


def medians_start(x: Array, w: Array, centers: Array, rng: np.random.Generator) -> Array:
    """Where k-medians begins: at some centres, or at others that cost less by plain distances.

    Centres of k-means follow far rows, which count less here.  Where rows weigh the less the farther they are from the
    middle, squared distances are as plain ones, so k-means finds starts.
    """
    few = rng.permutation(len(x))[:_MEDIANS]
    points, weights, k = np.ascontiguousarray(x[few], np.float32), w[few], len(centers)
    middle = k_medians(x[few], weights, np.average(x[few], axis=0, weights=weights)[None])
    apart = np.sqrt(squared_distances(x[few], middle)[:, 0])
    pull = weights / np.maximum(apart, 0.1 * np.average(apart, weights=weights) + 1e-300)
    starts = [centers]
    for uniforms in rng.uniform(size=(_MEDIAN_STARTS, k, 2 + int(np.log(k)))):
        start = lloyd.seed_centers(points, pull, k, uniforms)
        device.lloyd(points, pull, start, 20, 1e-3)
        starts.append(start.astype(np.float64))
    tried = [k_medians(x[few], weights, start, 10) for start in starts]
    costs = [float(weights @ np.sqrt(squared_distances(x[few], found).min(1))) for found in tried]
    return tried[int(np.argmin(costs))]


def k_medians(x: Array, w: Array, centers: Array, rounds: int = 60) -> Array:
    """Lloyd's alternation with geometric medians instead of means."""
    scale = np.sqrt(np.average(squared_distances(x, centers).min(1), weights=w))
    # distances below the rounding of a squared coordinate are none: points on their centres pull no harder than this
    scale = max(scale, 1e-8 * float(np.abs(x).max()))
    if scale == 0.0:
        return centers
    for _ in range(ROUNDS):
        d2 = squared_distances(x, centers)
        labels = d2.argmin(1)
        pull = w / np.sqrt(d2[np.arange(len(x)), labels] + (1e-6 * scale) ** 2)
        mass = np.bincount(labels, pull, len(centers))
        moved = np.stack([np.bincount(labels, pull * x[:, j], len(centers)) for j in range(x.shape[1])], 1)
        new = np.where(mass[:, None] > 0, moved / np.maximum(mass, 1e-300)[:, None], centers)
        if np.abs(new - centers).max() < 1e-6 * scale:
            return new
        centers = new
    return centers
