"""The compiled loop of Lloyd's iterations."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled

_BLOCK = 64  # points that are passed over together if none has moved


@compiled(fastmath={"contract", "nsz", "arcp", "reassoc"})
def cells(products, lengths, x, squares, weights, labels, nearest, distances, mass, sums):
    """Nearest centre of every point, squared distance to it, and what the cells hold; returns the weighted cost.

    `products`: products of centres and points, (k, n). `lengths`, `squares`: squared lengths of centres and points,
    (k,), (n,). `x`, `weights`: the points, and their weights, (n, d), (n,). `labels`: the cells that points were in
    (-1, (n,): in none), replaced by those that they are in now. `nearest`, `distances`: A buffer, (n,); the squared
    distances. `mass`, `sums`: weights of the cells and sums of their points, (k,), (k, d): those that have moved are
    taken from one and added to another.
    """
    n, d = x.shape
    length = lengths[0]
    for j in range(n):
        distances[j] = length - np.float32(2.0) * products[0, j]
        nearest[j] = np.int32(0)
    for c in range(1, products.shape[0]):
        length = lengths[c]
        for j in range(n):
            v = length - np.float32(2.0) * products[c, j]
            least = distances[j]
            closer = v < least
            nearest[j] = np.int32(c) if closer else nearest[j]
            distances[j] = v if closer else least
    for j in range(n):
        distances[j] = max(distances[j] + squares[j], np.float32(0.0))
    cost = 0.0
    for j in range(n):
        cost += weights[j] * np.float64(distances[j])
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        moved = np.int32(0)
        for j in range(start, stop):
            moved |= nearest[j] ^ labels[j]
        if moved == 0:
            continue
        for j in range(start, stop):
            new, old = nearest[j], labels[j]
            if new != old:
                labels[j] = new
                w = weights[j]
                mass[new] += w
                for i in range(d):
                    sums[new, i] += w * x[j, i]
                if old >= 0:
                    mass[old] -= w
                    for i in range(d):
                        sums[old, i] -= w * x[j, i]
    return cost
