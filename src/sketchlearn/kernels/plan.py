"""What to compute, as data, and who computes it.

A feature map describes its sums by a :class:`Plan`: a kind, arrays and numbers.  :func:`prepare` turns a plan into
a :class:`Summer` for the processor; an engine for other hardware has its own way from the same plan to a summer.
A new kind of sums is one class decorated with :func:`register_summer`; a map whose features are computed in NumPy
needs none, its plan is of the kind ``"rows"``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels.sums import RowSums

Rows = npt.NDArray[np.floating]
Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """The sums that a feature map wants of some rows.

    Attributes
    ----------
    kind : str
        Which features: ``"fourier"``, ``"squares"``, ``"products"``, ``"rows"``, or a kind that was registered.
    dim : int
        Columns of the rows.
    sums_shape, sums_dtype
        Shape and type of the sums.
    arrays, numbers : mapping
        What determines the features; which names, is up to the kind.
    features : callable, optional
        For the kind ``"rows"``: integer features of rows (n, dim), as int64 (n, ...).

    Examples
    --------
    >>> import sketchlearn as sl
    >>> plan = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3).plan()
    >>> plan.kind, plan.dim, plan.sums_shape, sorted(plan.arrays)
    ('fourier', 2, (2, 8), ['center', 'half_turns', 'rms'])
    """

    kind: str
    dim: int
    sums_shape: tuple[int, ...]
    sums_dtype: np.dtype[Any]
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    numbers: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    features: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.int64]] | None = None


class Summer(ABC):
    """Sums features of rows as a plan wants them; any number of threads may use it at once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        """Sums over the rows of X (float32 or float64, any strides), each times its weight.

        A row of weight 0 is not looked at.  With ``skip_invalid=False`` the pass stops at the first row that has
        no features (see :meth:`valid`).
        """

    def sum_runs(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None = None, skip_invalid: bool = False
    ) -> list[RowSums]:
        """Sums of each run of rows ``starts[g]`` to ``starts[g + 1]``; `first_invalid` counts from its start."""
        return [
            self.sum_rows(X[a:b], None if weights is None else weights[a:b], skip_invalid) for a, b in pairwise(starts)
        ]

    def row_units(self, X: Rows) -> npt.NDArray[np.int64]:
        """Integer features of each row, (n, ...): what the sums are sums of, zero for rows that have no features."""
        runs = self.sum_runs(X, np.arange(len(X) + 1), None, True)
        return np.stack([run.sums for run in runs]) if runs else np.zeros((0, *self.plan.sums_shape), np.int64)

    @abstractmethod
    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        """Which rows have features: those that are finite, and not too far away for the plan."""


_Maker = TypeVar("_Maker", bound=Callable[[Plan], Summer])
_SUMMERS: dict[str, Callable[[Plan], Summer]] = {}
# where the kinds of the library are, so that nobody loads what it doesn't use
_HOMES = {
    "fourier": "sketchlearn.kernels.fourier",
    "signs": "sketchlearn.kernels.fourier",
    "hadamard": "sketchlearn.kernels.hadamard",
    "cells": "sketchlearn.kernels.cells",
    "subsampled": "sketchlearn.kernels.subsampled",
    "squares": "sketchlearn.kernels.quadratic",
    "products": "sketchlearn.kernels.quadratic",
    "present products": "sketchlearn.kernels.quadratic",
    "completed products": "sketchlearn.kernels.completed",
    "embedded": "sketchlearn.kernels.embedded",
    "powers": "sketchlearn.kernels.quartic",
    "projected": "sketchlearn.kernels.projection",
    "structured squares": "sketchlearn.kernels.quadratic",
}


def register_summer(kind: str) -> Callable[[_Maker], _Maker]:
    """Make a kind of plan known to :func:`prepare`; decorates a class or function that takes a plan.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.kernels import Plan, prepare, register_summer
    >>> from sketchlearn.kernels.plan import RowsSummer
    >>> @register_summer("halves")
    ... def halves(plan):
    ...     twice = Plan("rows", plan.dim, plan.sums_shape, plan.sums_dtype, features=lambda x: np.rint(2 * x))
    ...     return RowsSummer(twice)
    >>> prepare(Plan("halves", 1, (1,), np.dtype(np.int64))).sum_rows(np.array([[0.5], [2.0]])).sums
    array([5])
    """

    def add(maker: _Maker) -> _Maker:
        _SUMMERS[kind] = maker
        return maker

    return add


def prepare(plan: Plan) -> Summer:
    """The summer of a plan on this processor.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.kernels import prepare
    >>> summer = prepare(sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3).plan())
    >>> summer.valid(np.array([[0.0, 1.0], [np.nan, 1.0]]))
    array([ True, False])
    """
    if plan.kind not in _SUMMERS and plan.kind in _HOMES:
        importlib.import_module(_HOMES[plan.kind])
    if plan.kind not in _SUMMERS:
        known = sorted({*_SUMMERS, *_HOMES})
        raise ValueError(f"no loop for sums of the kind {plan.kind!r}; known: {', '.join(known)}")
    return _SUMMERS[plan.kind](plan)


class BlockSummer(Summer):
    """Sums by NumPy, a block of rows at a time; subclasses say what a block adds."""

    block: int
    """Rows of a block."""

    def add(self, sums: npt.NDArray[np.int64], rows: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]) -> None:
        """Add the integers of some rows, times their weights."""
        raise NotImplementedError

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        present = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        valid = self.valid(X[present])
        if not skip_invalid and not valid.all():
            return RowSums.stopped(present[int(np.argmin(valid))])
        used = present[valid]
        w = np.ones(len(used), np.int64) if weights is None else np.asarray(weights, np.int64)[used]
        sums = np.zeros(self.plan.sums_shape, np.int64)
        lower, upper = np.full(self.plan.dim, np.inf), np.full(self.plan.dim, -np.inf)
        for i in range(0, len(used), self.block):
            rows = np.asarray(X[used[i : i + self.block]], np.float64)
            self.add(sums, rows, w[i : i + self.block])
            np.minimum(lower, rows.min(0), out=lower)
            np.maximum(upper, rows.max(0), out=upper)
        return RowSums(sums, len(used), int(w.sum()), lower, upper, len(present) - len(used), None)

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isfinite(X).all(axis=1))


@register_summer("rows")
class RowsSummer(BlockSummer):
    """Integer features that the map computes itself, summed by NumPy: exact, for any map, not fast."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        if plan.features is None:
            raise ValueError("a plan of the kind 'rows' needs its features")
        self._features = plan.features
        self.block = max(1, 2**20 // max(1, plan.dim + int(np.prod(plan.sums_shape))))

    def add(self, sums: npt.NDArray[np.int64], rows: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]) -> None:
        units = np.asarray(self._features(rows)).astype(np.int64)
        wanted = (len(rows), *self.plan.sums_shape)
        if units.shape != wanted:
            raise ValueError(f"features of {len(rows)} rows have shape {units.shape}, expected {wanted}")
        sums += np.tensordot(weights, units, 1)
