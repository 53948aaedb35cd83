"""What the float and the grid pass over quadratic features share: rows that count, packed directions, blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_NO_WEIGHTS = np.empty(0, np.int64)
_Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class PackedDirections:
    """Integer directions laid out for the active tier."""

    panels: npt.NDArray[np.float32]
    scales: npt.NDArray[np.float32]
    directions: npt.NDArray[np.int8]
    padded: int

    @classmethod
    def pack(cls, directions: npt.NDArray[np.int8], bounds: npt.NDArray[np.float64]) -> PackedDirections:
        """Lay out directions (p, d), small integers, for the active tier.

        ``bounds`` are what squared projections of unit vectors don't exceed; the grid divides by them.
        """
        squares = tiers.module("quadratic")
        size = len(directions)
        padded = -(-size // squares.LANES) * squares.LANES
        scales = np.ones(padded, np.float32)
        scales[:size] = 1.0 / bounds
        return cls(squares.pack(directions), scales, directions, padded)


def present(
    X: npt.NDArray[np.floating], weights: npt.NDArray[np.int64] | None
) -> tuple[_Rows, npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Rows of positive weight, their weights (empty if all are 1) and their places."""
    index = np.arange(len(X))
    rows = X.view(np.ndarray)
    if weights is not None:
        index = np.flatnonzero(weights)
        rows = rows if len(index) == len(X) else rows[index]
        weights = np.ascontiguousarray(weights[index], np.int64)
    if not rows.flags.c_contiguous:
        rows = np.ascontiguousarray(rows)
    rows = rows[:]
    rows.flags.writeable = False  # of this view: one compiled signature serves all
    return rows, _NO_WEIGHTS if weights is None else weights, index


def block_rows(budget: int, row_bytes: int, multiple: int) -> int:
    rows = max(8, min(4096, budget // row_bytes))
    return -(-rows // multiple) * multiple


def squared_lengths(X: _Rows, center: _Rows, radius: float) -> _Rows:
    """Squared lengths over the radius of rows, in the order of the compiled staging."""
    with np.errstate(all="ignore"):
        x = (X.astype(np.float64) - center) * (1.0 / radius)
        partial = np.zeros((4, len(x)))
        for k in range(x.shape[1]):
            partial[k % 4] += x[:, k] * x[:, k]
        return np.asarray((partial[0] + partial[1]) + (partial[2] + partial[3]))
