"""Sums of second, third and fourth powers of projections of whitened, clipped rows, as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array, Flags, Ints
from sketchlearn.kernels import _grid_pass, tiers
from sketchlearn.kernels._quadratic_rows import PackedDirections, block_rows, squared_lengths
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, register_summer
from sketchlearn.kernels.sums import RowSums

_Array = AnyArray


@register_summer("powers")
class PowersSummer(Summer):
    """Second, then third, then fourth powers along directions, then the columns, of whitened and clipped rows.

    The plan's arrays are `center` (d,), `whitening` (d, d), `directions` (m, d) int8 and `bounds` (m,), the lengths
    of the directions; its number `radius` is where whitened rows are clipped.  A whitened row over the radius is in
    the unit ball, its projection over the length of the direction between -1 and 1: all sums are in units of 2**-22.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        arrays = plan.arrays
        self._center = np.array(arrays["center"], np.float64)
        self._matrix = np.ascontiguousarray(arrays["whitening"], np.float64)
        self._radius = float(plan.numbers["radius"])
        self._packed = PackedDirections.pack(arrays["directions"], arrays["bounds"])

    def whitened(self, X: Rows) -> Array:
        """Rows as they are clipped, (n, d)."""
        out = np.empty((len(X), self.plan.dim))
        rows = np.ascontiguousarray(X).view(np.ndarray)
        tiers.loops("quartic").whiten(rows, 0, len(rows), self._center, self._matrix, out)
        return out

    def valid(self, X: Rows) -> Flags:
        return np.asarray(squared_lengths(self.whitened(X), np.zeros(self.plan.dim), self._radius) <= 1e280)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        powers: Any = tiers.module("quartic")
        packed, dim = self._packed, self.plan.dim
        size = len(packed.directions)
        sums, one = np.zeros(3 * packed.padded, np.int64), np.empty(3 * packed.padded, np.int64)
        block = block_rows(2**18, 4 * dim, powers.TILE_ROWS)
        buffer = np.zeros((block, dim), np.float32)

        def add(n: int, w: Ints) -> None:
            buffer[n : n + -n % powers.TILE_ROWS] = 0.0
            if len(w):
                powers.add_weighted_powers(buffer, n, w, packed.panels, packed.scales, sums, one)
            else:
                powers.add_powers(buffer, n, packed.panels, packed.scales, sums)

        def result() -> Ints:
            by_power = sums.reshape(-1, 3, powers.LANES).transpose(1, 0, 2).reshape(3, -1)
            return by_power[:, :size].reshape(-1)

        return _grid_pass.grid_pass(
            X, self._center, self._radius, weights, skip_invalid, _Staging(self, block), -1, buffer, add, result
        )


class _Staging:
    """The staging of squares, of rows that are whitened first; the box is that of the rows as they are."""

    def __init__(self, summer: PowersSummer, block: int) -> None:
        self._summer, self._base = summer, tiers.loops("quadratic")
        self._whiten = tiers.loops("quartic").whiten
        self._out, self._origin = np.empty((block, summer.plan.dim)), np.zeros(summer.plan.dim)
        self._nowhere = np.empty(summer.plan.dim), np.empty(summer.plan.dim)

    def stage_clipped(
        self, rows: _Array, at: int, end: int, w: _Array, center: _Array, radius: float, bits: int, out: _Array,
        lower: _Array, upper: _Array, linear: _Array, x: _Array,
    ) -> int:  # fmt: skip
        """Rows at..end over the radius, whitened and clipped to the unit ball, into ``out``."""
        self._whiten(rows, at, end, center, self._summer._matrix, self._out)
        white = self._out.view()
        white.flags.writeable = False
        n, weights = end - at, w[at:end] if len(w) else w
        bad = self._base.stage_clipped(white, 0, n, weights, self._origin, radius, bits, out, *self._nowhere, linear, x)
        if bad >= 0:
            return int(at + bad)
        np.minimum(lower, rows[at:end].min(0), out=lower)
        np.maximum(upper, rows[at:end].max(0), out=upper)
        return -1

    def squared_lengths(self, rows: _Array, center: _Array, radius: float) -> _Array:
        """Squared lengths of whitened rows over the radius."""
        return squared_lengths(self._summer.whitened(rows), self._origin, radius)
