"""Sums of products of integer features: the second moment of rows that were replaced by their features."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sketchlearn.arrays import Array, Flags, Index
from sketchlearn.kernels._constants import GRID_BITS, PRODUCT_BITS
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, prepare, register_summer
from sketchlearn.kernels.sums import RowSums

_BLOCK_ENTRIES = 2**19
_EXACT = 2**52  # integers below twice this are added without error in float64, in any order


@register_summer("embedded")
class EmbeddedSummer(Summer):
    """Products of any two features, upper triangle row by row, then the features, rounded to 2**-15.

    The plan has the arrays and numbers of the inner plan, whose features have parts of at most 1 in units of 2**-22,
    and the number `inner`, its kind.  Products of rounded features are integers of at most 2**30: blocks of them add
    up without error in float64, in whatever order the matrix product takes.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        numbers = {name: value for name, value in plan.numbers.items() if name not in ("inner", "width")}
        self._width = int(plan.numbers["width"])
        shape = (2, self._width // 2)
        inner = Plan(str(plan.numbers["inner"]), plan.dim, shape, np.dtype(np.int64), plan.arrays, numbers)
        self._inner = prepare(inner)

    @cached_property
    def _triangle(self) -> tuple[Index, ...]:
        return np.triu_indices(self._width)

    def features(self, X: Rows) -> Array:
        """Features of each row in units of 2**-15, (n, width); zero for rows that have none."""
        units = self._inner.row_units(X).reshape(len(X), self._width)
        shift = GRID_BITS - PRODUCT_BITS
        return ((units + (1 << (shift - 1))) >> shift).astype(np.float64)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        present = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        valid = self.valid(X[present])
        if not skip_invalid and not valid.all():
            return RowSums.stopped(present[int(np.argmin(valid))])
        used = present[valid]
        w = None if weights is None else np.asarray(weights, np.int64)[used]
        square, line = np.zeros((self._width, self._width), np.int64), np.zeros(self._width, np.int64)
        lower, upper = np.full(self.plan.dim, np.inf), np.full(self.plan.dim, -np.inf)
        # a block is small enough for its products, times the largest weight, to be exact
        heaviest = 1 if w is None else int(w.max(initial=1))
        exact = _EXACT >> (2 * PRODUCT_BITS)
        block = max(1, min(_BLOCK_ENTRIES // self._width, exact // heaviest))
        for i in range(0, len(used), block):
            at = used[i : i + block]
            rows = X[at] if len(at) < len(X) else X
            units = self.features(rows)
            np.minimum(lower, rows.min(0), out=lower)
            np.maximum(upper, rows.max(0), out=upper)
            if w is None:
                square += (units.T @ units).astype(np.int64)
                line += units.sum(0).astype(np.int64)
            elif heaviest <= exact:
                weighted = units * w[i : i + block, None]
                square += (weighted.T @ units).astype(np.int64)
                line += weighted.sum(0).astype(np.int64)
            else:
                whole = units.astype(np.int64)
                square += (whole * w[i : i + block, None]).T @ whole
                line += w[i : i + block] @ whole
        weight = len(used) if w is None else int(w.sum())
        sums = np.concatenate([square[self._triangle], line])
        return RowSums(sums, len(used), weight, lower, upper, len(present) - len(used), None)

    def valid(self, X: Rows) -> Flags:
        return self._inner.valid(X)
