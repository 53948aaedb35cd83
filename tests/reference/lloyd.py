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
    """See ``sketchlearn.kernels._lloyd_compiled.cells``."""
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
