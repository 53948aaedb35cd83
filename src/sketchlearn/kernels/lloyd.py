"""Weighted Lloyd iterations on points stored by columns, so that the inner loops run over the points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_F32 = npt.NDArray[np.float32]
_F64 = npt.NDArray[np.float64]


def lloyd(
    x: _F32, weights: _F64, centers: _F32, steps: int, tolerance: float
) -> tuple[npt.NDArray[np.int32], float]:
    """Iterate to convergence; centers (k, d) are changed in place; returns labels and weighted cost.

    Centres without points stay where they are.
    """
    loops = tiers.loops("lloyd")
    d, n = x.shape
    labels, distances = np.zeros(n, np.int32), np.empty(n, np.float32)
    scratch = np.empty((2, loops.TILE), np.float32)
    previous = cost = np.inf
    for _ in range(steps):
        cost = loops.assign(x, weights, centers, labels, distances, scratch)
        if cost >= previous * (1.0 - tolerance):
            break
        previous = cost
        mass, sums = np.zeros(len(centers)), np.zeros((d, len(centers)))
        loops.total(x, weights, labels, mass, sums)
        full = mass > 0
        centers[full] = (sums[:, full] / mass[full]).T
    return labels, float(cost)


def seed_centers(x: _F32, weights: _F64, k: int, uniforms: _F64) -> _F32:
    """Greedy k-means++: of several candidates drawn by weight times squared distance, the one that helps most.

    `uniforms` is (k, candidates) in [0, 1).
    """
    loops = tiers.loops("lloyd")
    d, n = x.shape
    centers = np.empty((k, d), np.float32)
    nearest, best, trial = np.full(n, np.inf, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    for c in range(k):
        cumulative = np.cumsum(weights * nearest if c else weights)
        winner, lowest = -1, np.inf
        for u in uniforms[c] if c else uniforms[c, :1]:
            pick = min(int(np.searchsorted(cumulative, u * cumulative[-1], side="right")), n - 1)
            cost = loops.approach(x, weights, pick, nearest, trial)
            if cost < lowest:
                winner, lowest = pick, cost
                best, trial = trial, best
        nearest, best = best, nearest
        centers[c] = x[:, winner]
    return centers
