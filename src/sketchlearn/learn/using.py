"""What estimators do with new rows: they check them as scikit-learn does, and ask the model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.rows import checked_weights


class Predicts(SketchEstimator):
    """An estimator whose model predicts something for each row."""

    def predict(self, X: Any) -> AnyArray:
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


class HasProbabilities(Predicts):
    """An estimator whose model gives each row probabilities."""

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component or class, given the row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_components)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(100, 1))
        >>> sl.CompressiveGaussianMixture(random_state=0).fit(X).predict_proba(X[:2])
        array([[1.],
               [1.]])
        """
        if hasattr(X, "tocsr"):  # scikit-learn's checks take sparse rows with probabilities for those of a classifier
            raise TypeError("probabilities of sparse rows are not supported: predict_proba(X.toarray())")
        rows = self._new_rows(X)
        return np.asarray(self.solution_.probabilities(rows))


class Transforms(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SketchEstimator):  # type: ignore[misc]
    """An estimator whose model gives rows new coordinates."""

    def transform(self, X: Any) -> AnyArray:
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


class Inverts(Transforms):
    """An estimator whose model turns coordinates back into rows."""

    def inverse_transform(self, X: Any) -> AnyArray:
        """Rows that have these coordinates.

        Parameters
        ----------
        X : array (n_samples, n_components)
            Coordinates.

        Returns
        -------
        ndarray (n_samples, n_features)
        """
        return np.asarray(self.solution_.inverse_rows(self._coordinates(X)))

    def _coordinates(self, X: Any) -> Array:
        check_is_fitted(self)
        found = np.asarray(X, np.float64)
        if found.ndim != 2 or found.shape[1] != self.n_components_:
            raise ValueError(f"expected {self.n_components_} columns, got an array of shape {found.shape}")
        return found


class ScoresRows(SketchEstimator):
    """An estimator whose model scores each row."""

    def score_samples(self, X: Any) -> Array:
        """Score of each row, small for anomalies: the log-density of a mixture, minus a squared distance of others.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> usual, strange = sl.CompressiveGaussianMixture(random_state=0).fit(X).score_samples([[0.0], [9.0]])
        >>> bool(strange < usual - 10)
        True
        """
        rows = self._new_rows(X)
        return np.asarray(self.solution_.row_scores(rows))


class ScoresByCost(SketchEstimator):
    """An estimator whose model says what each row costs."""

    averages: ClassVar[bool] = False
    """Whether the score is a mean over the rows instead of a sum."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the cost of the rows, summed over them for centres and averaged for subspaces: larger is better.

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
        if self.averages:
            return -float(np.average(costs, weights=weights))
        return -float(costs.sum() if weights is None else costs @ weights)
