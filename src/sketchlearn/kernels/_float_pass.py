"""Sums of squared projections and of products of columns in float64, as pairs (see ``pairs``).

The passes work about a provisional centre, taken from the first rows of the chunk and put back in the end, so that
what is rounded is the spread of the data and not its distance from the origin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import pairs, tiers
from sketchlearn.kernels._quadratic_rows import PackedDirections, block_rows, present, squared_lengths
from sketchlearn.kernels.directions import project
from sketchlearn.kernels.hadamard import Blocks
from sketchlearn.kernels.sums import RowSums

_FAR = 1e140  # longer rows count as invalid
_PEAK = 2.0**30  # scaled entries up to here can't overflow float32 when projected and squared
_Rows = npt.NDArray[Any]


class Collected(Protocol):
    """What is known of rows besides the sums about their provisional centre."""

    offset: npt.NDArray[np.float64]  # of the provisional centre from the map's
    linear: npt.NDArray[np.float64]  # sum of the rows about the provisional centre
    weight: float
    lower: npt.NDArray[Any]
    upper: npt.NDArray[Any]


Fold = Callable[[Any, _Rows, _Rows, _Rows], None]


def sum_squares(
    X: npt.NDArray[np.floating],
    packed: PackedDirections,
    center: npt.NDArray[np.float64],
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Sums of ``(a·(x - center))**2`` over rows, then of ``x - center``; last, 0.

    The projections are computed in float32 about the provisional centre, the sums in float64.
    """
    squares, staging = tiers.module("quadratic"), tiers.loops("quadratic")
    size, dim = packed.directions.shape

    def run(chunk: _Chunk) -> tuple[npt.NDArray[np.float64], float]:
        sums = np.zeros(packed.padded)
        block = block_rows(2**18, 4 * dim, squares.TILE_ROWS)
        buffer = np.zeros((block, dim), np.float32)
        for i0 in range(0, len(chunk.rows), block):
            n = chunk.stage(staging, i0, min(i0 + block, len(chunk.rows)), buffer)
            buffer[n : n + -n % squares.TILE_ROWS] = 0.0
            squares.add_squares(buffer, n, packed.panels, packed.scales, sums)
        return sums[:size], 0.0

    return _float_pass(X, center, weights, skip_invalid, run, fold_squares(packed.directions))


def fold_squares(directions: npt.NDArray[np.int8]) -> Fold:
    """What puts the provisional centre back into sums of squares."""

    def fold(chunk: Collected, sums: _Rows, high: _Rows, low: _Rows) -> None:
        # sum (a.x)^2 = sum (a.(x-p))^2 + 2 (a.p)(a.s) + W (a.p)^2 for s = sum (x-p)
        p, s = project(directions, np.column_stack([chunk.offset, chunk.linear])).T
        high[:], low[:] = pairs.two_sum(sums, (2.0 * s + chunk.weight * p) * p)

    return fold


