"""Estimators whose targets are columns of the sketch: rows of predictors and targets are sketched together."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from sketchlearn.arrays import AnyArray, Array, Index
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.rows import Rows, checked, is_source
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import Source


class JointEstimator(SketchEstimator):
    """What regressions share: which columns are predicted from which, in rows, sources and sketches."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the columns of X and y together in one pass and learn.

        Parameters
        ----------
        X : array, frame, or anything that :func:`sketchlearn.sketch` reads
            Predictors; of a path or stream, predictors and targets together.
        y : array (n_samples,) or (n_samples, n_targets), or columns of a path or stream
            Targets: ``fit(array, targets)``, ``fit("data/*.parquet", "price")``, ``fit(batches, -1)``.
        sample_weight : array (n_samples,), optional
            Weights of the rows of an array or frame; whole numbers are exactly repetition.  Others are rounded to
            multiples of 2**-16, after a multiplication by a power of two if they are too small for that.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight)

    def fit_sketch(self, sketch: Sketch, targets: Any = -1, predictors: Any = None) -> Self:
        """Predict columns of a sketch from other columns of it.

        Parameters
        ----------
        sketch : Sketch
            Of predictors and targets together.
        targets : int, name, or several of them
            Columns to predict; the last one by default.
        predictors : columns, optional
            Columns to predict from; by default all others.

        Returns
        -------
        self
        """
        self._check_sketch(sketch)
        self._choose(sketch.features.dim, sketch.features.columns, targets, predictors)
        return super().fit_sketch(sketch)

    def _shaped(self, values: AnyArray) -> AnyArray:
        """Predictions without the axis of targets, if there is one target that was given as a vector."""
        return values[:, 0] if self._flat else values

    # -- predictors and targets ------------------------------------------------------------------

    def _needed_rows(self) -> int:
        return 1

    def _map_columns(self) -> int:
        return len(self._predictors) + len(self._targets)

    def _choose(self, dim: int, names: tuple[str, ...] | None, targets: Any, predictors: Any = None) -> None:
        """Which columns of a sketch or a source are what."""
        wanted = _columns(targets, dim, names, "targets")
        if predictors is None:
            chosen = np.setdiff1d(np.arange(dim), wanted)
        else:
            chosen = _columns(predictors, dim, names, "predictors")
        if not len(chosen):
            raise ValueError("no columns are left to predict from")
        both = np.intersect1d(wanted, chosen)
        if len(both):
            raise ValueError(f"column {both[0]} is both a target and a predictor")
        self._targets, self._predictors = wanted, chosen
        self._flat = isinstance(targets, str) or np.ndim(targets) == 0

    def _set_columns(self, columns: int, names: tuple[str, ...] | None) -> None:
        chosen = None if names is None else tuple(names[i] for i in self._predictors)
        super()._set_columns(len(self._predictors), chosen)

    def _opened(self, X: Any, y: Any, sample_weight: Any, seed: int | None = None) -> Rows:
        first = seed is not None
        if is_source(X) and not (isinstance(X, np.memmap) and y is not None and np.ndim(y) > 0):
            if y is None:
                raise ValueError("say which columns are the targets: fit('data.parquet', 'price') or fit(batches, -1)")
            rows = self._from_source(X, sample_weight, seed)
            assert isinstance(rows.data, Source)
            dim = rows.width(self.features) if first else self.sketch_.features.dim
            before = None if first else (self._targets, self._predictors)
            self._choose(dim, rows.names, y)
            if before is not None and not all(
                np.array_equal(a, b) for a, b in zip(before, (self._targets, self._predictors), strict=True)
            ):
                self._targets, self._predictors = before
                raise ValueError(f"the targets are {y!r}, those of the first batch were other columns")
            if first:
                self._set_columns(dim, rows.names)
            return rows
        array, target = self._validated(X, y, first)
        target = np.asarray(target, np.float64)
        columns = np.column_stack([array, target])
        if first:
            self._flat = target.ndim == 1
            self._predictors = np.arange(array.shape[1])
            self._targets = np.arange(array.shape[1], columns.shape[1])
        elif columns.shape[1] != self.sketch_.features.dim:
            had = self.sketch_.features.dim
            raise ValueError(f"predictors and targets have {columns.shape[1]} columns, the first batch had {had}")
        return self._weighted(columns, sample_weight, self._names_with_targets(), first)

    def _validated(self, X: Any, y: Any, first: bool) -> tuple[Array, Any]:
        """Predictors and targets of rows in memory; a sparse matrix is made dense, for the targets join it."""
        missing = self._takes_missing()
        finite: bool | str = self.on_invalid == "raise" and ("allow-nan" if missing else True)
        if finite is True or y is None:
            array, target = checked(
                self, X, y, reset=first, dtype=np.float64, multi_output=True, y_numeric=True, accept_sparse="csr",
                ensure_all_finite=hasattr(X, "tocsr"),
            )  # fmt: skip
            if not hasattr(array, "tocsr"):
                self._check_finite(array)
        else:
            array = validate_data(self, X, reset=first, dtype=np.float64, accept_sparse="csr", ensure_all_finite=finite)
            target = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite=finite)
            check_consistent_length(array, target)
        return array.toarray() if hasattr(array, "tocsr") else array, target

    def _names_with_targets(self) -> tuple[str, ...] | None:
        names = self._names()
        if names is None:
            return None
        targets = ["target"] if len(self._targets) == 1 else [f"target {i}" for i in range(len(self._targets))]
        return None if set(targets) & set(names) else (*names, *targets)


def _columns(value: Any, dim: int, names: tuple[str, ...] | None, what: str) -> Index:
    """Numbers of columns that are given by number or name."""
    given = [value] if isinstance(value, str) or np.ndim(value) == 0 else list(value)
    for name in given:
        if isinstance(name, str) and name not in (names or ()):
            known = f"there are {', '.join(names[:20])}" if names else "the columns have no names, give their numbers"
            raise ValueError(f"{what}: there is no column {name!r}; {known}")
    columns = np.asarray([names.index(c) if names and isinstance(c, str) else c for c in given])
    if columns.ndim != 1 or columns.dtype.kind not in "iu":
        raise ValueError(f"{what} must be column numbers or names, got {value!r}")
    if not len(columns) or (columns < -dim).any() or (columns >= dim).any():
        raise ValueError(f"{what} must be columns of the {dim} in the sketch, got {value!r}")
    columns = columns.astype(np.intp) % dim
    if len(np.unique(columns)) != len(columns):
        raise ValueError(f"{what} name a column twice: {value!r}")
    return columns
