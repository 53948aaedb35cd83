"""Sums of the products of columns of rows that miss entries, as they are expected given what each row holds."""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array, Flags, Ints
from sketchlearn.kernels import _float_pass, _grid_pass, tiers
from sketchlearn.kernels._constants import PRODUCT_BITS
from sketchlearn.kernels._quadratic_rows import present, squared_lengths
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, register_summer
from sketchlearn.kernels.sums import RowSums

_FARTHEST = 1e240  # squared length of a row: filling its gaps may make it longer


def inverse(matrix: Array) -> Array:
    """The inverse of a positive definite matrix, in a fixed order of operations; ValueError if it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.kernels.completed import inverse
    >>> inverse(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    out = np.empty_like(matrix)
    if not tiers.loops("completed").invert(np.array(matrix), np.zeros_like(matrix), out):
        raise ValueError("covariance must be positive definite")
    return out


@register_summer("completed products")
class CompletedProductsSummer(Summer):
    """Products of columns of completed rows, the columns, covariances of what was missing, and how many hold each.

    The plan's arrays are `center`, `mean`, `precision` and `units`; with a number `radius` completed rows are clipped
    and the sums are integers, without one pairs of float64.  Covariances are counted in whole units in both cases.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        arrays = plan.arrays
        self._mean, self._precision, self._units = (np.array(arrays[k]) for k in ("mean", "precision", "units"))
        self._offset = np.array(arrays["center"]) - self._mean
        self._radius = float(plan.numbers["radius"]) if "radius" in plan.numbers else None

    def valid(self, X: Rows) -> Flags:
        held = np.where(np.isnan(X), 0.0, np.subtract(X, self._mean, dtype=np.float64))
        return np.asarray(squared_lengths(held, np.zeros(1), 1.0) <= _FARTHEST)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        good = self.valid(X)
        counted, bad = (good, ~good) if weights is None else (good & (weights > 0), ~good & (weights > 0))
        if bad.any() and not skip_invalid:
            return RowSums.stopped(int(np.argmax(bad)))
        rows, w, _ = present(X[counted], None if weights is None else np.asarray(weights, np.int64)[counted])
        filled, spread = self.completed(rows.astype(np.float64), w)
        there = ~np.isnan(rows)
        own, held = (w, w @ there) if len(w) else (None, there.sum(axis=0))
        spread = np.concatenate([spread, held.astype(np.int64)])
        if self._radius is None:
            part = _float_pass.sum_products(filled, self._offset, own, False)
            high = spread.astype(np.float64)
            sums = np.concatenate([part.sums, np.stack([high, (spread - high.astype(np.int64)).astype(float)])], axis=1)
        else:
            part = _grid_pass.sum_products(filled, self._offset, self._radius, own, False)
            sums = np.concatenate([part.sums, spread])
        lower = np.where(there, rows, np.inf).min(axis=0, initial=np.inf).astype(np.float64)
        upper = np.where(there, rows, -np.inf).max(axis=0, initial=-np.inf).astype(np.float64)
        return part._replace(sums=sums, lower=lower, upper=upper, skipped=int(bad.sum()))

    def completed(self, rows: Array, weights: Ints) -> tuple[Array, Ints]:
        """Expected rows about the mean, and the sum of the covariances of what was missing, in units of 2**-30."""
        d = rows.shape[1]
        filled, spread = np.empty(rows.shape), np.zeros(d * (d + 1) // 2, np.int64)
        square, vector = (np.empty((d, d)) for _ in range(2)), np.empty(d)
        places = (np.empty(d, np.int64) for _ in range(2))
        tiers.loops("completed").fill(
            np.ascontiguousarray(rows), self._mean, self._precision, self._units * 2.0**PRODUCT_BITS,
            np.array(weights), filled, spread, *square, vector, *places,
        )  # fmt: skip
        return filled, spread
