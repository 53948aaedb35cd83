"""Products with directions of small integers, which may be too many to keep in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_ENTRIES = 2**22  # of the directions that are widened together


def squared_norms(directions: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    """Squared lengths of integer directions (exact), a few at a time."""
    out = np.empty(len(directions))
    step = max(1, _ENTRIES // directions.shape[1])
    for i in range(0, len(directions), step):
        block = directions[i : i + step].astype(np.int64)
        out[i : i + step] = (block * block).sum(1)
    return np.maximum(out, 1.0)


def project(directions: npt.NDArray[np.int8], matrix: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
    """``directions @ matrix`` in the precision of the matrix, without a copy of all directions in that precision."""
    out = np.empty((len(directions), *matrix.shape[1:]), matrix.dtype)
    step = max(1, _ENTRIES // directions.shape[1])
    for i in range(0, len(directions), step):
        np.matmul(directions[i : i + step].astype(matrix.dtype), matrix, out=out[i : i + step])
    return out
