"""Least squares from a sketch of the columns: any of them on any others, after the fact."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin

from sketchlearn.decoders import decode
from sketchlearn.decoders.least_squares import RegressionSolution
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.designs.request import Request
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.second_moment import second_moment
from sketchlearn.learn.joint import JointEstimator
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.regression import RegressionModel

Array = npt.NDArray[np.float64]


class CompressiveRegression(MultiOutputMixin, RegressorMixin, JointEstimator):  # type: ignore[misc]
    """Ordinary, ridge or principal-component least squares from a sketch.

    From a sketch of all products of columns (the default) the answer is that of the rows, to about the square of
    the condition number of the standardised columns times 1e-16.  From a compressed sketch it is a regression on the
    principal components that were decoded: accurate where few components carry predictors and targets alike and
    the rest is about the same in all directions; a target that depends on weak directions is not predicted.

    Parameters
    ----------
    alpha : float
        Ridge penalty, as in :class:`sklearn.linear_model.Ridge`: ``|y - X w|^2 + alpha |w|^2``.
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
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, Generator, RandomState or None
        Seeds a compressed map and its decoder.

    Attributes
    ----------
    coef_ : ndarray (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray (n_targets,)
        Constants.
    standard_errors_ : ndarray, shaped like the coefficients
        Standard errors of the coefficients under independent noise of equal variance; NaN from compressed sketches.
    intercept_standard_error_ : float or ndarray
        The same for the constants.
    r2_ : float or ndarray (n_targets,)
        Part of the targets' variance that is explained, on the rows of the sketch.
    residual_variance_ : float or ndarray (n_targets,)
        Variance of the noise, unbiased for ordinary least squares.
    rank_ : int
        Number of directions of the predictors that could be used.
    n_samples_ : int
        Number of rows.
    sketch_ : Sketch
        What was learned from: it can be handed to :meth:`fit_sketch` with other targets.
    solution_ : RegressionSolution
        What the decoder knows.
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
    >>> reg = sl.CompressiveRegression().fit(X, y)
    >>> np.abs(reg.coef_).round(1), reg.standard_errors_.round(3)
    (array([1., 2., 0.]), array([0.003, 0.003, 0.003]))

    The same sketch predicts any column from any others:

    >>> back = sl.CompressiveRegression().fit_sketch(reg.sketch_, targets=0, predictors=[1, 2, 3])
    >>> back.coef_.round(1) + 0.0
    array([-2.,  0.,  1.])
    """

    task: ClassVar[str] = "regression"
    model: ClassVar[type[Model]] = RegressionModel
    learned: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "standard_errors_",
        "intercept_standard_error_",
        "r2_",
        "residual_variance_",
        "rank_",
        "n_samples_",
    )
    row_types: ClassVar[tuple[Any, ...]] = (np.float64,)
    coef_: Array
    intercept_: Any

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        fit_intercept: bool = True,
        n_components: int | None = None,
        features: FeatureMap | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_components = n_components
        self.features = features
        self.sketch_size = sketch_size
        self.decoder = decoder
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """The penalty must be a number; the number of components may be left open."""
        if isinstance(self.alpha, bool) or not np.isscalar(self.alpha) or not 0 <= self.alpha < math.inf:  # type: ignore[operator]
            raise ValueError(f"alpha must be a number, not negative, got {self.alpha!r}")
        self.check_sketching()

    def check_decoder(self) -> None:
        """Decoders of second moments will do for compressed sketches."""
        if self.decoder != "auto" and self.decoder not in decoders_of(self.task):
            decoders_of("pca").choose(self.decoder)

    def design_request(self) -> dict[str, Any]:
        """Products of columns: all of them, unless there are thousands of columns."""
        return {"task": self.task, "n_components": 20 if self.n_components is None else int(self.n_components)}

    def design_features(self, request: Request) -> FeatureMap:
        """Without an intercept, products are taken about the origin."""
        if not self.fit_intercept:
            request = replace(request, dim=request.rows().shape[1], sample=None, weights=None)
        return super().design_features(request)

    def decode_sketch(self, seed: int) -> RegressionSolution:
        """Solve for the chosen columns."""
        second_moment(self.sketch_.features, "regression")
        most = len(self._predictors)
        if self.n_components is not None and not 1 <= self.n_components <= most:
            raise ValueError(f"n_components={self.n_components} must be between 1 and {most}")
        own = self.decoder == "auto" or self.decoder in decoders_of(self.task)
        other: dict[str, Any] = {} if own else {"second_moment_decoder": self.decoder}
        solution = decode(
            self.sketch_,
            most if self.n_components is None else int(self.n_components),
            task=self.task,
            decoder=self.decoder if own else "auto",
            random_state=seed,
            targets=self._targets,
            predictors=self._predictors,
            alpha=float(self.alpha) * self._weight_scale,
            fit_intercept=self.fit_intercept,
            **other,
        )
        assert isinstance(solution, RegressionSolution)
        return solution

    def set_learned(self, solution: RegressionSolution) -> None:
        """Coefficients; of a single target as vectors and numbers."""
        names = {
            "coef_": solution.coefficients,
            "intercept_": solution.intercepts,
            "standard_errors_": solution.standard_errors,
            "intercept_standard_error_": solution.intercept_errors,
            "r2_": solution.r2,
            "residual_variance_": solution.residual_variance,
        }
        for name, values in names.items():
            one = values[0] if values.ndim == 2 else float(values[0])
            setattr(self, name, one if self._flat else values)
        self.rank_, self.n_samples_ = solution.rank, self.sketch_.count

    def make_model(self) -> Model:
        """Coefficients of one target."""
        if np.ndim(self.coef_) != 1:
            raise TypeError("a model of a regression has one target; fit each target on its own")
        phi = self.sketch_.features
        names = phi.columns or tuple(f"column {i}" for i in range(phi.dim))
        errors = np.asarray(self.standard_errors_)
        return RegressionModel.from_sketch(
            self.sketch_,
            self.solution_,
            target=names[self._targets[0]],
            predictors=tuple(names[i] for i in self._predictors),
            coefficients=self.coef_,
            intercept=self.intercept_,
            standard_errors=errors if np.isfinite(errors).all() else None,
            predictor_spread=self.solution_.predictor_spread,
            r2=self.r2_,
        )

    # -- using ---------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Targets predicted for rows of predictors.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors, in the order of `coef_`.

        Returns
        -------
        ndarray (n_samples,) or (n_samples, n_targets)
        """
        rows = self._new_rows(X)
        return np.asarray(rows @ self.coef_.T + self.intercept_)
