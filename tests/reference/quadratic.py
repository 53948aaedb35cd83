"""Reference of the quadratic pass: projections by an exact fused multiply-add, and the staging."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reference.fourier import fma32
from sketchlearn.kernels import _constants as K
from sketchlearn.kernels import _quadratic_plain as plain
from sketchlearn.kernels import pairs
from sketchlearn.kernels._quadratic_plain import add_squares, pack
from sketchlearn.kernels._quadratic_rows import squared_lengths

__all__ = ["add_squares", "pack"]

LANES, TILE_ROWS = 1, 1
_Array = npt.NDArray[Any]


def project(rows: _Array, panels: _Array, out: _Array) -> None:
    """Products of rows and columns of the panels by fused multiply-adds, in the order of the coordinates."""
    t = np.zeros(out.shape, np.float32)
    for k in range(len(panels)):
        t = fma32(rows[:, k, None], panels[None, k], t)
    out[:] = t


add_rounded_squares = partial(plain.add_rounded_squares, project=project)
add_weighted_squares = partial(plain.add_weighted_squares, project=project)


def stage(
    X: _Array, i0: int, i1: int, weights: _Array, shift: _Array, scale: Any, out: _Array,
    lower: _Array, upper: _Array, linear: _Array,
) -> None:  # fmt: skip
    """See the compiled staging."""
    with np.errstate(all="ignore"):
        u = (X[i0:i1] - shift) * scale
        w = weights[i0:i1, None] if len(weights) else np.ones((1, 1), u.dtype)
        np.minimum(lower, X[i0:i1].min(0), out=lower)
        np.maximum(upper, X[i0:i1].max(0), out=upper)
        linear += (w * u).sum(0)
        out[: i1 - i0] = u * np.sqrt(w)


def stage_clipped(
    X: _Array, i0: int, i1: int, weights: _Array, center: _Array, radius: float, bits: int, out: _Array,
    lower: _Array, upper: _Array, linear: _Array, x: _Array,
) -> int:  # fmt: skip
    """See the compiled staging."""
    rows = X[i0:i1]
    norm2 = squared_lengths(rows, center, radius)
    bad = ~(norm2 <= 1e280)
    if bad.any():
        return i0 + int(np.argmax(bad))
    factor = 1.0 / np.sqrt(np.maximum(norm2, 1.0))
    unit = np.clip((rows.astype(np.float64) - center) * (1.0 / radius) * factor[:, None], -1.0, 1.0)
    units = np.rint(unit * 2.0 ** (K.GRID_BITS if bits < 0 else bits)).astype(np.int64)
    linear += (units if not len(weights) else units * weights[i0:i1, None]).sum(0)
    np.minimum(lower, rows.min(0), out=lower)
    np.maximum(upper, rows.max(0), out=upper)
    out[: i1 - i0] = units if bits >= 0 else unit
    return -1


def fold_products(triangle: _Array, p: _Array, s: _Array, weight: float, high: _Array, low: _Array) -> None:
    """See the compiled one."""
    i, j = np.triu_indices(len(p))
    sums = np.stack([triangle, np.zeros_like(triangle)])
    for a, b in ((p[i], s[j]), (s[i], p[j])):
        sums = pairs.add(sums, np.stack(pairs.two_product(a, b)))
    high[:], low[:] = pairs.add(sums, pairs.times(np.stack(pairs.two_product(p[i], p[j])), weight))


def add_pairs(a: _Array, b: _Array, out: _Array) -> None:
    """See the compiled one."""
    out[:] = pairs.add(a, b)


def add_triangle(square: _Array, triangle: _Array) -> None:
    """See the compiled one."""
    triangle += square[np.triu_indices(len(square))].astype(triangle.dtype, copy=False)  # whole numbers, even as floats
