"""The compiled loop of the nearest centre."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled(fastmath={"contract"})
def nearest(x, inverse, centers, labels, tile, best, distances):
    """Number of the nearest centre of each point, -1 where no distance is finite.

    `x`, `inverse`: the points, and what their coordinates are multiplied by, (d, n), (d,). `centers`: centres,
    multiplied already, (k, d). `labels`: results, (n,). `tile`, `best`, `distances`: buffers, (d, width), (width,),
    (width,): `width` points are looked at together.
    """
    d, n = x.shape
    width = best.shape[0]
    for start in range(0, n, width):
        t = min(width, n - start)
        for i in range(d):
            unit = inverse[i]
            for j in range(t):
                tile[i, j] = x[i, start + j] * unit
        for j in range(t):
            best[j] = np.inf
            labels[start + j] = np.int32(-1)
        for c in range(centers.shape[0]):
            for j in range(t):
                distances[j] = 0.0
            for i in range(d):
                place = centers[c, i]
                for j in range(t):
                    away = tile[i, j] - place
                    distances[j] += away * away
            for j in range(t):
                v = distances[j]
                closer = v < best[j]
                labels[start + j] = np.int32(c) if closer else labels[start + j]
                best[j] = v if closer else best[j]
