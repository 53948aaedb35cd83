"""Least squares from a sketch of the columns: any of them on any others, after the fact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from sketchlearn.accepts import FLAG, NOTHING, choice, real, whole
from sketchlearn.arrays import Array
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.second_moment import second_moment
from sketchlearn.learn.joint import JointEstimator
from sketchlearn.learn.parameters import MISSING, estimator, learned, parameter
from sketchlearn.learn.using import Predicts
from sketchlearn.models.base import Model
from sketchlearn.models.regression import RegressionModel


@estimator
class CompressiveLinearRegression(MultiOutputMixin, RegressorMixin, Predicts, JointEstimator):  # type: ignore[misc]
    """Ordinary, ridge or principal-component least squares from a sketch.

    From a sketch of all products of columns (the default), the result is the same as from the rows, up to an error of
    about 1e-16 times the squared condition number of the standardised columns. From a compressed sketch, it is a
    regression on the decoded principal components. This is accurate if a few components carry both predictors and
    targets, and the rest is about the same in all directions. It can't predict a target that depends on weak
    directions.

    Parameters
    ----------
    alpha : float or "auto"
        Ridge penalty, as in :class:`sklearn.linear_model.Ridge`: ``|y - X w|^2 + alpha |w|^2``. ``"auto"`` is no
        penalty, except with ``missing="pairs"``: there it depends on how much is missing, and the verdict says how
        large it is.
    fit_intercept : bool
        Whether to fit a constant.
    n_components : int, optional
        Regress on this many principal components of the predictors.
    features : QuadraticFeatures, optional
        The map to sketch with, for the columns of X followed by those of y.
    sketch_size : int, optional
        Features of the sketch; by default all products of columns.
    decoder : str
        A decoder of this task; for compressed sketches also one of :class:`~sketchlearn.CompressivePCA`.

    Attributes
    ----------
    coef_ : ndarray (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray (n_targets,)
        Constants.
    standard_errors_ : ndarray, shaped like the coefficients
        Standard errors of the coefficients under independent noise of equal variance; NaN from compressed sketches.
    intercept_standard_error_ : float or ndarray
        Standard errors of the constants.
    r2_ : float or ndarray (n_targets,)
        Share of the targets' variance that is explained, on the rows of the sketch.
    new_r2_ : float or ndarray (n_targets,)
        The same for new rows from the same distribution, by generalised cross-validation. It doesn't count the noise of
        a release.
    residual_variance_ : float or ndarray (n_targets,)
        Variance of the noise, unbiased for ordinary least squares.
    rank_ : int
        Number of directions of the predictors that could be used.
    n_samples_ : int
        Number of rows.
    sketch_ : Sketch
        The sketch. You can pass it to :meth:`fit_sketch` with other targets.
    reliable_, verdict_ : bool, str
        Whether the sketch determines the coefficients, as a yes or no and in words.
    n_features_in_, feature_names_in_
        Number of predictors, and their names if they have any.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + 4.0 + 0.1 * rng.normal(size=1000)
    >>> reg = sl.CompressiveLinearRegression().fit(X, y)
    >>> np.abs(reg.coef_).round(1), reg.standard_errors_.round(3)
    (array([1., 2., 0.]), array([0.003, 0.003, 0.003]))

    The same sketch predicts any column from any others:

    >>> back = sl.CompressiveLinearRegression().fit_sketch(reg.sketch_, targets=0, predictors=[1, 2, 3])
    >>> back.coef_.round(1) + 0.0
    array([-2.,  0.,  1.])
    """

    task: ClassVar[str] = "regression"
    model: ClassVar[type[Model]] = RegressionModel
    row_types: ClassVar[tuple[Any, ...]] = (np.float64,)
    alpha: float | str = parameter(default="auto", accepts=real(closed=True) | choice("auto"), kw_only=False)
    fit_intercept: bool = parameter(default=True, accepts=FLAG)
    n_components: int | None = parameter(default=None, accepts=whole() | NOTHING)
    missing: str | None = parameter(default=None, accepts=MISSING)
    coef_: Array = learned()
    intercept_: Any = learned()

    # -- learning ------------------------------------------------------------------------------

    def check_decoder(self) -> None:
        """Decoders of second moments will do for compressed sketches."""
        if self.decoder != "auto" and self.decoder not in decoders_of(self.task):
            decoders_of("pca").choose(self.decoder)

    def design_request(self) -> dict[str, Any]:
        """Products of columns: all of them, unless there are thousands of columns."""
        return {"task": self.task, "n_components": 20 if self.n_components is None else int(self.n_components)}

    def design_features(self, request: Request) -> FeatureMap:
        """Without an intercept, products are taken about the origin."""
        if not self.fit_intercept and request.missing != "em":  # (which completes rows about their mean)
            request = replace(request, dim=self._map_columns(), sample=None, weights=None)
        return super().design_features(request)

    def decode_sketch(self, seed: int) -> Model:
        """Solve for the chosen columns."""
        second_moment(self.sketch_.features, "regression")
        most = len(self._predictors)
        if self.n_components is not None and not 1 <= self.n_components <= most:
            raise ValueError(f"n_components={self.n_components} must be between 1 and {most}")
        own = self.decoder == "auto" or self.decoder in decoders_of(self.task)
        found: RegressionModel = self._decoded(
            most if self.n_components is None else int(self.n_components),
            seed,
            targets=self._targets,
            predictors=self._predictors,
            alpha="auto" if self.alpha == "auto" else float(self.alpha) * self._weight_scale,
            fit_intercept=self.fit_intercept,
            **({} if own else {"decoder": "auto", "second_moment_decoder": self.decoder}),
        )
        return found.of_one() if self._flat else found

    def to_model(self) -> Model:
        """What was learned, as a value; of one target."""
        if "sketch_" in self.__dict__ and not self._flat:
            raise TypeError("a model of a regression has one target; fit each target on its own")
        return super().to_model()
