"""What estimators of mixtures share: rows become a sketch, the sketch a mixture, the mixture scores and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sketchlearn.engines import sketch as make_sketch
from sketchlearn.exceptions import IncompatibleSketchError
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.pilot import checked_weights, enough_frequencies, pilot
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]


class SketchedMixture(DensityMixin, BaseEstimator, ABC):
    """A mixture learned from a sketch; subclasses say how it is designed, decoded and evaluated."""

    n_components: int
    sketch_size: int | None
    features: FeatureMap | None
    random_state: Any
    sketch_: Sketch
    weights_: Array

    # -- what subclasses give ------------------------------------------------------------------

    def _check_parameters(self) -> None:
        k = self.n_components
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"n_components must be a positive integer, got {k!r}")
        size = self.sketch_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 2):
            raise ValueError(f"sketch_size must be an integer above 1 or None, got {size!r}")

    @abstractmethod
    def _default_size(self, columns: int) -> int:
        """Number of frequencies for so many columns."""

    @abstractmethod
    def _design(self, rows: npt.NDArray[Any], seed: int, size: int | None, weights: Array | None) -> FeatureMap:
        """A feature map from a pilot sample."""

    @abstractmethod
    def _learn(self, sketch: Sketch, random: np.random.RandomState, more: bool) -> None:
        """Decode the sketch and set what was learned; `more`: the sketch has the rows of the last one and others."""

    @abstractmethod
    def _weighted_log_densities(self, X: Array) -> Array:
        """log(weight_l p_l(x)), (n, k)."""

    # -- learning ----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Design a feature map, sketch the rows, decode the mixture.

        Parameters
        ----------
        X : array (n, d)
            Rows.
        y : None
            Not used; scikit-learn's convention.
        sample_weight : array (n,), optional
            Non-negative weights; whole weights are repetition.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> CompressiveGaussianMixture(random_state=0).fit(X).means_.shape
        (1, 1)
        """
        self._check_parameters()
        X, weights = self._rows(X, sample_weight, reset=True)
        rows = len(X) if weights is None else int((weights > 0).sum())
        if rows < self.n_components:
            raise ValueError(f"n_samples={rows} should be >= n_components={self.n_components}")
        random = check_random_state(self.random_state)
        phi = self._map(X, weights, random, all_rows=True)
        self._learn(make_sketch(X, phi, sample_weight=weights, progress=False), random, more=False)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the sketch and decode again, starting from the model so far.

        The feature map is designed from the first batch, which should therefore be representative (or
        give `features`).

        Parameters
        ----------
        X : array (n, d)
            Rows.
        y : None
            Not used.
        sample_weight : array (n,), optional
            Weights.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> rng = np.random.default_rng(0)
        >>> gm = CompressiveGaussianMixture(2, covariance_type="diag", random_state=0)
        >>> for _ in range(3):
        ...     gm = gm.partial_fit(np.concatenate([rng.normal(0, 1, (500, 2)), rng.normal(9, 1, (500, 2))]))
        >>> gm.sketch_.count
        3000
        """
        first = not hasattr(self, "sketch_")
        self._check_parameters()
        X, weights = self._rows(X, sample_weight, reset=first)
        random = check_random_state(self.random_state)
        phi = self._map(X, weights, random, all_rows=False) if first else self.sketch_.features
        part = make_sketch(X, phi, sample_weight=weights, progress=False)
        self._learn(part if first else self.sketch_ + part, random, more=not first)
        return self

    def fit_sketch(self, sketch: Sketch) -> Self:
        """Learn from a sketch alone.

        Parameters
        ----------
        sketch : Sketch
            Of Fourier features, best from a design for mixtures.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> from sketchlearn.designs.gmm import design_gmm
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [1.0, 5.0]
        >>> s = sl.sketch(X, design_gmm(X[:500], 1, "diag"))
        >>> CompressiveGaussianMixture(covariance_type="diag", random_state=0).fit_sketch(s).covariances_.round(0)
        array([[ 1., 25.]])
        """
        self._check_parameters()
        if not isinstance(sketch, Sketch):
            raise TypeError(f"fit_sketch takes a Sketch, got {type(sketch).__name__}")
        if self.features is not None and self.features != sketch.features:
            difference = self.features.difference(sketch.features)
            raise IncompatibleSketchError(f"the sketch was made with another feature map: {difference}")
        self.n_features_in_ = sketch.features.dim
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._learn(sketch, check_random_state(self.random_state), more=False)
        return self

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

    def _rows(self, X: Any, sample_weight: Any, reset: bool) -> tuple[npt.NDArray[Any], Array | None]:
        X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], order="C")
        return X, checked_weights(sample_weight, len(X))

    def _map(
        self, X: npt.NDArray[Any], weights: Array | None, random: np.random.RandomState, all_rows: bool
    ) -> FeatureMap:
        if self.features is not None:
            if self.features.dim != X.shape[1]:
                raise ValueError(f"the feature map takes {self.features.dim} columns, X has {X.shape[1]}")
            return self.features
        size = self.sketch_size
        if size is None and all_rows:
            total = float(len(X)) if weights is None else float(weights.sum())
            size = enough_frequencies(self._default_size(X.shape[1]), total)
        rows, row_weights = pilot(X, weights, random)
        seed = int(random.randint(2**31 - 1))
        return self._design(rows, seed, size, row_weights)

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
        return logsumexp(self._weighted_log_densities(self._new_rows(X)), axis=1)

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
        return self._weighted_log_densities(self._new_rows(X)).argmax(1)

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
        log = self._weighted_log_densities(self._new_rows(X))
        return np.exp(log - logsumexp(log, axis=1, keepdims=True))

    def _new_rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32]).astype(np.float64, copy=False)
