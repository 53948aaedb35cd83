"""What happens to a row before its powers are summed: it is multiplied by a matrix."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled
def whiten(rows, at, end, center, matrix, out):
    """Rows about the centre times the rows of a matrix, in the order of the columns, into ``out``."""
    d, e = rows.shape[1], matrix.shape[0]
    for i in range(at, end):
        for j in range(e):
            out[i - at, j] = 0.0
        for k in range(d):
            x = np.float64(rows[i, k]) - center[k]
            for j in range(e):
                out[i - at, j] += x * matrix[j, k]
