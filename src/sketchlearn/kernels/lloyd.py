"""Weighted Lloyd iterations on points stored by columns, so that the inner loops run over the points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_F32 = npt.NDArray[np.float32]
_F64 = npt.NDArray[np.float64]


def lloyd(x: _F32, weights: _F64, centers: _F32, steps: int, tolerance: float) -> tuple[npt.NDArray[np.int32], float]:
    """Iterate to convergence; centers (k, d) are changed in place; returns labels and weighted cost.

    Centres without points stay where they are.
    """
    loops = tiers.loops("lloyd")
    (d, n), k = x.shape, len(centers)
    squares = np.einsum("ij,ij->j", x, x)
    labels, distances, products = np.zeros(n, np.int32), np.empty(n, np.float32), np.empty((k, n), np.float32)
    previous = cost = np.inf
    for _ in range(steps):
        np.matmul(centers, x, out=products)
        mass, sums = np.zeros(k), np.zeros((d, k))
        lengths = np.einsum("ij,ij->i", centers, centers)
        cost = loops.cells(products, lengths, x, squares, weights, labels, distances, mass, sums)
        if cost >= previous * (1.0 - tolerance):
            break
        previous = cost
        full = mass > 0
        centers[full] = (sums[:, full] / mass[full]).T
    return labels, float(cost)


def seed_centers(x: _F32, weights: _F64, k: int, uniforms: _F64) -> _F32:
    """Greedy k-means++: of several candidates drawn by weight times squared distance, the one that helps most.

    `uniforms` is (k, candidates) in [0, 1).
    """
    n = x.shape[1]
    squares = np.einsum("ij,ij->j", x, x)
    nearest = np.full(n, np.inf, np.float32)
    chosen = np.empty(k, np.intp)
    for c in range(k):
        cumulative = np.cumsum(weights * nearest if c else weights)
        draws = uniforms[c] if c else uniforms[c, :1]
        picks = np.minimum(np.searchsorted(cumulative, draws * cumulative[-1], side="right"), n - 1)
        points = x[:, picks].T
        trial = points @ x
        trial *= -2.0
        trial += squares
        trial += squares[picks, None]
        np.maximum(trial, 0.0, out=trial)
        np.minimum(trial, nearest, out=trial)
        best = int((trial @ weights).argmin())
        nearest, chosen[c] = trial[best], picks[best]
    return np.ascontiguousarray(x[:, chosen].T)
