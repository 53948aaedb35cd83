"""Random projections of rows: sums of standardised columns with random signs, the same bits everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, prepare, register_summer
from sketchlearn.kernels.sums import RowSums

_Array = npt.NDArray[np.float64]


def project(rows: npt.NDArray[np.floating], center: _Array, spread: _Array, signs: _Array, factor: float) -> _Array:
    """Rows (n, d) about a centre, in units of the spread, times signs (d, p) and a factor: (n, p).

    Each row comes out on its own, its columns added in their order.  A row with NaN or infinity is one of NaN or
    infinity.
    """
    loops: Any = tiers.loops("projection")
    block = np.ascontiguousarray(rows).view()
    block.flags.writeable = False  # compiled once for both
    out = np.zeros((len(block), signs.shape[1]))
    loops.project(block, center, spread, signs, out)
    with np.errstate(over="ignore"):
        out *= factor
    return out


_OWN = ("projected center", "projected spread", "signs of columns", "projected kind", "projected factor")


@register_summer("projected")
class ProjectedSummer(Summer):
    """Sums of any plan over projected rows; the box is that of the projected rows.

    The plan has the arrays and numbers of the plan for projected rows, its kind as `projected kind`, the signs
    (columns, projections), and for each column a centre and a unit.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._center, self._spread, self._signs = (plan.arrays[name] for name in _OWN[:3])
        self._factor = float(plan.numbers["projected factor"])
        arrays = {name: array for name, array in plan.arrays.items() if name not in _OWN}
        numbers = {name: value for name, value in plan.numbers.items() if name not in _OWN}
        kind, dim = str(plan.numbers["projected kind"]), self._signs.shape[1]
        self._inner = prepare(Plan(kind, dim, plan.sums_shape, plan.sums_dtype, arrays, numbers, plan.features))

    def _projected(self, X: Rows) -> _Array:
        return project(np.asarray(X), self._center, self._spread, self._signs, self._factor)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        return self._inner.sum_rows(self._projected(X), weights, skip_invalid)

    def sum_runs(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None = None, skip_invalid: bool = False
    ) -> list[RowSums]:
        return self._inner.sum_runs(self._projected(X), starts, weights, skip_invalid)

    def row_units(self, X: Rows) -> npt.NDArray[np.int64]:
        return self._inner.row_units(self._projected(X))

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return self._inner.valid(self._projected(X))
