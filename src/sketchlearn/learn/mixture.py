"""Gaussian mixtures in scikit-learn's shape, learned from one pass."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_is_fitted

from sketchlearn.accepts import FLAG
from sketchlearn.arrays import Array
from sketchlearn.decoders.mixtures.known import checked_covariance
from sketchlearn.designs.gmm import default_size, parameter_count
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.density import SketchedMixture
from sketchlearn.learn.parameters import COVARIANCES, START, estimator, learned, parameter
from sketchlearn.learn.rows import Rows
from sketchlearn.models.base import Model
from sketchlearn.models.mixtures import GaussianMixtureModel

_LIKELIHOOD_POINTS = 20_000


@estimator
class CompressiveGaussianMixture(SketchedMixture):
    """Gaussian mixture learned from a sketch of the data: one pass, any number of rows.

    It has everything that scikit-learn's :class:`~sklearn.mixture.GaussianMixture` offers after fitting, and also
    ``partial_fit``, ``sample_weight`` and ``fit_sketch``.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components. ``"auto"`` tries up to 10 and uses the number that :func:`sketchlearn.sweep` recommends
        (``sweep_`` has the table).
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the covariances.
    covariances : float or array (n_features,) or (n_features, n_features), optional
        A known covariance that all components have: a variance, variances of the columns, or a matrix, in the units of
        the rows. Only weights and means are then learned, from fewer frequencies. `covariance_type` is not used.
    projection : int, optional
        For hundreds of columns: learn a mixture of this many random projections of the rows, which become part of the
        feature map. You still pass the original rows; means, covariances and samples are those of projected rows.
    sketch_size : int, optional
        Number of frequencies; by default ten per parameter of the mixture.
    decoder : str
        ``"auto"`` needs no tuning; ``"clompr"`` and ``"splitting"`` are published decoders (see
        :func:`sketchlearn.decode`). With `covariances`, ``"auto"`` is ``"known"``.
    warm_start : bool
        Start from the model of the last fit; it is kept if it explains the new sketch.
    start : model, estimator or Mixture, optional
        An earlier model to start from. Component i is then the one nearest to its component i; see
        :func:`sketchlearn.decode`.

    Attributes
    ----------
    weights_, means_, covariances_, precisions_, precisions_cholesky_ : ndarray
        The mixture, in scikit-learn's shapes.
    means_std_, weights_std_ : ndarray (n_components, n_features), (n_components,), or None
        Standard errors of means and weights; None where the model is not certified, or the sketch is very large.
    excess_nats_, excess_nats_bound_ : float
        Estimate of how many nats the log-likelihood of a row is below that of the best mixture of this size, and a
        bound that held in nine of ten data sets. NaN for private sketches and others without a box, and where the
        mixture has more parameters than half of the sketch has numbers.
    verdict_ : str
        Whether the model explains the data, and which components are unreliable.
    reliable_, converged_ : bool
        The certificate: the misfit is at the noise floor, and the sketch determines every component.
    n_iter_ : int
        Rounds of the decoder.
    lower_bound_ : float
        Estimated mean log-likelihood of the rows, from the sketch alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(3, 1, (3000, 2)), rng.normal(12, 2, (1000, 2))])
    >>> gm = CompressiveGaussianMixture(2, covariance_type="spherical", random_state=0).fit(X)
    >>> order = gm.weights_.argsort()
    >>> gm.weights_[order].round(2), gm.means_[order].round(0)
    (array([0.25, 0.75]), array([[12., 12.],
           [ 3.,  3.]]))
    >>> gm.predict(X[:3]).shape, gm.converged_
    ((3,), True)
    """

    task: ClassVar[str] = "gmm"
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = GaussianMixtureModel
    covariance_type: str = parameter(
        default="full", accepts=COVARIANCES, design="covariance_type", decode="covariance_type", sweep="covariance_type"
    )
    covariances: Any = parameter(default=None)
    projection: int | None = parameter(default=None)
    warm_start: bool = parameter(default=False, accepts=FLAG)
    start: Any = parameter(default=None, accepts=START)
    means_: Array = learned()
    means_std_: Array | None = learned()
    weights_std_: Array | None = learned()
    excess_nats_: float = learned()
    excess_nats_bound_: float = learned()
    covariances_: Array = learned()

    # -- learning ----------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any row is read."""
        super().check_parameters()
        if self.covariances is None:
            if self.decoder == "known":
                raise ValueError("decoder='known' needs covariances")
            return
        checked_covariance(self.covariances, None if self.features is None else self.features.dim)
        if self.n_components == "auto" or self.start is not None or self.warm_start or self.projection is not None:
            raise ValueError("known covariances need a number of components, and neither a start nor a projection")
        if self.decoder not in ("auto", "known"):
            raise ValueError(f"known covariances are for decoder='known', not {self.decoder!r}")

    def _map(self, rows: Rows, seed: int, whole: bool) -> FeatureMap:
        if self.covariances is not None and self.features is None:  # before the pass: how many columns is known by now
            checked_covariance(self.covariances, self._map_columns())
        return super()._map(rows, seed, whole)

    def design_request(self) -> dict[str, Any]:
        """As many components, of the shape asked for or known."""
        return super().design_request() | {"covariance_type": self._shape}

    @property
    def _shape(self) -> str:
        return self.covariance_type if self.covariances is None else checked_covariance(self.covariances)[1]

    def _designed_size(self, columns: int) -> int:
        if self.covariances is not None:
            return max(10 * self._components() * (columns + 1), 100)
        return default_size(self._components(), columns, self.covariance_type)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows in one pass and learn from the sketch; see :meth:`SketchEstimator.fit`."""
        self._cool()
        return super().fit(X, y, sample_weight)

    def fit_sketch(self, sketch: Any) -> Self:
        """Learn from a sketch of Fourier features, best from a design for mixtures.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [1.0, 5.0]
        >>> s = sl.sketch(X, sl.design(X[:500], n_components=1, task="gmm", covariance_type="diag"))
        >>> CompressiveGaussianMixture(covariance_type="diag", random_state=0).fit_sketch(s).covariances_.round(0)
        array([[ 1., 25.]])
        """
        self._cool()
        return super().fit_sketch(sketch)

    def _cool(self) -> None:
        """Forget the model so far, unless the next one starts from it."""
        if not self.warm_start:
            self.__dict__.pop("_start", None)
            self.__dict__.pop("solution_", None)

    def _forget(self) -> None:
        if "solution_" in self.__dict__:
            self._start = self.solution_.mixture  # the next decoding starts from it
        super()._forget()

    def decode_options(self) -> dict[str, Any]:
        """The shape of the components, and the model so far if there is one."""
        options = super().decode_options()
        if self.covariances is not None:
            options.pop("covariance_type")
            return options | {"decoder": "known", "covariances": self.covariances}
        start = self.__dict__.get("_start")
        shape = (self.n_components, self.sketch_.features.dim)  # none fits 'auto'
        if self.decoder == "auto" and start is not None and start.means.shape == shape:
            options["start"] = start
        elif self.start is not None:
            options["start"] = self.start
        return options

    @property
    def lower_bound_(self) -> float:
        """Estimated mean log-likelihood of the rows, from the sketch alone (computed when first asked for)."""
        check_is_fitted(self)
        return float(self.solution_.expected_log_likelihood)

    # -- using -------------------------------------------------------------------------------

    def bic(self, X: Any = None) -> float:
        """Bayesian information criterion (the lower the better).

        Parameters
        ----------
        X : array (n, d), optional
            Rows for the likelihood. Without rows, the likelihood is the one that the model expects for its own rows
            (minus its entropy). This is right if the model is certified.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> gm = CompressiveGaussianMixture(random_state=0).fit(X)
        >>> bool(abs(gm.bic() / gm.bic(X) - 1) < 0.05)
        True
        """
        log_likelihood, n = self._likelihood(X)
        return float(-2.0 * log_likelihood * n + self._n_parameters() * np.log(n))

    def aic(self, X: Any = None) -> float:
        """Akaike information criterion (the lower the better); `X` as for :meth:`bic`.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 1))
        >>> gm = CompressiveGaussianMixture(random_state=0).fit(X)
        >>> bool(gm.aic() < gm.bic())
        True
        """
        log_likelihood, n = self._likelihood(X)
        return -2.0 * log_likelihood * n + 2.0 * self._n_parameters()

    def to_sklearn(self) -> GaussianMixture:
        """This mixture as a fitted scikit-learn :class:`~sklearn.mixture.GaussianMixture`.

        Examples
        --------
        >>> import numpy as np
        >>> from sketchlearn.learn.mixture import CompressiveGaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(1000, 2))
        >>> gm = CompressiveGaussianMixture(random_state=0).fit(X)
        >>> bool(np.allclose(gm.to_sklearn().score_samples(X), gm.score_samples(X)))
        True
        """
        check_is_fitted(self)
        model = GaussianMixture(
            len(self.weights_), covariance_type=self.solution_.covariance_type, random_state=self.random_state
        )
        names = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "converged_", "n_iter_")
        for name in (*names, "lower_bound_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                value = getattr(self, name)
                setattr(model, name, value.copy() if isinstance(value, np.ndarray) else value)
        return model

    # -- pieces ------------------------------------------------------------------------------

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        return (parameter_count(k, d, self.covariance_type) if self.covariances is None else k * (d + 1)) - 1

    def _likelihood(self, X: Any) -> tuple[float, float]:
        check_is_fitted(self)
        if X is None:
            return self.lower_bound_, float(self.sketch_.count)
        logs = self.score_samples(X)
        return float(logs.mean()), float(len(logs))
