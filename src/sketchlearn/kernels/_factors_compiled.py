"""Compiled loops over factors of covariances: inner loops run over the frequencies."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled(fastmath={"contract", "nsz", "reassoc"})
def damp(projected, damping):
    """Subtract half the squares of the projections (k r, m), summed over the r factors of each, from damping (k, m)."""
    k, m = damping.shape
    rank = projected.shape[0] // k
    for i in range(k):
        for c in range(i * rank, i * rank + rank):
            for j in range(m):
                damping[i, j] -= np.float32(0.5) * projected[c, j] * projected[c, j]


@compiled(fastmath={"contract", "nsz"})
def scale(projected, products):
    """Multiply the projections (k r, m) of each component by its products (k, m), in place."""
    k, m = products.shape
    rank = projected.shape[0] // k
    for i in range(k):
        for c in range(i * rank, i * rank + rank):
            for j in range(m):
                projected[c, j] *= products[i, j]
