"""Lloyd's iterations on a graphics processor, in terms of an array module.

Cells are summed by products of matrices, which give the same bits each time; atomic additions would not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.kernels.lloyd import EMPTY

_F32 = npt.NDArray[np.float32]
_PIECE = 2**28  # distances at a time: 1 GB


def lloyd(
    arrays: Any, x: _F32, weights: Array, centers: _F32, steps: int, tolerance: float
) -> tuple[npt.NDArray[np.int32], float]:
    """See :func:`sketchlearn.kernels.lloyd.lloyd`."""
    xp = arrays
    points, w, c = (xp.asarray(a, dtype=np.float32) for a in (x, weights, centers))
    (n, d), k = x.shape, len(centers)
    squares, nothing = (points * points).sum(1), EMPTY * float(weights.sum())
    # weighted points and their weights, which are summed over cells
    held = xp.concatenate([points * w[:, None], w[:, None]], 1)
    labels, numbers, step = xp.empty(n, np.int32), xp.arange(k, dtype=np.int32), max(1, _PIECE // k)
    previous = cost = np.inf
    for _ in range(steps):
        sums, total = xp.zeros((k, d + 1), np.float32), xp.zeros(1)
        for i in range(0, n, step):
            at = slice(i, i + step)
            d2 = points[at] @ (-2.0 * c.T) + (c * c).sum(1)
            labels[at] = d2.argmin(1)
            total += (xp.maximum(d2.min(1) + squares[at], 0.0) * w[at]).sum(dtype=np.float64)
            sums += (labels[at][:, None] == numbers).astype(np.float32).T @ held[at]
        cost = float(_here(xp, total)[0])
        if cost >= previous * (1.0 - tolerance):
            break
        previous = cost
        mass = sums[:, d:]
        c = xp.where(mass > nothing, sums[:, :d] / xp.maximum(mass, np.float32(1e-30)), c)
    centers[:] = _here(xp, c)
    return _here(xp, labels), cost


def _here(xp: Any, array: Any) -> Any:
    return array if xp is np else array.get()
