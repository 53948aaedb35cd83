"""What people would use instead of a sketch, in published form: coresets, coreset trees, BIRCH, mini-batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus

Array = npt.NDArray[np.float64]
NUMBER = 4  # bytes of a stored number: rivals keep float32


@dataclass(frozen=True)
class Coreset:
    """Some rows and their weights."""

    rows: Array
    weights: Array


def solve(core: Coreset, k: int, seed: int) -> Array:
    """Centres of k-means on a weighted set of rows, best of ten starts."""
    rows, weights = core.rows, core.weights
    if len(rows) <= k:
        return rows
    return np.asarray(KMeans(k, n_init=10, random_state=seed).fit(rows, sample_weight=weights).cluster_centers_)


def uniform_sample(rows: Array, size: int, seed: int) -> Coreset:
    """Rows drawn without replacement."""
    rng = np.random.default_rng([seed, 1])
    chosen = rng.choice(len(rows), min(size, len(rows)), replace=False)
    return Coreset(rows[chosen], np.full(len(chosen), len(rows) / len(chosen)))


def lightweight_coreset(rows: Array, size: int, seed: int) -> Coreset:
    """Half uniform, half by squared distance to the mean (Bachem, Lucic and Krause 2018, Algorithm 1)."""
    rng = np.random.default_rng([seed, 2])
    squares = ((rows - rows.mean(0)) ** 2).sum(1)
    share = 0.5 / len(rows) + 0.5 * squares / squares.sum()
    chosen = rng.choice(len(rows), size, p=share / share.sum())
    return Coreset(rows[chosen], 1.0 / (size * share[chosen]))


def sensitivity_coreset(core: Coreset, size: int, k: int, rng: np.random.Generator) -> Coreset:
    """Rows drawn by a bound of their sensitivity from k-means++ centres (Lucic, Faulkner, Krause and Feldman 2018)."""
    rows, weights = core.rows, core.weights
    if len(rows) <= size:
        return core
    start, _ = kmeans_plusplus(rows, min(k, len(rows)), sample_weight=weights, random_state=int(rng.integers(2**31)))
    squares = ((rows[:, None] - start[None]) ** 2).sum(2)
    owner = squares.argmin(1)
    nearest = squares[np.arange(len(rows)), owner]
    mass = np.bincount(owner, weights, minlength=len(start))
    cost = np.bincount(owner, weights * nearest, minlength=len(start))
    mean = max(float((weights * nearest).sum() / weights.sum()), 1e-300)
    alpha = 16.0 * (math.log(max(k, 2)) + 2.0)
    bound = alpha * nearest / mean + 2 * alpha * cost[owner] / (mass[owner] * mean) + 4 * weights.sum() / mass[owner]
    share = weights * bound
    share /= share.sum()
    chosen = rng.choice(len(rows), size, p=share)
    return Coreset(rows[chosen], weights[chosen] / (size * share[chosen]))


def _joined(one: Coreset, other: Coreset) -> Coreset:
    return Coreset(np.concatenate([one.rows, other.rows]), np.concatenate([one.weights, other.weights]))


@dataclass
class CoresetTree:
    """Merge and reduce over a stream: one coreset a level, two of a level are merged and reduced to one of the next.

    Har-Peled and Mazumdar (2004); Bentley and Saxe (1980).  While the stream runs it keeps a coreset for every level
    and a bucket of rows, so the budget is shared by all of them.
    """

    size: int
    k: int
    seed: int
    levels: list[Coreset | None] = field(default_factory=list)

    def feed(self, rows: Array) -> CoresetTree:
        """Take in rows, bucket by bucket."""
        rng = np.random.default_rng([self.seed, 3])
        for start in range(0, len(rows), self.size):
            bucket = rows[start : start + self.size]
            carried: Coreset | None = Coreset(bucket, np.ones(len(bucket)))
            for level, held in enumerate(self.levels):
                if carried is None:
                    break
                if held is None:
                    self.levels[level], carried = carried, None
                else:
                    self.levels[level] = None
                    carried = sensitivity_coreset(_joined(held, carried), self.size, self.k, rng)
            if carried is not None:
                self.levels.append(carried)
        return self

    def coreset(self) -> Coreset:
        """All levels together."""
        held = [core for core in self.levels if core is not None]
        return Coreset(np.concatenate([c.rows for c in held]), np.concatenate([c.weights for c in held]))


def coreset_tree(rows: Array, size: int, k: int, seed: int) -> tuple[Coreset, int]:
    """A tree with nodes of `size` rows, reduced to as many at the end, and the rows that it held on the way."""
    tree = CoresetTree(size, k, seed).feed(rows)
    core = sensitivity_coreset(tree.coreset(), size, k, np.random.default_rng([seed, 6]))
    return core, size * (len(tree.levels) + 1)


def small_coreset_tree(rows: Array, size: int, k: int, seed: int) -> Coreset:
    """A tree whose levels and bucket together hold at most `size` rows; all of them are the coreset."""
    each = size
    while each > 1 and each * (max(1, math.ceil(math.log2(max(len(rows) / each, 1.0)))) + 1) > size:
        each -= 1
    return CoresetTree(max(each, 1), k, seed).feed(rows).coreset()


def birch(rows: Array, size: int, seed: int) -> Coreset:
    """Clustering features of BIRCH under a limit of memory (Zhang, Ramakrishnan and Livny 1996, phase 1).

    A row joins the nearest feature if its radius stays below the threshold, otherwise it starts one; when there are
    too many, the threshold is raised and features are inserted again.  The nearest is looked for among all of them,
    not through a tree, which can only make it better.
    """
    held = _Features(size, rows.shape[1])
    for row in rows[np.random.default_rng([seed, 4]).permutation(len(rows))]:
        held.insert(1.0, row, 0.0)
    return Coreset(held.means[: held.used], held.counts[: held.used])


class _Features:
    """Counts, means and sums of squares around them; growing threshold."""

    def __init__(self, size: int, dim: int) -> None:
        self.counts, self.means, self.spread = np.zeros(size + 1), np.zeros((size + 1, dim)), np.zeros(size + 1)
        self.size, self.used, self.threshold = size, 0, 0.0

    def insert(self, count: float, mean: Array, spread: float) -> None:
        if self.used:
            apart = self.means[: self.used] - mean
            squares = np.einsum("ij,ij->i", apart, apart)
            i = int(squares.argmin())
            total = self.counts[i] + count
            joint = self.spread[i] + spread + squares[i] * self.counts[i] * count / total
            if joint <= self.threshold * total:
                self.means[i] += (mean - self.means[i]) * count / total
                self.counts[i], self.spread[i] = total, joint
                return
        self.counts[self.used], self.means[self.used], self.spread[self.used] = count, mean, spread
        self.used += 1
        if self.used > self.size:
            self._rebuild()

    def _rebuild(self) -> None:
        from scipy.spatial import cKDTree

        while self.used > self.size:
            old = [(self.counts[i], self.means[i].copy(), self.spread[i]) for i in range(self.used)]
            near = cKDTree(self.means[: self.used]).query(self.means[: self.used], 2)[0][:, 1] ** 2
            # the closest pair of the published rule, and at least a tenth more than before
            self.threshold = max(1.1 * self.threshold, float(np.quantile(near, 0.1)) / 4, 1e-12)
            self.used = 0
            for count, mean, spread in old:
                self.insert(count, mean, spread)


def mini_batches(rows: Array, k: int, batch: int, seed: int) -> Array:
    """Centres of one pass of mini-batch k-means (Sculley 2010)."""
    model = MiniBatchKMeans(k, batch_size=batch, n_init=1, random_state=seed)
    order = np.random.default_rng([seed, 5]).permutation(len(rows))
    for start in range(0, len(rows), batch):
        part = rows[order[start : start + batch]]
        if start == 0 and len(part) < k:
            part = rows[order[:k]]
        model.partial_fit(part)
    return np.asarray(model.cluster_centers_)


def rows_within(budget: int, dim: int, *, weighted: bool = True) -> int:
    """Rows of float32 that a budget of bytes holds, with or without a weight each."""
    return max(1, budget // (NUMBER * (dim + (1 if weighted else 0))))


def features_within(budget: int, dim: int) -> int:
    """Clustering features (count, mean, spread) of float32 that a budget of bytes holds."""
    return max(1, budget // (NUMBER * (dim + 2)))


# -- weighted EM, for mixtures from coresets ---------------------------------------------------------------------------


def weighted_em(
    core: Coreset, k: int, seed: int, *, starts: int = 3, iterations: int = 100
) -> tuple[Array, Array, Array]:
    """Weights, means and diagonal variances by EM on weighted rows, best of some starts."""
    rows, mass = core.rows, core.weights / core.weights.sum()
    mean = mass @ rows
    floor = 1e-3 * (mass @ (rows - mean) ** 2)  # of the variance of a column, as regularisation
    best, top = None, -np.inf
    for start in range(starts):
        means, _ = kmeans_plusplus(rows, k, sample_weight=mass, random_state=1000 * seed + start)
        weights, variances = np.full(k, 1.0 / k), np.tile(mass @ (rows - mean) ** 2, (k, 1))
        value = -np.inf
        for _ in range(iterations):
            logs = np.log(weights) - 0.5 * (
                np.log(2 * np.pi * variances).sum(1) + ((rows[:, None] - means) ** 2 / variances).sum(2)
            )
            total = np.logaddexp.reduce(logs, 1)
            before, value = value, float(mass @ total)
            if value - before < 1e-5:
                break
            shares = mass[:, None] * np.exp(logs - total[:, None])
            sums = np.maximum(shares.sum(0), 1e-12)
            means = shares.T @ rows / sums[:, None]
            variances = np.maximum(shares.T @ rows**2 / sums[:, None] - means**2, floor)
            weights = sums / sums.sum()
        if value > top:
            best, top = (weights, means, variances), value
    assert best is not None
    return best
