"""Sums of squared projections and of products of columns over rows.

Four passes, one for each pair of (random directions, all products) x (float64, integer grid).  The grid passes
give the same integers for any order, batches, threads and tier.  The float passes work about a provisional
centre, taken from the first rows of the chunk and put back in the end, so that what is rounded is the spread of
the data and not its distance from the origin; their results are pairs of float64 (see ``_pairs``).
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _pairs
from sketchlearn.kernels._quadratic_numpy import squared_lengths
from sketchlearn.kernels.fourier import RowSums, active_kernel, announce_compilation

GRID_BITS = 22
"""One unit of the grid of squared projections and of the first moment is 2**-22."""
PRODUCT_BITS = 15
"""With a radius, rows are rounded to multiples of 2**-15 of it before their columns are multiplied."""

_FAR = 1e140  # longer rows (over the radius, if there is one) count as invalid
_PEAK = 2.0**30  # scaled entries up to here can't overflow float32 when projected and squared
_lock = threading.Lock()
_ready: set[tuple[str, str, bool]] = set()
_NO_WEIGHTS = np.empty(0, np.int64)
_Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class PackedDirections:
    """Integer directions laid out for the active tier."""

    panels: npt.NDArray[np.float32]
    scales: npt.NDArray[np.float32]
    directions: npt.NDArray[np.int8]
    padded: int


def _tier() -> tuple[ModuleType, ModuleType]:
    """Modules of the squares and of the staging."""
    name = active_kernel()
    squares = importlib.import_module(f"sketchlearn.kernels._quadratic_{name}")
    if name == "numpy":
        return squares, squares
    return squares, importlib.import_module("sketchlearn.kernels._quadratic_staging")


def pack(directions: npt.NDArray[np.int8], bounds: npt.NDArray[np.float64]) -> PackedDirections:
    """Lay out directions (p, d), small integers, for the active tier.

    ``bounds`` are what squared projections of unit vectors don't exceed; the grid divides by them.
    """
    squares, _ = _tier()
    size = len(directions)
    padded = -(-size // squares.LANES) * squares.LANES
    scales = np.ones(padded, np.float32)
    scales[:size] = 1.0 / bounds
    return PackedDirections(squares.pack(directions), scales, directions, padded)


def squared_norms(directions: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    """Squared lengths of integer directions (exact), a few at a time."""
    out = np.empty(len(directions))
    step = max(1, 2**22 // directions.shape[1])
    for i in range(0, len(directions), step):
        block = directions[i : i + step].astype(np.int64)
        out[i : i + step] = (block * block).sum(1)
    return np.maximum(out, 1.0)


def project(directions: npt.NDArray[np.int8], matrix: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
    """``directions @ matrix`` in the precision of the matrix, without a copy of all directions in that precision."""
    out = np.empty((len(directions), *matrix.shape[1:]), matrix.dtype)
    step = max(1, 2**22 // directions.shape[1])
    for i in range(0, len(directions), step):
        np.matmul(directions[i : i + step].astype(matrix.dtype), matrix, out=out[i : i + step])
    return out


def _compiled_first(function: Callable[..., RowSums]) -> Callable[..., RowSums]:
    """Let one thread compile what a kind of rows needs, and say so, before any work."""

    @wraps(function)
    def wrapper(X: npt.NDArray[np.floating], *arguments: Any) -> RowSums:
        key = function.__name__, X.dtype.char, len(arguments) > 1 and arguments[-2] is not None
        if key not in _ready:
            with _lock, announce_compilation():
                weights = np.ones(1, np.int64) if key[2] else None
                function(np.zeros((1, X.shape[1]), X.dtype), *arguments[:-2], weights, False)
                _ready.add(key)
        return function(X, *arguments)

    return wrapper


def add_pairs(a: _pairs.Pairs, b: _pairs.Pairs, out: _pairs.Pairs | None = None) -> _pairs.Pairs:
    """Sums of pairs of float64; ``out`` may be one of them."""
    if out is None:
        out = np.empty(a.shape)
    if a.size < 4096:
        out[:] = _pairs.add(a, b)
    else:
        with announce_compilation():
            _tier()[1].add_pairs(_frozen(a), _frozen(b), out)
    return out


def _frozen(a: _pairs.Pairs) -> _pairs.Pairs:
    view = np.ascontiguousarray(a)[:]
    view.flags.writeable = False
    return view


# -- float64 ---------------------------------------------------------------------------------


@_compiled_first
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
    squares, staging = _tier()
    size, dim = packed.directions.shape

    def run(chunk: _Chunk) -> tuple[npt.NDArray[np.float64], float]:
        sums = np.zeros(packed.padded)
        block = _block_rows(2**18, 4 * dim, squares.TILE_ROWS)
        buffer = np.zeros((block, dim), np.float32)
        for i0 in range(0, len(chunk.rows), block):
            n = chunk.stage(staging, i0, min(i0 + block, len(chunk.rows)), buffer)
            buffer[n : n + -n % squares.TILE_ROWS] = 0.0
            squares.add_squares(buffer, n, packed.panels, packed.scales, sums)
        return sums[:size], 0.0

    def fold(chunk: _Chunk, sums: _Rows, high: _Rows, low: _Rows) -> None:
        # sum (a.x)^2 = sum (a.(x-p))^2 + 2 (a.p)(a.s) + W (a.p)^2 for s = sum (x-p)
        p, s = project(packed.directions, np.column_stack([chunk.offset, chunk.linear])).T
        high[:], low[:] = _pairs.two_sum(sums, (2.0 * s + chunk.weight * p) * p)

    return _float_pass(X, center, weights, skip_invalid, run, fold)


@_compiled_first
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
    _, staging = _tier()
    dim = X.shape[1]
    precision = np.float32 if X.dtype == np.float32 else np.float64

    def run(chunk: _Chunk) -> tuple[npt.NDArray[np.float64], float]:
        triangle = np.zeros(dim * (dim + 1) // 2)
        square = np.empty((dim, dim), precision)
        if chunk.about_origin():
            block = max(_block_rows(2**21, np.dtype(precision).itemsize * dim, 8), min(4 * dim, 4096))
            for i0 in range(0, len(chunk.rows), block):
                rows = chunk.scan(i0, min(i0 + block, len(chunk.rows)))
                np.matmul(rows.T, rows, out=square)
                staging.add_triangle(square, triangle)
            return triangle, chunk.weight if precision is np.float32 else 0.0
        block = max(_block_rows(2**21, np.dtype(precision).itemsize * dim, 8), min(4 * dim, 4096))
        buffer = np.empty((min(block, max(1, len(chunk.rows))), dim), precision)
        for i0 in range(0, len(chunk.rows), block):
            n = chunk.stage(staging, i0, min(i0 + block, len(chunk.rows)), buffer)
            np.matmul(buffer[:n].T, buffer[:n], out=square)
            staging.add_triangle(square, triangle)
        return triangle, chunk.weight if precision is np.float32 else 0.0

    def fold(chunk: _Chunk, sums: _Rows, high: _Rows, low: _Rows) -> None:
        # sum x x' = sum (x-p)(x-p)' + s p' + p s' + W p p', with twice the digits of float64
        if chunk.offset.any():
            staging.fold_products(sums, chunk.offset, chunk.linear, chunk.weight, high, low)
        else:
            high[:], low[:] = sums, 0.0

    return _float_pass(X, center, weights, skip_invalid, run, fold)


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
            self.shift = np.where(np.isfinite(shift), shift, center.astype(np.float32).astype(np.float64))
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
        squares = _tier()[0]
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
    fold: Callable[..., None],
) -> RowSums:
    rows, w, index = _present(X, weights)
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
                    return _stopped(index[int(np.argmin(good))])
                skipped += int((~good).sum())
                rows, w, index = rows[good], w[good] if len(w) else w, index[good]
                rows.flags.writeable = False
            peak = float(np.abs(rows.astype(np.float64) - chunk.shift).max(initial=0.0))
    sums *= chunk.finish()
    size, dim = len(sums), len(chunk.linear)
    result = np.empty((2, size + dim + 1))
    fold(chunk, sums, result[0, :size], result[1, :size])
    linear = np.stack([chunk.linear, np.zeros_like(chunk.linear)])
    result[:, size:-1] = _pairs.add(linear, np.stack(_pairs.two_product(chunk.offset, chunk.weight)))
    result[:, -1] = single, 0.0
    return RowSums(
        sums=result,
        rows=len(rows),
        weight=int(w.sum()) if len(w) else len(rows),
        lower=chunk.lower.astype(np.float64),
        upper=chunk.upper.astype(np.float64),
        skipped=skipped,
        first_invalid=None,
    )


# -- integer grid ----------------------------------------------------------------------------


@_compiled_first
def sum_squares_on_grid(
    X: npt.NDArray[np.floating],
    packed: PackedDirections,
    center: npt.NDArray[np.float64],
    radius: float,
    weights: npt.NDArray[np.int64] | None,
    skip_invalid: bool,
) -> RowSums:
    """Integer sums of ``(a·u)**2 / bound`` and then of u, for u = (x - center) / radius clipped to the unit ball."""
    squares, staging = _tier()
    size, dim = packed.directions.shape
    sums = np.zeros(packed.padded, np.int64)
    block = _block_rows(2**18, 4 * dim, squares.TILE_ROWS)
    buffer = np.zeros((block, dim), np.float32)

    def add(n: int, w: npt.NDArray[np.int64]) -> None:
        buffer[n : n + -n % squares.TILE_ROWS] = 0.0
        squares.add_rounded_squares(buffer, n, w, packed.panels, packed.scales, sums)

    return _grid_pass(X, center, radius, weights, skip_invalid, staging, -1, buffer, add, lambda: sums[:size])


@_compiled_first
def sum_products_on_grid(
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
    _, staging = _tier()
    dim = X.shape[1]
    triangle = np.zeros(dim * (dim + 1) // 2, np.int64)
    buffer = np.empty((max(_block_rows(2**20, 8 * dim, 8), min(4 * dim, 2048)), dim))
    square = np.empty((dim, dim))

    def add(n: int, w: npt.NDArray[np.int64]) -> None:
        if len(w):
            rows = buffer[:n].astype(np.int64)
            staging.add_triangle((rows * w[:, None]).T @ rows, triangle)
        else:
            np.matmul(buffer[:n].T, buffer[:n], out=square)
            staging.add_triangle(square, triangle)

    return _grid_pass(X, center, radius, weights, skip_invalid, staging, PRODUCT_BITS, buffer, add, lambda: triangle)


def _grid_pass(
    X: npt.NDArray[np.floating],
    center: npt.NDArray[np.float64],
    radius: float,
    weights: npt.NDArray[np.int64] | None,
    skip: bool,
    staging: ModuleType,
    bits: int,
    buffer: npt.NDArray[Any],
    add: Callable[[int, npt.NDArray[np.int64]], None],
    result: Callable[[], npt.NDArray[np.int64]],
) -> RowSums:
    rows, w, index = _present(X, weights)
    skipped = 0
    block = len(buffer)
    lower, upper = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    linear = np.zeros(X.shape[1], np.int64)
    at = 0
    while at < len(rows):
        end = min(at + block, len(rows))
        box = lower.copy(), upper.copy(), linear.copy()
        bad = staging.stage_clipped(rows, at, end, w, center, radius, bits, buffer, *box)
        if bad >= 0:
            if not skip:
                return _stopped(index[bad])
            good = squared_lengths(rows, center, radius) <= 1e280
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


# -- both ------------------------------------------------------------------------------------


def _present(
    X: npt.NDArray[np.floating], weights: npt.NDArray[np.int64] | None
) -> tuple[_Rows, npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Rows of positive weight, their weights (empty if all are 1) and their places."""
    index = np.arange(len(X))
    rows = X.view(np.ndarray)
    if weights is not None:
        index = np.flatnonzero(weights)
        rows = rows if len(index) == len(X) else rows[index]
        weights = np.ascontiguousarray(weights[index], np.int64)
    if not rows.flags.c_contiguous:
        rows = np.ascontiguousarray(rows)
    rows = rows[:]
    rows.flags.writeable = False  # of this view: one compiled signature serves all
    return rows, _NO_WEIGHTS if weights is None else weights, index


def _stopped(first: int) -> RowSums:
    nothing = np.empty(0)
    return RowSums(nothing, 0, 0, nothing, nothing, 0, int(first))


def _block_rows(budget: int, row_bytes: int, multiple: int) -> int:
    rows = max(8, min(4096, budget // row_bytes))
    return -(-rows // multiple) * multiple
