"""Weighted Lloyd iterations on points stored by columns, so that the inner loops run over the points."""

# mypy: ignore-errors
import numpy as np

try:
    from numba import njit

    from sketchlearn.kernels._staging import CACHE

    _compiled = njit(
        nogil=True, cache=CACHE, error_model="numpy", boundscheck=False, fastmath={"contract", "nsz", "arcp"}
    )
except ImportError:  # no numba on this platform: the same loops, slowly

    def _compiled(function):
        return function


_TILE = 256


@_compiled
def assign(x, centers, labels, distances):
    """Nearest centre of every column of x (d, n) and the squared distance to it."""
    d, n = x.shape
    value, norm = np.empty(_TILE, np.float32), np.empty(_TILE, np.float32)
    low, who = np.empty(_TILE, np.float32), np.empty(_TILE, np.int32)
    for j0 in range(0, n, _TILE):
        width = min(_TILE, n - j0)
        norm[:] = np.float32(0.0)
        for k in range(d):
            for j in range(width):
                norm[j] += x[k, j0 + j] * x[k, j0 + j]
        low[:] = np.float32(np.inf)
        who[:] = np.int32(0)
        for c in range(centers.shape[0]):
            start = np.float32(0.0)
            for k in range(d):
                start += centers[c, k] * centers[c, k]
            value[:] = start
            for k in range(d):
                twice = np.float32(-2.0) * centers[c, k]
                for j in range(width):
                    value[j] += twice * x[k, j0 + j]
            for j in range(width):
                closer = value[j] < low[j]
                who[j] = np.int32(c) if closer else who[j]
                low[j] = value[j] if closer else low[j]
        for j in range(width):
            distances[j0 + j] = max(low[j] + norm[j], np.float32(0.0))
            labels[j0 + j] = who[j]


@_compiled
def update(x, weights, labels, centers):
    """Move every centre to the weighted mean of its points; centres without points stay."""
    k, d = centers.shape
    mass = np.zeros(k)
    total = np.zeros((d, k))
    for j in range(x.shape[1]):
        mass[labels[j]] += weights[j]
    for i in range(d):
        for j in range(x.shape[1]):
            total[i, labels[j]] += weights[j] * x[i, j]
    for c in range(k):
        if mass[c] > 0:
            for i in range(d):
                centers[c, i] = np.float32(total[i, c] / mass[c])


@_compiled
def lloyd(x, weights, centers, steps, tolerance):
    """Iterate to convergence; centers (k, d) are changed in place; returns labels and weighted cost."""
    n = x.shape[1]
    labels = np.zeros(n, np.int32)
    distances = np.empty(n, np.float32)
    previous = np.inf
    cost = np.inf
    for _ in range(steps):
        assign(x, centers, labels, distances)
        cost = 0.0
        for j in range(n):
            cost += weights[j] * distances[j]
        if cost >= previous * (1.0 - tolerance):
            break
        previous = cost
        update(x, weights, labels, centers)
    return labels, cost


@_compiled
def seed_centers(x, weights, k, uniforms):
    """Greedy k-means++: of several candidates drawn by weight times squared distance, the one that helps most.

    `uniforms` is (k, candidates) in [0, 1).
    """
    d, n = x.shape
    tries = uniforms.shape[1]
    centers = np.empty((k, d), np.float32)
    nearest = np.empty(n, np.float32)
    best, trial = np.empty(n, np.float32), np.empty(n, np.float32)
    cumulative = np.empty(n)
    for c in range(k):
        total = 0.0
        for j in range(n):
            total += weights[j] * (np.float64(nearest[j]) if c > 0 else 1.0)
            cumulative[j] = total
        winner, lowest = -1, np.inf
        for t in range(tries if c > 0 else 1):
            pick = min(np.searchsorted(cumulative, uniforms[c, t] * total, side="right"), n - 1)
            trial[:] = np.float32(0.0)
            for k_ in range(d):
                p = x[k_, pick]
                for j in range(n):
                    trial[j] += (x[k_, j] - p) * (x[k_, j] - p)
            cost = 0.0
            for j in range(n):
                if c > 0 and nearest[j] < trial[j]:
                    trial[j] = nearest[j]
                cost += weights[j] * trial[j]
            if cost < lowest:
                winner, lowest = pick, cost
                best[:] = trial
        nearest[:] = best
        for k_ in range(d):
            centers[c, k_] = x[k_, winner]
    return centers
