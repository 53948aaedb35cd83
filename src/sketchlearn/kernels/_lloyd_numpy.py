"""The loop of Lloyd's iterations in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]


def cells(
    products: _Array, lengths: _Array, x: _Array, squares: _Array, weights: _Array, labels: _Array, nearest: _Array,
    distances: _Array, mass: _Array, sums: _Array,
) -> float:  # fmt: skip
    """Nearest centre of every point, squared distance to it, and what the cells hold; returns the weighted cost.

    Parameters
    ----------
    products : float32 (k, n)
        Products of centres and points.
    lengths, squares : float32 (k,) and (n,)
        Squared lengths of centres and points.
    x, weights : float32 (n, d) and float64 (n,)
        The points, and their weights.
    labels : int32 (n,)
        The cells that points were in (-1: in none), replaced by those that they are in now.
    nearest, distances : int32 and float32 (n,)
        Room; the squared distances.
    mass, sums : float64 (k,) and (k, d)
        Weights of the cells and sums of their points: those that have moved are taken from one and added to another.
    """
    d2 = lengths[:, None] - 2.0 * products
    nearest[:] = d2.argmin(0)
    distances[:] = np.maximum(d2[nearest, np.arange(len(labels))] + squares, 0.0)
    moved = np.flatnonzero(nearest != labels)
    for cell, sign in ((nearest[moved], 1.0), (labels[moved], -1.0)):
        w = sign * np.where(cell >= 0, weights[moved], 0.0)
        np.add.at(mass, cell, w)
        np.add.at(sums, cell, w[:, None] * x[moved])
    labels[:] = nearest
    return float(weights @ distances)
