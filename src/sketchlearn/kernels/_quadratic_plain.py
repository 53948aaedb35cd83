"""Second tier of the quadratic pass: plain loops; the same bits as the first on the grid."""

# mypy: ignore-errors
import numpy as np
from numba import njit

from sketchlearn.kernels._plain import _fma
from sketchlearn.kernels._staging import CACHE

LANES, TILE_ROWS = 1, 1
_TILE = 256
_OPTIONS = {"nogil": True, "cache": CACHE, "error_model": "numpy", "boundscheck": False}
_ONE, _TWO = np.float32(1.0), np.float32(2.0)


@njit(**_OPTIONS)
def _project(x, panels, size, j0, width, t):
    t[:width] = np.float32(0.0)
    for k in range(x.shape[0]):
        xk = x[k]
        for j in range(width):
            t[j] = _fma(xk, panels[k * size + j0 + j], t[j])


@njit(**_OPTIONS)
def add_squares(rows, n, panels, scales, sums):
    """Add the squared projections of the first n staged rows to float64 ``sums``."""
    size = sums.shape[0]
    t = np.empty(_TILE, np.float32)
    for j0 in range(0, size, _TILE):
        width = min(_TILE, size - j0)
        for i in range(n):
            _project(rows[i], panels, size, j0, width, t)
            for j in range(width):
                sums[j0 + j] += np.float64(t[j]) * np.float64(t[j])


@njit(**_OPTIONS)
def add_rounded_squares(rows, n, weights, panels, scales, sums):
    """The same on the grid of 2**-22, into int64 ``sums``."""
    size = sums.shape[0]
    t = np.empty(_TILE, np.float32)
    for j0 in range(0, size, _TILE):
        width = min(_TILE, size - j0)
        for i in range(n):
            _project(rows[i], panels, size, j0, width, t)
            w = weights[i] if weights.shape[0] else np.int64(1)
            for j in range(width):
                s = t[j] * t[j] * scales[j0 + j]
                s = (s if s < _ONE else _ONE) + _TWO
                sums[j0 + j] += w * np.int64((np.float64(s) - 2.0) * 4194304.0)


def pack(directions: np.ndarray) -> np.ndarray:
    """Directions as columns."""
    return np.ascontiguousarray(directions.T, np.float32).ravel()
