"""Sums of squared projections and of products of columns as integers: the same for any order, batches and tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers
from sketchlearn.kernels._constants import PRODUCT_BITS
from sketchlearn.kernels._quadratic_rows import PackedDirections, block_rows, present
from sketchlearn.kernels.hadamard import Blocks
from sketchlearn.kernels.sums import RowSums


def sum_squares(
    X: npt.NDArray[np.floating],
    packed: PackedDirections,
    center: npt.NDArray[np.float64],
    radius: float,
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Integer sums of ``(a·u)**2 / bound`` and then of u, for u = (x - center) / radius clipped to the unit ball."""
    squares, staging = tiers.module("quadratic"), tiers.loops("quadratic")
    size, dim = packed.directions.shape
    sums = np.zeros(packed.padded, np.int64)
    block = block_rows(2**18, 4 * dim, squares.TILE_ROWS)
    buffer, one = np.zeros((block, dim), np.float32), np.empty(packed.padded, np.int64)

    def add(n: int, w: npt.NDArray[np.int64]) -> None:
        buffer[n : n + -n % squares.TILE_ROWS] = 0.0
        if len(w):
            squares.add_weighted_squares(buffer, n, w, packed.panels, packed.scales, sums, one)
        else:
            squares.add_rounded_squares(buffer, n, packed.panels, packed.scales, sums)

    return grid_pass(X, center, radius, weights, skip_invalid, staging, -1, buffer, add, lambda: sums[:size])


def sum_structured_squares(
    X: npt.NDArray[np.floating],
    blocks: Blocks,
    center: npt.NDArray[np.float64],
    radius: float,
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Sums of squares on the grid for structured directions of length at most 1."""
    staging, dim = tiers.loops("quadratic"), X.shape[1]
    sums = np.zeros(blocks.padded_size, np.int64)
    block = block_rows(2**18, 4 * dim, 1)
    buffer, padded = np.zeros((block, dim), np.float32), blocks.padded_rows(block)
    ones = np.ones(block, np.int64)

    def add(n: int, w: npt.NDArray[np.int64]) -> None:
        padded[:n, :dim] = buffer[:n]
        blocks.add_rounded_squares(padded, n, np.array(w) if len(w) else ones, sums)

    return grid_pass(X, center, radius, weights, skip_invalid, staging, -1, buffer, add, lambda: sums[: blocks.size])


def sum_products(
    X: npt.NDArray[np.floating],
    center: npt.NDArray[np.float64],
    radius: float,
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Integer sums of the products of the columns of u, rounded to 2**-15, and then of the same u.

    Products of rounded rows are integers below 2**30: blocks of them add up without error in float64, in whatever
    order the matrix product takes.
    """
    staging = tiers.loops("quadratic")
    dim = X.shape[1]
    triangle = np.zeros(dim * (dim + 1) // 2, np.int64)
    buffer = np.empty((max(block_rows(2**20, 8 * dim, 8), min(4 * dim, 2048)), dim))
    square = np.empty((dim, dim))

    def add(n: int, w: npt.NDArray[np.int64]) -> None:
        if len(w):
            rows = buffer[:n].astype(np.int64)
            staging.add_triangle((rows * w[:, None]).T @ rows, triangle)
        else:
            np.matmul(buffer[:n].T, buffer[:n], out=square)
            staging.add_triangle(square, triangle)

    return grid_pass(X, center, radius, weights, skip_invalid, staging, PRODUCT_BITS, buffer, add, lambda: triangle)


def sum_present_products(
    rows: npt.NDArray[np.float64], there: npt.NDArray[np.bool_], radius: float, weights: npt.NDArray[np.int64] | None
) -> RowSums:
    """Integer sums of the products of the columns of (u, m), and then of (u, m).

    u are valid rows about the origin, 0 where nothing is there, over the radius and clipped to the unit ball, and m is
    1 where something is; both in units of 2**-15.
    """
    staging, dim = tiers.loops("quadratic"), rows.shape[1]
    rows, w, _ = present(rows, weights)
    triangle = np.zeros(dim * (2 * dim + 1), np.int64)
    block = max(block_rows(2**20, 16 * dim, 8), min(8 * dim, 2048))
    buffer, both = np.empty((block, dim)), np.empty((block, 2 * dim))
    box, linear = np.full((2, dim), np.inf), np.zeros(2 * dim, np.int64)
    for at in range(0, len(rows), block):
        n = min(block, len(rows) - at)
        nothing = np.zeros(dim, np.int64)
        staging.stage_clipped(
            rows, at, at + n, w, np.zeros(dim), radius, PRODUCT_BITS, buffer, *box, nothing, np.empty(dim)
        )
        both[:n, :dim], both[:n, dim:] = buffer[:n], there[at : at + n] * 2.0**PRODUCT_BITS
        if len(w):
            whole = both[:n].astype(np.int64)
            heavy = whole * w[at : at + n, None]
            staging.add_triangle(heavy.T @ whole, triangle)
            linear += heavy.sum(axis=0)
        else:
            staging.add_triangle(both[:n].T @ both[:n], triangle)
            linear += both[:n].sum(axis=0).astype(np.int64)
    total = int(w.sum()) if len(w) else len(rows)
    return RowSums(np.concatenate([triangle, linear]), len(rows), total, box[0], box[1], 0, None)


def grid_pass(
    X: npt.NDArray[np.floating],
    center: npt.NDArray[np.float64],
    radius: float,
    weights: npt.NDArray[np.int64] | None,
    skip: bool,
    staging: Any,
    bits: int,
    buffer: npt.NDArray[Any],
    add: Callable[[int, npt.NDArray[np.int64]], None],
    result: Callable[[], npt.NDArray[np.int64]],
) -> RowSums:
    """Rows block by block through ``staging`` into ``buffer``, and from there by ``add`` to what ``result`` returns."""
    rows, w, index = present(X, weights)
    skipped = 0
    block = len(buffer)
    lower, upper = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    linear = np.zeros(X.shape[1], np.int64)
    scratch = np.empty(X.shape[1])
    at = 0
    while at < len(rows):
        end = min(at + block, len(rows))
        box = lower.copy(), upper.copy(), linear.copy()
        bad = staging.stage_clipped(rows, at, end, w, center, radius, bits, buffer, *box, scratch)
        if bad >= 0:
            if not skip:
                return RowSums.stopped(index[bad])
            good = staging.squared_lengths(rows, center, radius) <= 1e280
            good[:at] = True
            skipped += int((~good).sum())
            rows, w = rows[good], w[good] if len(w) else w
            rows.flags.writeable = False
            continue
        lower, upper, linear = box
        add(end - at, w[at:end])
        at = end
    return RowSums(
        sums=np.concatenate([result(), linear]),
        rows=len(rows),
        weight=int(w.sum()) if len(w) else len(rows),
        lower=lower,
        upper=upper,
        skipped=skipped,
        first_invalid=None,
    )
