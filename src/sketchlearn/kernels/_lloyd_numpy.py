"""The loop of Lloyd's iterations in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]


def cells(
    products: _Array, lengths: _Array, x: _Array, squares: _Array, weights: _Array, labels: _Array,
    distances: _Array, mass: _Array, sums: _Array,
) -> float:  # fmt: skip
    """Nearest centre of every point, squared distance to it, and what the cells hold; returns the weighted cost.

    Parameters
    ----------
    products : float32 (k, n)
        Products of centres and points.
    lengths, squares : float32 (k,) and (n,)
        Squared lengths of centres and points.
    x, weights : float32 (d, n) and float64 (n,)
        The points, and their weights.
    labels, distances : int32 and float32 (n,)
        Results.
    mass, sums : float64 (k,) and (d, k)
        Weights of the cells, and sums of their points, are added to these.
    """
    d2 = lengths[:, None] - 2.0 * products
    labels[:] = d2.argmin(0)
    distances[:] = np.maximum(d2[labels, np.arange(len(labels))] + squares, 0.0)
    mass += np.bincount(labels, weights, len(mass))
    for i in range(len(x)):
        sums[i] += np.bincount(labels, weights * x[i], len(mass))
    return float(weights @ distances)
