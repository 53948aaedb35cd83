"""Projections of rows on signs, four rows at a time: the columns of a row are added in their order."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled
def project(rows, center, spread, signs, out):
    """Add standardised rows times ``signs`` (columns, projections) to ``out``."""
    n, d = rows.shape
    p = signs.shape[1]
    whole = n - n % 4
    for i in range(0, whole, 4):
        for k in range(d):
            a = (np.float64(rows[i, k]) - center[k]) / spread[k]
            b = (np.float64(rows[i + 1, k]) - center[k]) / spread[k]
            c = (np.float64(rows[i + 2, k]) - center[k]) / spread[k]
            e = (np.float64(rows[i + 3, k]) - center[k]) / spread[k]
            for j in range(p):
                sign = signs[k, j]
                out[i, j] += a * sign
                out[i + 1, j] += b * sign
                out[i + 2, j] += c * sign
                out[i + 3, j] += e * sign
    for i in range(whole, n):
        for k in range(d):
            a = (np.float64(rows[i, k]) - center[k]) / spread[k]
            for j in range(p):
                out[i, j] += a * signs[k, j]
