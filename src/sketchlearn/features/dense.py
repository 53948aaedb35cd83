"""Directions drawn one by one: independent, or in orthogonal blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.features import portable

_ORTHOGONAL_ROWS = 64  # rows per orthogonal block in high dimension; exact blocks up to this dimension


def unit_directions(kind: str, dim: int, size: int, seed: int) -> npt.NDArray[np.float64]:
    """Unit vectors (size, dim), ``"iid"`` or ``"orthogonal"``; the same for a seed on any machine."""
    rows = 1 if kind == "iid" else min(dim, _ORTHOGONAL_ROWS)
    blocks = -(-size // rows)
    normals = portable.Bits(seed, 3).normals(blocks * rows * dim)
    stack = normals.reshape(blocks, rows, dim)
    # a few blocks at a time: the working set stays in cache and memory stays small
    step = max(1, 2**18 // (rows * dim))
    parts = [portable.orthonormalize(stack[i : i + step]) for i in range(0, blocks, step)]
    return np.concatenate(parts).reshape(-1, dim)[:size]


def product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """a @ b, summed in the order of the inner index."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for k in range(b.shape[0]):
        out = out + a[:, k, None] * b[k]
    return out


def in_range(numbers: npt.NDArray[np.floating]) -> bool:
    """Whether float32 holds these frequencies: all finite, and some not too small."""
    return bool(np.isfinite(numbers).all() and np.abs(numbers).max() >= np.finfo(np.float32).tiny)


def finite(value: npt.ArrayLike, shapes: tuple[tuple[int, ...], ...], name: str) -> npt.NDArray[np.float64]:
    """Numbers of one of these shapes; ValueError for any other, and for NaN and infinity."""
    array = np.array(value, np.float64)
    if array.shape not in shapes:
        raise ValueError(f"{name} has shape {array.shape}, expected {shapes[0]}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return array
