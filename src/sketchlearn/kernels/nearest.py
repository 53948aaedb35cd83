"""Which centre is nearest: the inner loop of labelling rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_WIDTH = 512  # points that are looked at together: they stay in the fastest memory

_F64 = npt.NDArray[np.float64]


def nearest(rows: npt.NDArray[np.floating], centers: _F64, spread: _F64 | None = None) -> npt.NDArray[np.int32]:
    """Number of the nearest centre of each row (the first of equals), -1 for rows with NaN or infinity.

    `rows`: rows, (n, d); those that are stored by columns need no copy. `centers`: centres, (k, d). `spread`: units of
    the columns in which distances are meant, (d,).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.kernels.nearest import nearest
    >>> nearest(np.array([[0.9], [4.0], [np.nan]]), np.array([[0.0], [5.0]]))
    array([ 0,  1, -1], dtype=int32)
    """
    x = np.ascontiguousarray(rows.T, np.float64)
    d, n = x.shape
    inverse = np.ones(d) if spread is None else 1.0 / np.asarray(spread, np.float64)
    places = np.ascontiguousarray(centers * inverse, np.float64)
    labels = np.empty(n, np.int32)
    buffers = np.empty((d, _WIDTH)), np.empty(_WIDTH), np.empty(_WIDTH)
    tiers.loops("nearest").nearest(x, inverse, places, labels, *buffers)
    lost = np.flatnonzero(labels < 0)
    if lost.size:
        for row in lost[np.isfinite(x[:, lost]).all(0)]:  # too far away for squares: their differences are enough
            unit = float(np.abs(x[:, row]).max())
            point = x[:, row] / unit * inverse
            labels[row] = ((places / unit * places).sum(1) - 2.0 * places @ point).argmin()
    return labels
