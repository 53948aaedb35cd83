"""Sums of squared projections and of products of columns over rows: on the integer grid or in float64."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from sketchlearn.arrays import Array, Flags
from sketchlearn.kernels import _float_pass, _grid_pass, hadamard, pairs
from sketchlearn.kernels._quadratic_rows import PackedDirections, squared_lengths
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, register_summer
from sketchlearn.kernels.sums import RowSums

_KEPT_ENTRIES, _GROUP_ENTRIES = 2**27, 2**24


class _QuadraticSummer(Summer):
    """With a number `radius` in the plan, integers of rows over it, clipped to the unit ball; without, float64."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._center = np.array(plan.arrays["center"], np.float64)
        self._radius = float(plan.numbers["radius"]) if "radius" in plan.numbers else None

    def valid(self, X: Rows) -> Flags:
        return np.asarray(squared_lengths(X, self._center, self._radius or 1.0) <= 1e280)


@register_summer("products")
class ProductsSummer(_QuadraticSummer):
    """Products of any two columns, upper triangle row by row, then the columns; the plan's array is `center`."""

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        if self._radius is None:
            return _float_pass.sum_products(X, self._center, weights, skip_invalid)
        return _grid_pass.sum_products(X, self._center, self._radius, weights, skip_invalid)


@register_summer("present products")
class PresentProductsSummer(_QuadraticSummer):
    """Products of any two of the columns and of what says which of them are there (NaN is what is not).

    The plan's array is `center`.  On the grid the latter is one unit of the ball, whatever becomes of the row.
    """

    def valid(self, X: Rows) -> Flags:
        return np.asarray(squared_lengths(self._present(X), np.zeros(1), self._radius or 1.0) <= 1e280)

    def _present(self, X: Rows) -> Array:
        """Rows about the centre, with 0 for what is missing."""
        return np.where(np.isnan(X), 0.0, np.subtract(X, self._center, dtype=np.float64))

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        rows = self._present(X)
        good = squared_lengths(rows, np.zeros(1), self._radius or 1.0) <= 1e280
        counted = good if weights is None else good & (weights > 0)
        bad = ~good if weights is None else ~good & (weights > 0)
        if bad.any() and not skip_invalid:
            return RowSums.stopped(int(np.argmax(bad)))
        held, there = X[counted], ~np.isnan(X[counted])
        w = None if weights is None else np.asarray(weights, np.int64)[counted]
        if self._radius is None:
            both = np.concatenate([rows[counted], there], axis=1, dtype=np.float64)
            part = _float_pass.sum_products(both, np.zeros(both.shape[1]), w, False)
        else:
            part = _grid_pass.sum_present_products(rows[counted], there, self._radius, w)
        lower = np.where(there, held, np.inf).min(axis=0, initial=np.inf).astype(np.float64)
        upper = np.where(there, held, -np.inf).max(axis=0, initial=-np.inf).astype(np.float64)
        return part._replace(lower=lower, upper=upper, skipped=int(bad.sum()))


@register_summer("squares")
class SquaresSummer(_QuadraticSummer):
    """Squares along directions, then the columns.

    The plan's arrays are `center` (d,), `directions` (p, d) int8 and `bounds` (p,), what the squares on the grid
    are divided by; its number `second` is 0, or 1 or -1 if the second half of the squares is added to or subtracted
    from the first.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._directions, self._bounds = plan.arrays["directions"], plan.arrays["bounds"]
        self._second = int(plan.numbers["second"])

    @cached_property
    def _packed(self) -> PackedDirections:
        return PackedDirections.pack(self._directions, self._bounds)

    def _groups(self) -> Iterator[PackedDirections]:
        """Directions ready for the loops: all at once and for good, or, if they are many, some at a time."""
        if self._directions.size <= _KEPT_ENTRIES:
            yield self._packed
            return
        step = max(1, _GROUP_ENTRIES // self.plan.dim)
        for i in range(0, len(self._directions), step):
            yield PackedDirections.pack(self._directions[i : i + step], self._bounds[i : i + step])

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        parts = [self._sum(X, group, weights, skip_invalid) for group in self._groups()]
        part = parts[0]
        if part.first_invalid is not None:
            return part
        tail = self.plan.dim + (self._radius is None)
        if len(parts) > 1:
            squares = [p.sums[..., :-tail] for p in parts]
            part = part.with_sums(np.concatenate([*squares, part.sums[..., -tail:]], axis=-1))
        if self._second == 0:
            return part
        first, second = np.split(part.sums[..., :-tail], 2, axis=-1)
        add = pairs.add_large if self._radius is None else np.add
        return part.with_sums(np.concatenate([add(first, self._second * second), part.sums[..., -tail:]], axis=-1))

    def _sum(self, X: Rows, group: PackedDirections, weights: Weights | None, skip_invalid: bool) -> RowSums:
        if self._radius is None:
            return _float_pass.sum_squares(X, group, self._center, weights, skip_invalid)
        return _grid_pass.sum_squares(X, group, self._center, self._radius, weights, skip_invalid)


@register_summer("structured squares")
class StructuredSquaresSummer(_QuadraticSummer):
    """Squares along structured unit directions, then the columns.

    The plan's arrays are `center` (d,), and `signs`, `normals`, `permutation` and `factors` (m,) float32, what the
    products are multiplied by (see :mod:`sketchlearn.kernels.hadamard`).
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        arrays, p = plan.arrays, int(plan.numbers["p"])
        blocks = hadamard.diagonals(arrays["signs"], arrays["normals"], p)
        ones = np.ones(plan.dim)
        self._blocks = hadamard.Blocks(ones, blocks, arrays["permutation"], arrays["factors"], np.float32)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        if self._radius is None:
            return _float_pass.sum_structured_squares(X, self._blocks, self._center, weights, skip_invalid)
        return _grid_pass.sum_structured_squares(X, self._blocks, self._center, self._radius, weights, skip_invalid)
