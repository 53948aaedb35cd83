"""Counts of the cells that the columns of rows are in."""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array, Ints
from sketchlearn.kernels._constants import GRID_BITS
from sketchlearn.kernels.plan import BlockSummer, Plan, register_summer

_BLOCK = 2**18  # numbers at a time


@register_summer("cells")
class CellSummer(BlockSummer):
    """Adds 1, in units of the grid, for the cell of each column; values beyond the ends are in the cells there.

    Arrays `lower` and `rate` (cells per unit), `cells` and `starts` (number of cells of each column, and of the first).
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._lower, self._rate = plan.arrays["lower"], plan.arrays["rate"]
        self.block = max(1, _BLOCK // plan.dim)
        self._last, self._starts = plan.arrays["cells"] - 1, plan.arrays["starts"]

    def cells_of(self, rows: Array) -> Ints:
        """Number of the cell of each value, counted over all columns."""
        cell = np.clip(np.floor((rows - self._lower) * self._rate), 0, self._last)
        return np.asarray(cell.astype(np.int64) + self._starts)

    def add(self, sums: Ints, rows: Array, weights: Ints) -> None:
        cells = self.cells_of(rows).ravel()
        if (weights == 1).all():
            sums += np.bincount(cells, minlength=len(sums)) << GRID_BITS
        else:
            np.add.at(sums, cells, np.repeat(weights << GRID_BITS, self.plan.dim))
