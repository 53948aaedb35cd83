"""What estimators do with new rows: they check them as scikit-learn does, and ask the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.rows import checked_weights


class Predicts(SketchEstimator):
    """An estimator whose model predicts something for each row."""

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Cluster, component, class or target of each row, as the model predicts it.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)
        """
        rows = self._new_rows(X)
        return np.asarray(self.solution_.predict_rows(rows))


class Transforms(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SketchEstimator):  # type: ignore[misc]
    """An estimator whose model gives rows new coordinates."""

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Coordinates of each row in the model: distances from centres, components, sources, directions.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_coordinates)
        """
        rows = self._new_rows(X)
        return np.asarray(self.solution_.transform_rows(rows))

    @property
    def _n_features_out(self) -> int:
        return int(self.solution_.size)


class ScoresByCost(SketchEstimator):
    """An estimator whose model says what each row costs."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the total cost of the rows: larger is better.

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
        float
        """
        rows = self._new_rows(X)
        costs = self.solution_.costs(rows)
        weights = checked_weights(sample_weight, len(costs))
        return -float(costs.sum() if weights is None else costs @ weights)
