"""Second tier of the quadratic pass: projections by plain loops, the rest in NumPy."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled, fma

LANES, TILE_ROWS = 1, 1


@compiled
def project(rows, panels, out):
    """Products of rows and columns of the panels by fused multiply-adds, in the order of the coordinates."""
    for i in range(rows.shape[0]):
        for j in range(panels.shape[1]):
            out[i, j] = np.float32(0.0)
        for k in range(panels.shape[0]):
            x = rows[i, k]
            for j in range(panels.shape[1]):
                out[i, j] = fma(x, panels[k, j], out[i, j])


def add_squares(rows, n, panels, scales, sums):
    """Add the squared projections of the first n staged rows to float64 ``sums``."""
    t = rows[:n] @ panels
    sums += np.einsum("ij,ij->j", t, t, dtype=np.float64)


def add_rounded_squares(rows, n, panels, scales, sums, *, project=project):
    """Add the squared projections, rounded to the grid of 2**-22, to int64 ``sums``."""
    for _, units in _rounded(rows, n, panels, scales, project):
        sums += units.sum(0)


def add_weighted_squares(
    rows, n, weights, panels, scales, sums, one, *,
    project=project,
):  # fmt: skip
    """Add rounded squares times the weights of the rows; ``one`` is scratch that only the first tier needs."""
    for at, units in _rounded(rows, n, panels, scales, project):
        sums += weights[at] @ units


def _rounded(rows, n, panels, scales, project):
    for i in range(0, n, 64):
        at = slice(i, min(n, i + 64))
        t = np.empty((at.stop - i, panels.shape[1]), np.float32)
        project(rows[at], panels, t)
        rounded = np.minimum(t * t * scales, np.float32(1.0)) + np.float32(2.0)
        yield at, ((rounded.astype(np.float64) - 2.0) * 2.0**K.GRID_BITS).astype(np.int64)


def pack(rows):
    """Directions as columns."""
    return np.ascontiguousarray(rows.T, np.float32)
