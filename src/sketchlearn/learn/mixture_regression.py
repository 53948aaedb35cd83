"""Regression from a joint sketch: a mixture of predictors and targets, and the law of the targets given the rest."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sketchlearn.accepts import choice, whole
from sketchlearn.arrays import Array, Flags
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.designs import default_size
from sketchlearn.designs.pca import ALL_PRODUCTS
from sketchlearn.designs.regression_maps import design_maps
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.joint import JointEstimator
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.rows import Rows
from sketchlearn.models.base import Model, column_names
from sketchlearn.models.conditional import ConditionalMixture
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.mixture_regression import MixtureRegressionModel
from sketchlearn.models.mixtures import GaussianMixtureModel

_MOST = 12  # components that are chosen without being asked for
_ROWS_PER_PARAMETER = 20.0


@estimator
class CompressiveMixtureRegressor(MultiOutputMixin, RegressorMixin, JointEstimator):  # type: ignore[misc]
    """Regression with predictive distributions, from one sketch of predictors and targets.

    A Gaussian mixture of all columns is decoded from the sketch. Given the predictors, the targets again follow a
    mixture, with linear means in each component. Its mean is the prediction, and its quantiles give intervals. There
    can be several targets, and missing predictors can be ignored.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components. ``"auto"`` uses one component for every 20 rows per parameter, between 1 and 12, or a
        single one if that explains the sketch down to its noise. One component is linear regression: it is learned from
        all products of columns, and its predictions are those of least squares on the rows.
    covariance : {"full", "diag"}
        Covariance of the targets, given the predictors and the component. ``"full"`` decodes a mixture of all columns,
        for a few targets. ``"diag"`` is for many targets of a few predictors: noise is independent, each target has its
        own variance, and the components are those that predict the targets best. It needs a sketch of products of
        features, in which predictors and targets have their roles (``fit`` and ``partial_fit`` see to it). It can't
        tell components apart that differ in the targets alone.
    missing : {"raise", "marginalize"}
        What to do with NaN among predictors of new rows: refuse them, or predict from the others.
    sketch_size : int, optional
        Fourier features of the sketch; by default ten for each parameter, or, for a single component, none but all
        products of columns. For ``covariance="diag"``, Fourier features of the predictors.
    features : FourierFeatures, QuadraticFeatures or EmbeddedFeatures, optional
        The map to sketch with, for the columns of X followed by those of y.

    Attributes
    ----------
    mixture_ : Mixture
        The distribution of all columns.
    means_ : ndarray (n_components, n_columns)
        Centres of its components.
    sketch_ : Sketch
        The sketch. You can pass it to :meth:`fit_sketch` with other targets.
    reliable_, verdict_ : bool, str
        Whether the mixture explains the sketch down to its noise, as a yes or no and in words. Predictions are often
        good even if it does not.
    n_features_in_, feature_names_in_
        Number of predictors, and their names if they have any.

    See Also
    --------
    sketchlearn.CompressiveLinearRegression : linear, exact, with standard errors.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, (5000, 1))
    >>> y = np.abs(x[:, 0]) + 0.1 * rng.normal(size=5000)
    >>> reg = sl.CompressiveMixtureRegressor(n_components=4, random_state=0).fit(x, y)
    >>> reg.predict([[-1.0], [1.0]]).round(1)
    array([1., 1.])
    >>> low, high = reg.predict_interval([[1.5]], 0.9)
    >>> bool(low < 1.5 < high)
    True
    """

    task: ClassVar[str] = "gmm"
    model: ClassVar[type[Model]] = MixtureRegressionModel
    row_types: ClassVar[tuple[Any, ...]] = (np.float64,)
    n_components: int | str = parameter(default="auto", accepts=whole() | choice("auto"), kw_only=False)
    covariance: str = parameter(default="full", accepts=choice("full", "diag"))
    missing: str = parameter(default="raise", accepts=choice("raise", "marginalize"))
    mixture_: Mixture = learned()
    means_: Array = learned()
    n_components_: int = learned()

    # -- learning ------------------------------------------------------------------------------

    def default_size(self, columns: int, rows: float | None) -> int | None:
        """Ten for each parameter of as many components as may be asked for, but not many more than rows."""
        if self._structured:
            return None
        size = default_size(self._fitting(columns, rows), columns, "gmm", covariance_type="full")
        return size if rows is None else min(size, max(200, 4 * int(np.ceil(rows))))

    def design_request(self) -> dict[str, Any]:
        """As many components as the rows can tell, of standardised columns; all products of columns for one."""
        if self._structured:
            return {"task": "gmm", "n_components": self._planned}
        if self._planned == 1 and self.sketch_size is None:
            return ALL_PRODUCTS
        return {"task": "gmm", "n_components": self._planned, "covariance_type": "full", "standardize": True}

    def design_features(self, request: Request) -> FeatureMap:
        """Products of features of the predictors and of single targets, for structured covariances."""
        if not self._structured:
            return super().design_features(request)
        rows, weights = request.weighted()
        phi, why = design_maps(
            rows, self._predictors, request.n_components, size=request.size, seed=request.seed, weights=weights
        )
        return phi.explained(why)

    def check_decoder(self) -> None:
        """Structured covariances have a decoder of their own."""
        if self._structured:
            decoders_of(self.model.task).choose(self.decoder)
        else:
            super().check_decoder()

    @property
    def _structured(self) -> bool:
        return self.covariance == "diag"

    def _map(self, rows: Rows, seed: int, whole: bool) -> FeatureMap:
        # frequencies for twelve components tell less about a single one
        columns = len(self._predictors) + 1 if self._structured else self._map_columns()
        self._planned = self._fitting(columns, rows.total if whole else None)
        return super()._map(rows, seed, whole)

    def decode_sketch(self, seed: int) -> Model:
        """A mixture of all columns, with full covariances, and which of them are predicted from which."""
        if self._structured:
            k = self._fitting(len(self._predictors) + 1, self.sketch_.effective_count)
            chosen = {"targets": self._targets, "predictors": self._predictors}
            structured: Model = self._decoded(k, seed, task=self.model.task, **chosen)
            return structured
        if self.sketch_.features.as_embedded is not None:
            raise TypeError("the sketch holds products of features, for covariance='diag'")
        found, names = self._joint(seed), column_names(self.sketch_.features)
        return MixtureRegressionModel(
            weights=found.weights,
            means=found.means,
            covariances=found.mixture.full_covariances(),
            predictors=tuple(names[i] for i in self._predictors),
            targets=tuple(names[i] for i in self._targets),
            effective_rows=float(self.sketch_.effective_count),
            **found.told(),
        )

    def _joint(self, seed: int) -> GaussianMixtureModel:
        phi, shape = self.sketch_.features, {"covariance_type": "full"}
        found: GaussianMixtureModel
        if phi.as_second_moment is not None and self.decoder == "auto":
            k = 1 if self.n_components == "auto" else int(self.n_components)
            found = self._decoded(k, seed, decoder="moments", used=len(self._predictors) + 1, **shape)
            return found
        k = self._fitting(phi.dim, self.sketch_.effective_count)
        if self.n_components == "auto" and k > 1:
            found = self._decoded(1, seed, **shape)
            if found.reliable:  # nothing in the sketch supports more
                return found
        found = self._decoded(k, seed, **shape)
        return found

    def _fitting(self, columns: int, rows: float | None) -> int:
        """Components for so many columns and rows (None: as many as there may be)."""
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        if rows is None:
            return _MOST
        parameters = columns * (columns + 3) // 2 + 1
        return int(np.clip(rows / (_ROWS_PER_PARAMETER * parameters), 1, _MOST))

    # -- using ---------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected targets of rows of predictors.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.
        return_std : bool
            Also return the standard deviations of the targets about the prediction, including its uncertainty.

        Returns
        -------
        ndarray (n_samples,) or (n_samples, n_targets), or two of them
        """
        rows = self._inputs(X)
        law = self._law
        mean = self._shaped(law.mean(rows))
        return (mean, self._shaped(np.sqrt(law.variance(rows)))) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Bounds between which a target lies with a probability, with as much of the rest below as above.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.
        level : float
            The probability.

        Returns
        -------
        lower, upper : ndarray (n_samples,) or (n_samples, n_targets)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2000, 1))
        >>> reg = sl.CompressiveMixtureRegressor(1, random_state=0).fit(x, x[:, 0] + rng.normal(size=2000))
        >>> low, high = reg.predict_interval([[0.0]], 0.95)
        >>> bool(abs(high[0] - 1.96) < 0.2)
        True
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be above 0 and below 1, got {level!r}")
        found = self._law.quantiles(self._inputs(X), [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return self._shaped(found[:, :, 0]), self._shaped(found[:, :, 1])

    def predict_quantiles(self, X: Any, p: npt.ArrayLike) -> Array:
        """Quantiles of the targets: one more axis than :meth:`predict`, for the probabilities.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.
        p : array
            Probabilities.

        Returns
        -------
        ndarray (n_samples, n_quantiles) or (n_samples, n_targets, n_quantiles)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2000, 1))
        >>> reg = sl.CompressiveMixtureRegressor(1, random_state=0).fit(x, x[:, 0] + rng.normal(size=2000))
        >>> reg.predict_quantiles([[0.0]], [0.1, 0.5, 0.9]).shape
        (1, 3)
        """
        return self._shaped(self._law.quantiles(self._inputs(X), p))

    def sample(self, X: Any, random_state: Any = None) -> Array:
        """Targets drawn from their law, one draw for each row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.
        random_state : int, Generator, RandomState or None
            For repeatable draws.

        Returns
        -------
        ndarray (n_samples,) or (n_samples, n_targets)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> x = np.random.default_rng(0).normal(size=(2000, 1))
        >>> reg = sl.CompressiveMixtureRegressor(1, random_state=0).fit(x, x[:, 0] + 1.0)
        >>> reg.sample([[0.0], [1.0]], random_state=0).shape
        (2,)
        """
        return self._shaped(self._law.sample(self._inputs(X), random_state))

    def in_support(self, X: Any) -> Flags:
        """Which rows lie within the data. Elsewhere, the nearest component extrapolates.

        A row is outside if the model's density there is below that of all but one in ten thousand of its own draws.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.

        Returns
        -------
        ndarray of bool (n_samples,)

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> x = np.random.default_rng(0).normal(size=(2000, 1))
        >>> reg = sl.CompressiveMixtureRegressor(1, random_state=0).fit(x, x[:, 0] + 1.0)
        >>> reg.in_support([[0.0], [9.0]])
        array([ True, False])
        """
        return np.asarray(self.solution_.supports(self._inputs(X)))

    @property
    def _law(self) -> ConditionalMixture:
        check_is_fitted(self)
        law: ConditionalMixture = self.solution_.conditional
        return law

    def _inputs(self, X: Any) -> Array:
        check_is_fitted(self)
        finite: Any = "allow-nan" if self.missing == "marginalize" else True
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=finite), np.float64)
