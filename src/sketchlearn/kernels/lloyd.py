"""Weighted Lloyd iterations: products through the BLAS, then one loop over the points that looks at what has moved."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_F32 = npt.NDArray[np.float32]
_F64 = npt.NDArray[np.float64]

_PIECE = 2**19  # products of points and centres at a time, which stay in the cache
EMPTY = 1e-13  # share of all weights below which a cell holds nothing but rounding


def lloyd(x: _F32, weights: _F64, centers: _F32, steps: int, tolerance: float) -> tuple[npt.NDArray[np.int32], float]:
    """Iterate on points (n, d) to convergence; centers (k, d) are changed in place; returns labels and weighted cost.

    Centres without points stay where they are.
    """
    loops = tiers.loops("lloyd")
    (n, d), k = x.shape, len(centers)
    squares, nothing = np.einsum("ij,ij->i", x, x), EMPTY * float(weights.sum())
    labels, nearest, distances = np.full(n, -1, np.int32), np.zeros(n, np.int32), np.empty(n, np.float32)
    step = max(_PIECE // k, 256)
    products, mass, sums = np.empty(k * min(step, n), np.float32), np.zeros(k), np.zeros((k, d))
    previous = cost = np.inf
    for _ in range(steps):
        lengths = np.einsum("ij,ij->i", centers, centers)
        cost = 0.0
        for i in range(0, n, step):
            at = slice(i, min(i + step, n))
            part = products[: k * (at.stop - i)].reshape(k, -1)
            np.matmul(centers, x[at].T, out=part)
            cost += loops.cells(
                part, lengths, x[at], squares[at], weights[at], labels[at], nearest[at], distances[at], mass, sums
            )
        if cost >= previous * (1.0 - tolerance):
            break
        previous = cost
        full = mass > nothing
        centers[full] = sums[full] / mass[full, None]
    return labels, float(cost)


def seed_centers(x: _F32, weights: _F64, k: int, uniforms: _F64) -> _F32:
    """Greedy k-means++: of several candidates drawn by weight times squared distance, the one that helps most.

    `uniforms` is (k, candidates) in [0, 1).
    """
    n = len(x)
    squares = np.einsum("ij,ij->i", x, x)
    nearest = np.full(n, np.inf, np.float32)
    chosen = np.empty(k, np.intp)
    for c in range(k):
        cumulative = np.cumsum(weights * nearest if c else weights)
        draws = uniforms[c] if c else uniforms[c, :1]
        picks = np.minimum(np.searchsorted(cumulative, draws * cumulative[-1], side="right"), n - 1)
        trial = x[picks] @ x.T
        trial *= -2.0
        trial += squares
        trial += squares[picks, None]
        np.maximum(trial, 0.0, out=trial)
        np.minimum(trial, nearest, out=trial)
        best = int((trial @ weights).argmin())
        nearest, chosen[c] = trial[best], picks[best]
    return np.ascontiguousarray(x[chosen])


def best_among(x: _F32, weights: _F64, candidates: _F32, k: int) -> _F32:
    """Of some candidates k centres, each the one that helps most next to those before it.

    What a candidate helps can only fall as others are chosen, so only those that may still be the best are looked at
    again (Minoux, 1978).
    """
    trial = candidates @ x.T
    trial *= -2.0
    trial += np.einsum("ij,ij->i", x, x)
    trial += np.einsum("ij,ij->i", candidates, candidates)[:, None]
    chosen = np.empty(k, np.intp)
    chosen[0] = int((trial @ weights).argmin())
    nearest = trial[chosen[0]]
    gains = np.maximum(nearest - trial, 0.0) @ weights  # at least what they are once more has been chosen
    for c in range(1, k):
        best, most = -1, -np.inf
        while gains[at := int(gains.argmax())] > most:
            gains[at] = now = float(np.maximum(nearest - trial[at], 0.0) @ weights)
            if now > most:
                best, most = at, now
        chosen[c] = best
        nearest = np.minimum(nearest, trial[best])
    return np.ascontiguousarray(candidates[chosen])
