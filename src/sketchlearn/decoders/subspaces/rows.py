"""k-subspaces on points in memory: each point belongs to the subspace that it is nearest to."""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.budget import ROUNDS
from sketchlearn.models.subspaces import assign


def k_subspaces(rows: Array, k: int, dim: int, rng: np.random.Generator) -> tuple[Array, Index, float]:
    """Bases (k, d, dim), owners of the rows and the mean squared distance across; the best of ten starts."""
    d = rows.shape[1]
    total = float((rows * rows).sum())
    best: tuple[Array, Index, float] | None = None
    for _ in range(10):
        bases = np.linalg.qr(rng.standard_normal((k, d, dim)))[0]
        owner = np.full(len(rows), -1)
        for _ in range(ROUNDS):
            new = assign(rows, bases)
            changed, owner = np.count_nonzero(new != owner), new
            if changed <= 1e-3 * len(rows):  # so few don't turn it
                break
            for l in range(k):
                mine = rows[owner == l]
                if len(mine) > dim:
                    bases[l] = np.linalg.eigh(mine.T @ mine)[1][:, -dim:]
                else:  # a subspace without rows tries elsewhere
                    bases[l] = np.linalg.qr(rng.standard_normal((d, dim)))[0]
        projected = sum(float(((rows[owner == l] @ bases[l]) ** 2).sum()) for l in range(k))
        left = max(total - projected, 0.0) / len(rows)
        if best is None or left < best[2]:
            best = bases, owner, left
    assert best is not None
    return best
