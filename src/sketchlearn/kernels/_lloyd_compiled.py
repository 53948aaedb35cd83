"""The compiled loop of Lloyd's iterations."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled(fastmath={"contract", "nsz", "arcp"})
def cells(products, lengths, x, squares, weights, labels, distances, mass, sums):
    """See :func:`sketchlearn.kernels._lloyd_numpy.cells`."""
    d, n = x.shape
    for j in range(n):
        distances[j] = np.float32(np.inf)
    for c in range(products.shape[0]):
        length = lengths[c]
        for j in range(n):
            v = length - np.float32(2.0) * products[c, j]
            closer = v < distances[j]
            labels[j] = np.int32(c) if closer else labels[j]
            distances[j] = v if closer else distances[j]
    cost = 0.0
    for j in range(n):
        v = distances[j] + squares[j]
        v = v if v > np.float32(0.0) else np.float32(0.0)
        distances[j] = v
        cost += weights[j] * v
        mass[labels[j]] += weights[j]
    for i in range(d):
        for j in range(n):
            sums[i, labels[j]] += weights[j] * x[i, j]
    return cost
