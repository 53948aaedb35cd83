"""What estimators of mixtures share: scores and labels from the densities of components."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.rows import checked_weights

Array = npt.NDArray[np.float64]

_FEWEST_FEATURES, _FEATURES_PER_ROW = 200, 4


class SketchedMixture(DensityMixin, SketchEstimator):  # type: ignore[misc]
    """A mixture learned from a sketch; subclasses say how it is designed and evaluated."""

    learned: ClassVar[tuple[str, ...]] = ("weights_", "converged_", "n_iter_")
    most: ClassVar[int] = 10
    weights_: Array
    converged_: bool
    n_iter_: int

    @abstractmethod
    def _weighted_log_densities(self, X: Array) -> Array:
        """log(weight_l p_l(x)), (n, k)."""

    # -- learning ----------------------------------------------------------------------------

    def check_sketching(self) -> None:
        """A mixture needs two features at least."""
        super().check_sketching()
        if self.sketch_size == 1:
            raise ValueError("sketch_size must be an integer above 1 or None, got 1")

    def default_size(self, columns: int, rows: float | None) -> int | None:
        """A sketch need not be much larger than the data: a few features per row, if there are few rows."""
        if rows is None:
            return None
        most = max(_FEWEST_FEATURES, _FEATURES_PER_ROW * int(np.ceil(rows)))
        return min(self._designed_size(columns), most)

    @abstractmethod
    def _designed_size(self, columns: int) -> int:
        """Number of frequencies for so many columns."""

    def set_learned(self, solution: Any) -> None:
        """Shares and the certificate; a component that the sketch does not determine is worth a warning."""
        self.weights_, self.converged_, self.n_iter_ = solution.weights, bool(solution.reliable), solution.iterations
        if solution.unreliable:
            warnings.warn(solution.verdict, ConvergenceWarning, stacklevel=4)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> npt.NDArray[np.intp]:
        """Fit, and the component of each row.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.r_[np.random.default_rng(0).normal(size=(500, 1)), np.random.default_rng(1).normal(9, 1, (500, 1))]
        >>> labels = CompressiveGaussianMixture(2, random_state=0).fit_predict(X)
        >>> bool(labels[0] != labels[-1])
        True
        """
        return self.fit(X, y, sample_weight).predict(X)

    # -- using -------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Log-density of each row: small for anomalies.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> usual, strange = CompressiveGaussianMixture(random_state=0).fit(X).score_samples([[0.0], [9.0]])
        >>> bool(strange < usual - 10)
        True
        """
        return logsumexp(self._weighted_log_densities(self._rows_of(X)), axis=1)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-density of the rows, weighted if asked for.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> round(CompressiveGaussianMixture(random_state=0).fit(X).score(X), 1)
        -1.4
        """
        log = self.score_samples(X)
        return float(np.average(log, weights=checked_weights(sample_weight, len(log))))

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Most probable component of each row.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(100, 1))
        >>> CompressiveGaussianMixture(random_state=0).fit(X).predict(X[:2])
        array([0, 0])
        """
        return self._weighted_log_densities(self._rows_of(X)).argmax(1)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component, given the row.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(100, 1))
        >>> CompressiveGaussianMixture(random_state=0).fit(X).predict_proba(X[:2])
        array([[1.],
               [1.]])
        """
        if hasattr(X, "tocsr"):  # scikit-learn's checks take sparse rows with probabilities for those of a classifier
            raise TypeError("probabilities of sparse rows are not supported: predict_proba(X.toarray())")
        log = self._weighted_log_densities(self._rows_of(X))
        return np.exp(log - logsumexp(log, axis=1, keepdims=True))

    def _rows_of(self, X: Any) -> Array:
        return self._new_rows(X).astype(np.float64, copy=False)
