"""Reference of the structured pass in NumPy alone, with the bits of the compiled tiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reference.fourier import signs, waves
from sketchlearn.kernels import _constants as K
from sketchlearn.kernels.hadamard import levels

Numbers = npt.NDArray[Any]
SMALLEST = 1


def _transform(a: Numbers, stage: int) -> Numbers:
    """Walsh-Hadamard transform along the last axis."""
    n, p = a.shape
    for bit in levels(p.bit_length() - 1, stage):
        h = 1 << bit
        pairs = a.reshape(n, p // (2 * h), 2, h)
        u, v = pairs[:, :, 0], pairs[:, :, 1]
        a = np.stack([u + v, u - v], axis=2).reshape(n, p)
    return a


def _project(rows: Numbers, diagonals: Numbers, permutation: Numbers, b: int) -> Numbers:
    """One block applied to rows."""
    a = rows
    for stage in range(diagonals.shape[1]):
        if stage == 1 and len(permutation):
            a = a[:, permutation[b]]
        a = _transform(a * diagonals[b, stage].astype(rows.dtype), stage)
    return a


def _adder(units: Callable[[Numbers], npt.NDArray[np.int64]], dithered: bool) -> Callable[..., None]:
    """Adds what `units` makes of the phases of the rows of each run to its sums (runs, 2, blocks * p)."""

    def add(rows: Numbers, weights: Numbers, runs: Numbers, tables: Any, sums: Numbers, scratch: None) -> None:
        diagonals, permutation, radius, dither = tables
        p, real = rows.shape[1], rows.dtype
        for g in range(len(runs) - 1):
            for i in range(runs[g], runs[g + 1], K.FLUSH_ROWS):
                block = slice(i, min(runs[g + 1], i + K.FLUSH_ROWS))
                for b in range(len(diagonals)):
                    at = slice(b * p, (b + 1) * p)
                    t = _project(rows[block], diagonals, permutation, b) * radius[at].astype(real)
                    if dithered:
                        t = t + dither[at].astype(real)
                    sums[g, :, at] += (units(t) * weights[block][None, :, None]).sum(1)

    return add


add_near = add_far = _adder(waves, False)
count_near = count_far = _adder(signs, True)


def pack(diagonals: Numbers, permutation: Numbers) -> tuple[Numbers, ...]:
    """Tables as they are."""
    return diagonals, permutation


def pack_sums(diagonals: Numbers, permutation: Numbers, radius: Numbers, dither: Numbers) -> tuple[Numbers, ...]:
    """Tables as they are."""
    return diagonals, permutation, radius, dither


def scratch(far: bool, signs_only: bool, width: int) -> None:
    """Nothing is needed beside the sums."""


def forward(points: Numbers, tables: Any, out: Numbers, scratch: None) -> None:
    """Products of the blocks with points (k, p), times `radius`, into out (k, blocks * p)."""
    diagonals, permutation, radius = tables
    p = points.shape[1]
    for b in range(len(diagonals)):
        at = slice(b * p, (b + 1) * p)
        out[:, at] = _project(points, diagonals, permutation, b) * radius[at]


def adjoint(values: Numbers, tables: Any, out: Numbers, scratch: None) -> None:
    """Adjoint of :func:`forward`: values (k, blocks * p) are added to out (k, p)."""
    diagonals, permutation, radius = tables
    p = out.shape[1]
    for b in range(len(diagonals)):
        at = slice(b * p, (b + 1) * p)
        a = _transform(values[:, at] * radius[at], 0)
        for stage in range(diagonals.shape[1] - 1, 0, -1):
            a = a * diagonals[b, stage].astype(a.dtype)
            if len(permutation):
                back = np.empty_like(a)
                back[:, permutation[b]] = a
                a = back
            a = _transform(a, stage)
        out += a * diagonals[b, 0].astype(a.dtype)


def add_squares(rows: Numbers, count: int, tables: Any, sums: Numbers, scratch: None) -> None:
    """Add the squares of the products of the blocks with some rows (n, p) to float64 sums (blocks * p,)."""
    diagonals, permutation, radius = tables
    p = rows.shape[1]
    for b in range(len(diagonals)):
        t = (_project(rows[:count], diagonals, permutation, b) * radius[b * p : (b + 1) * p]).astype(np.float64)
        for one in t * t:  # in the order of the rows, as the compiled loops do
            sums[b * p : (b + 1) * p] += one


def add_rounded_squares(rows: Numbers, count: int, weights: Numbers, tables: Any, sums: Numbers, scratch: None) -> None:
    """The same in units of 2**-22, times weights, to int64 sums."""
    diagonals, permutation, radius = tables
    p = rows.shape[1]
    for b in range(len(diagonals)):
        t = _project(rows[:count], diagonals, permutation, b) * radius[b * p : (b + 1) * p]
        units = np.rint(t * t * np.float32(1 << K.GRID_BITS)).astype(np.int64)
        sums[b * p : (b + 1) * p] += (units * weights[:count, None]).sum(0)
