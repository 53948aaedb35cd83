"""Histograms of single columns: which cell of a public range each value is in.

A map of the whole row knows how columns go together; what single columns look like (spikes, whole numbers, edges) it
knows only as far as its frequencies reach.  A histogram of each column is the opposite.  A row adds 1 to one cell of
each column, so that a release of all of them costs no more than the root of the number of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Ints
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.recipe_arrays import decode_array, encode_array
from sketchlearn.kernels import Plan

CELLS = 64
"""Cells of each column by default."""
_MOST = 2**20


@register
@dataclass(frozen=True, eq=False, repr=False)
class HistogramFeatures(FeatureMap):
    """Cells of single columns; from :meth:`HistogramFeatures.draw` or ``sl.design(task="columns", bounds=...)``.

    Attributes
    ----------
    dim, size : int
        Columns, and cells of all of them.
    lower, upper : ndarray (dim,)
        Ends of the cells; values beyond are in the first or last one.
    cells : tuple of int
        Number of cells of each column.
    integers : tuple of int
        Columns of whole numbers, by their place: their cells hold as many of them each.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.features import HistogramFeatures
    >>> phi = HistogramFeatures.draw([0.0, 0.0], [1.0, 3.0], cells=4, integers=[1])
    >>> s = sl.sketch([[0.1, 2.0], [0.9, 2.0]], phi)
    >>> s.mean.tolist()
    [0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 1.0, 0.0]
    """

    kind: ClassVar[str] = "histogram"
    dim: int
    size: int
    lower: Array
    upper: Array
    cells: tuple[int, ...]
    integers: tuple[int, ...] = ()

    @classmethod
    def draw(
        cls, lower: npt.ArrayLike, upper: npt.ArrayLike, *, cells: int = CELLS, integers: Sequence[int] = ()
    ) -> HistogramFeatures:
        """Cells of equal width between public bounds.

        Parameters
        ----------
        lower, upper : array (dim,)
            Bounds of the columns.
        cells : int
            Cells of each column; of whole numbers no more than there are in the bounds.
        integers : sequence of int
            Columns that hold whole numbers.

        Examples
        --------
        >>> from sketchlearn.features import HistogramFeatures
        >>> HistogramFeatures.draw([0.0, 0.0], [9.0, 9.0], cells=100, integers=[0]).cells
        (10, 100)
        """
        low, high = (np.array(b, np.float64) for b in (lower, upper))
        if low.ndim != 1 or low.shape != high.shape or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError("bounds of a histogram must be finite numbers per column, the lower below the upper one")
        if isinstance(cells, bool) or not isinstance(cells, int | np.integer) or not 1 <= cells <= _MOST:
            raise ValueError(f"cells must be an integer from 1 to {_MOST:,}, got {cells!r}")
        numbers = [int(cells)] * len(low)
        for j in integers:
            if not 0 <= j < len(low):
                raise ValueError(f"integers: there is no column {j!r} of {len(low)}")
            first, last = np.ceil(low[j]), np.floor(high[j])
            if first > last:
                raise ValueError(f"there is no whole number between the bounds of column {j}, {low[j]} and {high[j]}")
            width = -(-(last - first + 1.0) // cells)
            numbers[j] = int(-(-(last - first + 1.0) // width))
            low[j], high[j] = first - 0.5, first - 0.5 + numbers[j] * width
        return cls(len(low), sum(numbers), low, high, tuple(numbers), tuple(sorted({int(j) for j in integers})))

    @property
    def starts(self) -> Ints:
        """Place of the first cell of each column, and the number of all."""
        return np.concatenate([[0], np.cumsum(self.cells)]).astype(np.int64)

    def edges(self, column: int) -> Array:
        """Ends of the cells of a column."""
        return np.linspace(self.lower[column], self.upper[column], self.cells[column] + 1)

    def parameters(self) -> dict[str, Any]:
        bounds = {name: encode_array(getattr(self, name)) for name in ("lower", "upper")}
        return {**bounds, "cells": list(self.cells), "integers": list(self.integers)}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> HistogramFeatures:
        cls._check_names(parameters)
        p = dict(parameters)
        d = p["dim"]
        low, high = (decode_array(p[name], ((d,),), name) for name in ("lower", "upper"))
        for name, least, most in (("cells", 1, _MOST + 1), ("integers", 0, d)):
            found = p[name]
            if not isinstance(found, list) or not all(type(v) is int and least <= v < most for v in found):
                raise ValueError(f"{name} of a histogram recipe must be whole numbers from {least} to {most - 1}")
        if low is None or high is None or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError("bounds of a histogram recipe must be finite, the lower below the upper one")
        if len(p["cells"]) != d or sum(p["cells"]) != p["size"]:
            raise ValueError(f"a histogram recipe of {p['size']} cells of {d} columns has {len(p['cells'])} columns")
        return cls(d, p["size"], low, high, tuple(p["cells"]), tuple(p["integers"]))

    def draw_array(self) -> npt.NDArray[np.float32]:
        return np.zeros(self.random_shape, np.float32)

    @property
    def random_shape(self) -> tuple[int, ...]:
        return (0,)

    def __call__(self, X: npt.ArrayLike) -> Array:
        """1 for the cell of each column and 0 for others, (n, size)."""
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        from sketchlearn.kernels.cells import CellSummer

        out = np.zeros((len(rows), self.size))
        np.put_along_axis(out, CellSummer(self.plan()).cells_of(rows), 1.0, axis=1)
        return out

    @property
    def row_cost(self) -> float:
        return 20.0 * self.dim

    def plan(self) -> Plan:
        """Which cells, as data."""
        number = np.array(self.cells, np.int64)
        rate = number / (self.upper - self.lower)
        arrays = {"lower": self.lower, "rate": rate, "cells": number, "starts": self.starts[:-1]}
        return Plan("cells", self.dim, self.sums_shape, self.sums_dtype, arrays)

    def feature_variances(self, sums: AnyArray, weight: float) -> Array:
        p = np.clip(self.mean_from_sums(sums, weight), 0.0, 1.0)
        return np.asarray(p * (1.0 - p))

    def describe(self) -> str:
        few, many = min(self.cells), max(self.cells)
        return f"histograms of single columns, {few}{'' if few == many else f' to {many}'} cells each"

    def __repr__(self) -> str:
        return f"HistogramFeatures(dim={self.dim}, size={self.size})"
