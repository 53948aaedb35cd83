"""Compiled loops over factors of covariances: inner loops run over the frequencies."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled(fastmath={"contract", "nsz", "reassoc"})
def damp(projected, damping):
    """See :func:`sketchlearn.kernels._factors_numpy.damp`."""
    k, m = damping.shape
    rank = projected.shape[0] // k
    for i in range(k):
        for c in range(i * rank, i * rank + rank):
            for j in range(m):
                damping[i, j] -= np.float32(0.5) * projected[c, j] * projected[c, j]


@compiled(fastmath={"contract", "nsz"})
def scale(projected, products):
    """See :func:`sketchlearn.kernels._factors_numpy.scale`."""
    k, m = products.shape
    rank = projected.shape[0] // k
    for i in range(k):
        for c in range(i * rank, i * rank + rank):
            for j in range(m):
                projected[c, j] *= products[i, j]
