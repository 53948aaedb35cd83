"""Second tier of the quadratic pass: projections by plain loops, the rest as in NumPy; the same bits on the grid."""

# mypy: ignore-errors
from functools import partial

import numpy as np

from sketchlearn.kernels import _quadratic_numpy as base
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


pack, add_squares = base.pack, base.add_squares
add_rounded_squares = partial(base.add_rounded_squares, project=project)
add_weighted_squares = partial(base.add_weighted_squares, project=project)
