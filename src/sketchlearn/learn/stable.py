"""Mixtures of heavy-tailed components in scikit-learn's shape, learned from one pass."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sketchlearn.atoms.stable import sample_stable, stable_log_density
from sketchlearn.decoders.stable import decode_stable
from sketchlearn.design.stable import default_size, design_stable
from sketchlearn.engines import sketch as make_sketch
from sketchlearn.exceptions import IncompatibleSketchError
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.pilot import checked_weights, enough_frequencies, pilot
from sketchlearn.sketch.value import Sketch

Array = npt.NDArray[np.float64]


class CompressiveStableMixture(DensityMixin, BaseEstimator):
    """Mixture of elliptic alpha-stable laws learned from a sketch: clusters with heavy tails, even without variance.

    Each component has a stability alpha in (0, 2] (2 is the Gaussian, 1 the Cauchy law), a location and a scatter
    matrix S; its characteristic function is ``exp(i w·location - (w'Sw/2)^(alpha/2))``.

    Parameters
    ----------
    n_components : int
        Number of components.
    scatter_type : {"full", "diag"}
        Shape of the scatter matrices.
    sketch_size : int, optional
        Number of frequencies; by default 15 per parameter of the mixture.
    features : FeatureMap, optional
        Map to sketch with; by default one is designed from a pilot of at most 2000 rows.
    random_state : int, RandomState or None
        Seed of pilot, frequencies and decoder.

    Attributes
    ----------
    weights_, alphas_, locations_, scatters_ : ndarray
        The mixture.
    sketch_ : Sketch
        What was learned from.
    solution_ : StableSolution
        Misfit, noise floor, verdict and more.
    verdict_ : str
        Whether the model explains the data.
    converged_ : bool
        The certificate.
    n_iter_ : int
        Rounds of the decoder.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.stable import CompressiveStableMixture
    >>> X = np.random.default_rng(0).standard_cauchy(size=(20_000, 1)) + np.repeat([[5.0], [50.0]], 10_000, axis=0)
    >>> model = CompressiveStableMixture(2, random_state=0).fit(X)
    >>> np.sort(model.locations_[:, 0]).round(0), model.alphas_.round(1)
    (array([ 5., 50.]), array([1., 1.]))
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        scatter_type: str = "full",
        sketch_size: int | None = None,
        features: FeatureMap | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.scatter_type = scatter_type
        self.sketch_size = sketch_size
        self.features = features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CompressiveStableMixture:
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
        >>> from sketchlearn.learn.stable import CompressiveStableMixture
        >>> X = np.random.default_rng(0).standard_cauchy(size=(5000, 1))
        >>> CompressiveStableMixture(random_state=0).fit(X).scatters_.shape
        (1, 1, 1)
        """
        self._check_parameters()
        X, weights = self._rows(X, sample_weight, reset=True)
        rows = len(X) if weights is None else int((weights > 0).sum())
        if rows < self.n_components:
            raise ValueError(f"n_samples={rows} should be >= n_components={self.n_components}")
        random = check_random_state(self.random_state)
        phi = self._map(X, weights, random, all_rows=True)
        return self._learn(make_sketch(X, phi, sample_weight=weights, progress=False), random)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CompressiveStableMixture:
        """Add rows to the sketch and decode again; the first batch (or `features`) fixes the feature map.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.stable import CompressiveStableMixture
        >>> rng, model = np.random.default_rng(0), CompressiveStableMixture(random_state=0)
        >>> for _ in range(2):
        ...     model = model.partial_fit(rng.standard_cauchy(size=(2000, 1)))
        >>> model.sketch_.count
        4000
        """
        first = not hasattr(self, "sketch_")
        self._check_parameters()
        X, weights = self._rows(X, sample_weight, reset=first)
        random = check_random_state(self.random_state)
        phi = self._map(X, weights, random, all_rows=False) if first else self.sketch_.features
        part = make_sketch(X, phi, sample_weight=weights, progress=False)
        return self._learn(part if first else self.sketch_ + part, random)

    def fit_sketch(self, sketch: Sketch) -> CompressiveStableMixture:
        """Learn from a sketch alone (best from :func:`sketchlearn.design.stable.design_stable`).

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> from sketchlearn.design.stable import default_size, design_stable
        >>> from sketchlearn.learn.stable import CompressiveStableMixture
        >>> X = np.random.default_rng(0).standard_cauchy(size=(5000, 1))
        >>> s = sl.sketch(X, design_stable(X[:500], 1))
        >>> CompressiveStableMixture(random_state=0).fit_sketch(s).alphas_.round(1)
        array([1.])
        """
        self._check_parameters()
        if not isinstance(sketch, Sketch):
            raise TypeError(f"fit_sketch takes a Sketch, got {type(sketch).__name__}")
        if self.features is not None and self.features != sketch.features:
            difference = self.features.difference(sketch.features)
            raise IncompatibleSketchError(f"the sketch was made with another feature map: {difference}")
        self.n_features_in_ = sketch.features.dim
        return self._learn(sketch, check_random_state(self.random_state))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> npt.NDArray[np.intp]:
        """Fit, and the component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    # -- using -------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Log-density of each row."""
        return logsumexp(self._weighted_log_densities(X), axis=1)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-density of the rows, weighted if asked for."""
        log = self.score_samples(X)
        return float(np.average(log, weights=checked_weights(sample_weight, len(log))))

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """Most probable component of each row."""
        return self._weighted_log_densities(X).argmax(1)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component, given the row."""
        log = self._weighted_log_densities(X)
        return np.exp(log - logsumexp(log, axis=1, keepdims=True))

    def sample(self, n_samples: int = 1) -> tuple[Array, npt.NDArray[np.intp]]:
        """New rows from the model, and their components."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples}: ask for at least one row")
        random = check_random_state(self.random_state)
        rng = np.random.default_rng(random.randint(2**31 - 1))
        numbers = random.multinomial(n_samples, self.weights_)
        rows = [
            sample_stable(int(c), float(self.alphas_[l]), self.locations_[l], self.scatters_[l], rng)
            for l, c in enumerate(numbers)
        ]
        return np.concatenate(rows), np.repeat(np.arange(len(numbers)), numbers)

    # -- pieces ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        k = self.n_components
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"n_components must be a positive integer, got {k!r}")
        if self.scatter_type not in ("full", "diag"):
            raise ValueError(f"scatter_type={self.scatter_type!r}: choose 'full' or 'diag'")

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
            size = enough_frequencies(default_size(int(self.n_components), X.shape[1], self.scatter_type), total)
        rows, row_weights = pilot(X, weights, random)
        seed = int(random.randint(2**31 - 1))
        return design_stable(rows, self.n_components, self.scatter_type, seed, size=size, sample_weight=row_weights)

    def _learn(self, sketch: Sketch, random: np.random.RandomState) -> CompressiveStableMixture:
        rng = np.random.default_rng(random.randint(2**31 - 1))
        solution = decode_stable(sketch, int(self.n_components), self.scatter_type, rng=rng)
        self.sketch_, self.features_, self.solution_ = sketch, sketch.features, solution
        self.weights_, self.alphas_ = solution.weights, solution.alphas
        self.locations_, self.scatters_ = solution.locations, solution.scatters
        self.verdict_, self.converged_, self.n_iter_ = solution.verdict, solution.reliable, solution.iterations
        if solution.unreliable:
            warnings.warn(solution.verdict, ConvergenceWarning, stacklevel=3)
        return self

    def _weighted_log_densities(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32]).astype(np.float64, copy=False)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights_)
        return np.stack(
            [
                stable_log_density(X, float(self.alphas_[l]), self.locations_[l], self.scatters_[l]) + log_weights[l]
                for l in range(len(self.weights_))
            ],
            1,
        )