def sum_structured_squares(
    X: npt.NDArray[np.floating],
    blocks: Blocks,
    center: npt.NDArray[np.float64],
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Sums of squares in float64 for structured directions."""
    staging, dim = tiers.loops("quadratic"), X.shape[1]

    def run(chunk: _Chunk) -> tuple[npt.NDArray[np.float64], float]:
        sums = np.zeros(blocks.padded_size)
        block = block_rows(2**18, 4 * dim, 1)
        buffer, padded = np.zeros((block, dim), np.float32), blocks.padded_rows(block)
        for i0 in range(0, len(chunk.rows), block):
            n = chunk.stage(staging, i0, min(i0 + block, len(chunk.rows)), buffer)
            padded[:n, :dim] = buffer[:n]
            blocks.add_squares(padded, n, sums)
        return sums[: blocks.size], 0.0

    def fold(chunk: _Chunk, sums: _Rows, high: _Rows, low: _Rows) -> None:
        p, s = blocks.astype(np.float64).forward(np.stack([chunk.offset, chunk.linear]))
        high[:], low[:] = pairs.two_sum(sums, (2.0 * s + chunk.weight * p) * p)

    return _float_pass(X, center, weights, skip_invalid, run, fold)


def sum_products(
    X: npt.NDArray[np.floating],
    center: npt.NDArray[np.float64],
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Sums of the products of any two columns (upper triangle, row by row), then of the columns.

    Float64 rows are multiplied in float64; float32 rows in float32, block by block, and the last entry is their
    weight, so that whoever uses the sums knows their precision.
    """
    staging = tiers.loops("quadratic")
    dim = X.shape[1]
    precision = np.float32 if X.dtype == np.float32 else np.float64

    def run(chunk: _Chunk) -> tuple[npt.NDArray[np.float64], float]:
        triangle = np.zeros(dim * (dim + 1) // 2)
        square = np.empty((dim, dim), precision)
        if chunk.about_origin():
            block = max(block_rows(2**21, np.dtype(precision).itemsize * dim, 8), min(4 * dim, 4096))
            for i0 in range(0, len(chunk.rows), block):
                rows = chunk.scan(i0, min(i0 + block, len(chunk.rows)))
                np.matmul(rows.T, rows, out=square)
                staging.add_triangle(square, triangle)
            return triangle, chunk.weight if precision is np.float32 else 0.0
        block = max(block_rows(2**21, np.dtype(precision).itemsize * dim, 8), min(4 * dim, 4096))
        buffer = np.empty((min(block, max(1, len(chunk.rows))), dim), precision)
        for i0 in range(0, len(chunk.rows), block):
            n = chunk.stage(staging, i0, min(i0 + block, len(chunk.rows)), buffer)
            np.matmul(buffer[:n].T, buffer[:n], out=square)
            staging.add_triangle(square, triangle)
        return triangle, chunk.weight if precision is np.float32 else 0.0

    return _float_pass(X, center, weights, skip_invalid, run, fold_products)


def fold_products(chunk: Collected, sums: _Rows, high: _Rows, low: _Rows) -> None:
    """Put the provisional centre back into sums of products."""
    # sum x x' = sum (x-p)(x-p)' + s p' + p s' + W p p', with twice the digits of float64
    if chunk.offset.any():
        loops = tiers.loops("quadratic")
        loops.fold_products(sums, chunk.offset, chunk.linear, chunk.weight, high, low)
    else:
        high[:], low[:] = sums, 0.0


class _Suspect(Exception):
    """Some row of a block is not finite, or too large for the scale of its chunk."""


class _Chunk:
    """Rows with their provisional centre and scale, and what the staging collects on the way."""

    def __init__(self, rows: _Rows, weights: _Rows, center: npt.NDArray[np.float64], peak: float | None) -> None:
        self.rows = rows
        self._first_try = peak is None
        self.weight = float(weights.sum()) if len(weights) else float(len(rows))
        self._unit = 4.0 ** math.ceil(math.log2(weights.max()) / 2) if len(weights) else 1.0
        self.weights = weights / self._unit
        head = rows[:32].astype(np.float64)
        with np.errstate(all="ignore"):
            # a float32 number, so that float32 rows are centred without widening them
            shift = head.mean(0).astype(np.float32).astype(np.float64) if len(head) else center
            instead = center.astype(np.float32).astype(np.float64)
            self.shift = np.where(np.isfinite(shift), shift, np.where(np.isfinite(instead), instead, center))
            self.offset = self.shift - center
            if peak is None:
                size = np.abs(head - self.shift)
                peak = float(size[np.isfinite(size)].max(initial=0.0))
        self.scale = 2.0 ** -math.floor(math.log2(peak)) if 1e-140 < peak < 1e140 else 1.0
        real = rows.dtype
        dim = rows.shape[1]
        self.lower, self.upper = np.full(dim, np.inf, real), np.full(dim, -np.inf, real)
        self.linear = np.zeros(dim)
        self._single = bool(real == np.float32 and 1e-30 < self.scale < 1e30)
        squares = tiers.module("quadratic")
        self._stage_rows: Any = getattr(squares, "stage_rows", None)
        self._scan_rows: Any = getattr(squares, "scan_rows", None)
        self._head, self._center = head, center

    def about_origin(self) -> bool:
        """Whether the rows can be used as they are: no weights, no scale trouble, no column far from its zero."""
        if (
            not self._first_try
            or self._scan_rows is None
            or len(self.weights)
            or len(self._head) < 2
            or self._center.any()
        ):
            return False
        with np.errstate(all="ignore"):  # rows that are not finite are found later
            near = (np.abs(self.shift) <= 2.0 * self._head.std(0)).all() and 1e-12 < self.scale < 1e12
        if near:
            self.shift, self.offset, self.scale = self._center, self._center, 1.0
        return bool(near)

    def scan(self, i0: int, i1: int) -> _Rows:
        """Rows i0..i1 as they are, accounted for."""
        linear = np.zeros(self.rows.shape[1], self.rows.dtype)
        self._scan_rows(self.rows, i0, i1, self.lower, self.upper, linear)
        self._check(linear)
        return self.rows[i0:i1]

    def stage(self, staging: ModuleType, i0: int, i1: int, buffer: npt.NDArray[Any]) -> int:
        """Put rows i0..i1 into the buffer; their number."""
        real = np.float32 if self._single and buffer.dtype == np.float32 else np.float64
        linear, shift = np.zeros(len(self.shift), real), self.shift.astype(real)
        weights = self.weights.astype(real, copy=False)
        if self._stage_rows is not None and not len(weights) and real == self.rows.dtype:
            self._stage_rows(self.rows, i0, i1, shift, real(self.scale), buffer, self.lower, self.upper, linear)
        else:
            staging.stage(
                self.rows, i0, i1, weights, shift, real(self.scale), buffer, self.lower, self.upper, linear
            )  # fmt: skip
        self._check(linear)
        return i1 - i0

    def _check(self, linear: npt.NDArray[Any]) -> None:
        self.linear += linear
        span = max(float((self.upper - self.shift).max()), float((self.shift - self.lower).max()))
        if not (np.isfinite(linear).all() and span * self.scale < _PEAK and span < _FAR):
            raise _Suspect

    def finish(self) -> float:
        """Undo the scaling of the first moment; the factor that undoes that of the second."""
        self.linear *= self._unit / self.scale
        return self._unit / self.scale**2


def _float_pass(
    X: npt.NDArray[np.floating],
    center: npt.NDArray[np.float64],
    weights: npt.NDArray[np.int64] | None,
    skip: bool,
    run: Callable[[_Chunk], tuple[npt.NDArray[np.float64], float]],
    fold: Fold,
) -> RowSums:
    rows, w, index = present(X, weights)
    skipped, peak = 0, None
    while True:
        chunk = _Chunk(rows, w, center, peak)
        try:
            sums, single = run(chunk)
            break
        except _Suspect:
            good = squared_lengths(rows, center, 1.0) <= 1e280
            if not good.all():
                if not skip:
                    return RowSums.stopped(index[int(np.argmin(good))])
                skipped += int((~good).sum())
                rows, w, index = rows[good], w[good] if len(w) else w, index[good]
                rows.flags.writeable = False
            peak = float(np.abs(rows.astype(np.float64) - chunk.shift).max(initial=0.0))
    sums *= chunk.finish()
    return put_back(chunk, sums, single, fold, len(rows), int(w.sum()) if len(w) else len(rows), skipped)


def put_back(
    chunk: Collected, sums: npt.NDArray[np.float64], single: float, fold: Fold, rows: int, weight: int, skipped: int
) -> RowSums:
    """Sums about the provisional centre as pairs about the map's."""
    size, dim = len(sums), len(chunk.linear)
    result = np.empty((2, size + dim + 1))
    fold(chunk, sums, result[0, :size], result[1, :size])
    linear = np.stack([chunk.linear, np.zeros_like(chunk.linear)])
    result[:, size:-1] = pairs.add(linear, np.stack(pairs.two_product(chunk.offset, chunk.weight)))
    result[:, -1] = single, 0.0
    return RowSums(
        sums=result,
        rows=rows,
        weight=weight,
        lower=chunk.lower.astype(np.float64),
        upper=chunk.upper.astype(np.float64),
        skipped=skipped,
        first_invalid=None,
    )
