"""Estimators that label rows: labels of the rows of `fit` are made when they are asked for, by a second pass."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from sketchlearn.arrays import AnyArray
from sketchlearn.learn.rows import is_source
from sketchlearn.learn.using import Predicts


class LabelledRows(Predicts):
    """An estimator whose ``labels_`` are known after ``fit`` of rows in memory."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows in one pass and learn from the sketch; see :meth:`SketchEstimator.fit`."""
        super().fit(X, y, sample_weight)
        if not is_source(X) or isinstance(X, np.memmap):
            self._rows = X
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> AnyArray:
        """Learn from the rows, then label them (a second pass).

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        ndarray (n_samples,)
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def _forget(self) -> None:
        super()._forget()
        for name in ("_rows", "labels_"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name != "labels_":
            return super().__getattr__(name)
        if "_rows" not in self.__dict__:
            raise AttributeError("labels_ needs the rows: they are known after fit(X) of rows only; use predict(X)")
        self.labels_ = self.predict(self._rows)
        return self.labels_

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_rows"}  # a model doesn't carry the data
