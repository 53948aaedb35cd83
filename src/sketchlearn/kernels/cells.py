"""Counts of the cells that the columns of rows are in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels._constants import GRID_BITS
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, register_summer
from sketchlearn.kernels.sums import RowSums

_BLOCK = 2**18  # numbers at a time


@register_summer("cells")
class CellSummer(Summer):
    """Adds 1, in units of the grid, for the cell of each column; values beyond the ends are in the cells there.

    Arrays `lower` and `rate` (cells per unit), `cells` and `starts` (number of cells of each column, and of the first).
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._lower, self._rate = plan.arrays["lower"], plan.arrays["rate"]
        self._last, self._starts = plan.arrays["cells"] - 1, plan.arrays["starts"]

    def cells_of(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Number of the cell of each value, counted over all columns."""
        cell = np.clip(np.floor((rows - self._lower) * self._rate), 0, self._last)
        return np.asarray(cell.astype(np.int64) + self._starts)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        present = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        valid = self.valid(X[present])
        if not skip_invalid and not valid.all():
            return RowSums.stopped(present[int(np.argmin(valid))])
        used = present[valid]
        w = np.ones(len(used), np.int64) if weights is None else np.asarray(weights, np.int64)[used]
        sums = np.zeros(self.plan.sums_shape, np.int64)
        lower, upper = np.full(self.plan.dim, np.inf), np.full(self.plan.dim, -np.inf)
        step = max(1, _BLOCK // self.plan.dim)
        for i in range(0, len(used), step):
            rows = np.asarray(X[used[i : i + step]], np.float64)
            cells = self.cells_of(rows)
            if weights is None:
                sums += np.bincount(cells.ravel(), minlength=len(sums))
            else:
                np.add.at(sums, cells.ravel(), np.repeat(w[i : i + step], self.plan.dim))
            np.minimum(lower, rows.min(0), out=lower)
            np.maximum(upper, rows.max(0), out=upper)
        skipped = len(present) - len(used)
        return RowSums(sums << GRID_BITS, len(used), int(w.sum()), lower, upper, skipped, None)

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isfinite(X).all(axis=1))
