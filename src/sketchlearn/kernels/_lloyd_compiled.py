"""Compiled loops of Lloyd's iterations."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled

TILE = 256
_TILE = TILE
_FAST = {"contract", "nsz", "arcp"}


@compiled(fastmath=_FAST)
def assign(x, weights, centers, labels, distances, scratch):
    """Nearest centre of every column of x, squared distance to it, and weighted cost; scratch is float32 (2, 256)."""
    d, n = x.shape
    cost = 0.0
    for j0 in range(0, n, _TILE):
        width = min(_TILE, n - j0)
        for j in range(width):
            distances[j0 + j] = np.float32(np.inf)
            labels[j0 + j] = np.int32(0)
            scratch[1, j] = np.float32(0.0)
        for k in range(d):
            for j in range(width):
                scratch[1, j] += x[k, j0 + j] * x[k, j0 + j]
        for c in range(centers.shape[0]):
            start = np.float32(0.0)
            for k in range(d):
                start += centers[c, k] * centers[c, k]
            for j in range(width):
                scratch[0, j] = start
            for k in range(d):
                twice = np.float32(-2.0) * centers[c, k]
                for j in range(width):
                    scratch[0, j] += twice * x[k, j0 + j]
            for j in range(width):
                closer = scratch[0, j] < distances[j0 + j]
                labels[j0 + j] = np.int32(c) if closer else labels[j0 + j]
                distances[j0 + j] = scratch[0, j] if closer else distances[j0 + j]
        for j in range(width):
            v = distances[j0 + j] + scratch[1, j]
            v = v if v > np.float32(0.0) else np.float32(0.0)
            distances[j0 + j] = v
            cost += weights[j0 + j] * v
    return cost


@compiled(fastmath=_FAST)
def total(x, weights, labels, mass, sums):
    """Add up the weights of each centre's points, and the points times their weights."""
    for j in range(x.shape[1]):
        mass[labels[j]] += weights[j]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            sums[i, labels[j]] += weights[j] * x[i, j]


@compiled(fastmath=_FAST)
def approach(x, weights, pick, nearest, trial):
    """Squared distances to the nearest of some points and one more, into `trial`; their weighted sum."""
    d, n = x.shape
    for j in range(n):
        trial[j] = np.float32(0.0)
    for k in range(d):
        p = x[k, pick]
        for j in range(n):
            trial[j] += (x[k, j] - p) * (x[k, j] - p)
    cost = 0.0
    for j in range(n):
        v = trial[j] if trial[j] < nearest[j] else nearest[j]
        trial[j] = v
        cost += weights[j] * v
    return cost
