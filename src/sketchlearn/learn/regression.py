"""Least squares from a sketch of the columns: any of them on any others, after the fact."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sketchlearn.decoders.lowrank import decode_second_moment, full_matrix
from sketchlearn.designs.pca import design_regression
from sketchlearn.engines import sketch as make_sketch
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]
_LEARNED = frozenset(
    [
        "coef_",
        "intercept_",
        "standard_errors_",
        "intercept_standard_error_",
        "r2_",
        "residual_variance_",
        "rank_",
        "n_samples_",
    ]
)


class CompressiveRegression(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
        For compressed sketches, see :class:`~sketchlearn.CompressivePCA`.
    workers : int, optional
        Threads of the pass.
    random_state : int, RandomState or None
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

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        fit_intercept: bool = True,
        n_components: int | None = None,
        features: QuadraticFeatures | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        workers: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_components = n_components
        self.features = features
        self.sketch_size = sketch_size
        self.decoder = decoder
        self.workers = workers
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompressiveRegression:
        """Sketch the columns of X and y together in one pass and solve.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.
        y : array (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array (n_samples,), optional
            Weights of the rows, rounded to multiples of 2**-16; whole numbers are exactly repetition.

        Returns
        -------
        self
        """
        rows, weights = self._validate(X, y, sample_weight, reset=True)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.sketch_ = self._sketch(rows, weights, self._draw(rows.shape[1]))
        self._forget()
        self._solve()
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompressiveRegression:
        """Add rows to the sketch; the equations are solved when the coefficients are next asked for.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Predictors.
        y : array (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self
        """
        first = not hasattr(self, "sketch_")
        rows, weights = self._validate(X, y, sample_weight, reset=first)
        if first:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.sketch_ = self._sketch(rows, weights, self._draw(rows.shape[1]))
        else:
            columns = self.sketch_.features.dim
            if rows.shape[1] != columns:
                raise ValueError(f"predictors and targets have {rows.shape[1]} columns, the first batch had {columns}")
            self.sketch_ = self.sketch_ + self._sketch(rows, weights, self.sketch_.features)
        self._forget()
        return self

    def fit_sketch(
        self, sketch: Sketch, targets: int | npt.ArrayLike = -1, predictors: npt.ArrayLike | None = None
    ) -> CompressiveRegression:
        """Regress columns of a sketch on other columns of it.

        Parameters
        ----------
        sketch : Sketch
            Of :class:`~sketchlearn.QuadraticFeatures`.
        targets : int or sequence of int
            Columns to predict; the last one by default.
        predictors : sequence of int, optional
            Columns to predict from; by default all others.

        Returns
        -------
        self
        """
        if not isinstance(sketch, Sketch):
            raise TypeError(f"fit_sketch takes a Sketch, got {type(sketch).__name__}; for rows use fit")
        dim = sketch.features.dim
        wanted = _columns(targets, dim, "targets")
        if predictors is None:
            chosen = np.setdiff1d(np.arange(dim), wanted)
        else:
            chosen = _columns(predictors, dim, "predictors")
        if not len(chosen):
            raise ValueError("no columns are left to predict from")
        both = np.intersect1d(wanted, chosen)
        if len(both):
            raise ValueError(f"column {both[0]} is both a target and a predictor")
        self._targets, self._predictors, self._flat = wanted, chosen, np.ndim(targets) == 0
        self.n_features_in_ = len(chosen)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.sketch_ = sketch
        self._forget()
        self._solve()
        return self

    def _validate(
        self, X: Any, y: Any, sample_weight: Any, reset: bool
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
        rows, target = validate_data(
            self, X, y, reset=reset, dtype=np.float64, accept_large_sparse=False, multi_output=True, y_numeric=True
        )
        target = np.asarray(target, np.float64)
        columns = np.column_stack([rows, target])
        if reset:
            self._flat = target.ndim == 1
            self._predictors = np.arange(rows.shape[1])
            self._targets = np.arange(rows.shape[1], columns.shape[1])
        if sample_weight is None:
            return columns, None
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("all sample weights are zero: nothing to learn from")
        return columns, weights

    def _draw(self, columns: int) -> QuadraticFeatures:
        if self.features is None:
            return design_regression(dim=columns, size=self.sketch_size, seed=self._seed)[0]
        if self.features.dim != columns:
            raise ValueError(f"features are for {self.features.dim} columns, X and y have {columns}")
        return self.features

    def _sketch(self, rows: Array, weights: Array | None, features: Any) -> Sketch:
        return make_sketch(rows, features, sample_weight=weights, workers=self.workers, progress=False)

    def _forget(self) -> None:
        for name in _LEARNED:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # what partial_fit has made stale is solved when it is asked for
        if name in _LEARNED and "sketch_" in self.__dict__:
            self._solve()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- solving -------------------------------------------------------------------------------

    def _solve(self) -> None:
        phi, sketch = self.sketch_.features, self.sketch_
        if not isinstance(phi, QuadraticFeatures):
            raise TypeError(f"regression needs quadratic features, the sketch has {phi.kind} features")
        if isinstance(self.alpha, bool) or not np.isscalar(self.alpha) or not 0 <= self.alpha < math.inf:  # type: ignore[operator]
            raise ValueError(f"alpha must be a number, not negative, got {self.alpha!r}")
        if self.n_components is not None and not 1 <= self.n_components <= len(self._predictors):
            raise ValueError(f"n_components={self.n_components} must be between 1 and {len(self._predictors)}")
        if sketch.weight == 0:
            raise ValueError("the sketch is empty: there is nothing to learn from")
        count = float(sketch.count)
        mean = phi.row_mean_from_sums(sketch.sums, float(sketch.weight))
        if phi.is_exact:
            fit = self._from_matrix(phi, count)
        else:
            fit = self._from_components(phi, count)
        coef, errors, explained, total, rank, pull = fit
        x_mean, y_mean = mean[self._predictors], mean[self._targets]
        intercept = y_mean - coef @ x_mean if self.fit_intercept else np.zeros(len(coef))
        freedom = count - rank - (1 if self.fit_intercept else 0)
        rest = np.maximum(total - explained, 0.0)
        variance = rest * count / freedom if freedom > 0 else np.full(len(coef), np.nan)
        if errors is None:
            spread, constant = np.full(coef.shape, np.nan), np.full(len(coef), np.nan)
        else:
            spread = np.sqrt(variance[:, None] * errors)
            pulled = float(x_mean @ pull @ x_mean) if pull is not None else 0.0
            constant = np.sqrt(variance * (1.0 / count + pulled)) if self.fit_intercept else np.zeros(len(coef))
        # as in scikit-learn the part explained is of the variance, with or without an intercept
        about = total if self.fit_intercept else np.maximum(total - y_mean**2, 0.0)
        r2 = np.where(about > 0, 1.0 - rest / np.where(about > 0, about, 1.0), np.where(rest > 0, 0.0, 1.0))
        one = self._flat
        self.coef_ = coef[0] if one else coef
        self.intercept_ = float(intercept[0]) if one else intercept
        self.standard_errors_ = spread[0] if one else spread
        self.intercept_standard_error_ = float(constant[0]) if one else constant
        self.r2_ = float(r2[0]) if one else r2
        self.residual_variance_ = float(variance[0]) if one else variance
        self.rank_ = rank
        self.n_samples_ = sketch.count

    def _from_matrix(self, phi: QuadraticFeatures, count: float) -> tuple[Any, ...]:
        sums, weight = self.sketch_.sums, float(self.sketch_.weight)
        if self.fit_intercept:
            S = full_matrix(phi, phi.centred_mean_from_sums(sums, weight))
        else:
            if phi.center is not None:
                raise ValueError("without an intercept the rows must be sketched about the origin: no center")
            S = full_matrix(phi, phi.mean_from_sums(sums, weight))
        x, t = self._predictors, self._targets
        A, B, total = S[np.ix_(x, x)], S[np.ix_(x, t)], np.diag(S)[t]
        noise = phi.precision_from_sums(sums, weight)[x]
        # standardised columns: badly scaled ones cost no digits
        size = np.sqrt(np.maximum(np.diag(A), 0.0))
        constant = np.diag(A) <= 8.0 * noise
        scale = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, size))
        C = A * scale[:, None] * scale
        values, vectors = np.linalg.eigh((C + C.T) / 2.0)
        floor = 8.0 * len(x) * max(float(np.max(noise * scale**2, initial=0.0)), 2.0**-52)
        penalised = self.alpha > 0
        if self.n_components is not None:
            coef, H, rank = self._principal(A, B, count)
        elif penalised:
            ridge = self.alpha / count
            # in the units of the standardised columns the penalty differs from column to column
            weights = np.where(constant, 1.0, ridge * scale**2)
            H = scale[:, None] * np.linalg.inv(C + np.diag(weights)) * scale
            H = (H + H.T) / 2.0
            step = scale[:, None] * np.linalg.solve(C + np.diag(weights), scale[:, None] * B)
            coef, rank = step, int(np.sum(~constant))
        else:
            keep = values > floor
            rank = int(keep.sum())
            inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
            coef = scale[:, None] * (inverse @ (scale[:, None] * B))
            # one step of refinement: the residual is computed in the units of the standardised columns
            left = scale[:, None] * B - C @ (inverse @ (scale[:, None] * B))
            coef = coef + scale[:, None] * (inverse @ left)
            H = scale[:, None] * inverse * scale
            if rank < len(x):
                coef, H = _minimum_norm(coef, H, scale, vectors[:, ~keep], constant)
                warnings.warn(
                    f"the predictors are collinear: {rank} of {len(x)} directions can be told apart; the coefficients "
                    "are those of smallest norm, and single ones have no meaning",
                    LinAlgWarning,
                    stacklevel=4,
                )
        explained = 2.0 * np.sum(coef * B, 0) - np.sum(coef * (A @ coef), 0)
        spread = np.diag(H @ A @ H) if penalised else np.diag(H)
        errors = np.maximum(spread, 0.0)[None, :].repeat(len(t), 0) / count
        pull = (H @ A @ H if penalised else H) / count
        return coef.T, errors, explained, total, rank, pull

    def _principal(self, A: Array, B: Array, count: float) -> tuple[Array, Array, int]:
        values, vectors = np.linalg.eigh(A)
        k = int(self.n_components or 0)
        values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
        keep = values > len(A) * 2.0**-52 * max(float(values[0]), 1e-300)
        values, vectors = values[keep], vectors[:, keep]
        H = (vectors / (values + self.alpha / count)) @ vectors.T
        return H @ B, H, int(keep.sum())

    def _from_components(self, phi: QuadraticFeatures, count: float) -> tuple[Any, ...]:
        rank = max(1, min(phi.dim, phi.size // (4 * phi.dim)))
        if self.n_components is not None:
            rank = max(rank, min(phi.dim, 2 * self.n_components))
        solution = decode_second_moment(
            self.sketch_, rank, centred=self.fit_intercept, decoder=self.decoder, tolerance=1e-7, seed=self._seed
        )
        U = solution.vectors * np.sqrt(solution.values)
        left, singular, right = np.linalg.svd(U[self._predictors], full_matrices=False)
        # eigenvalues that the residual of the decoder could have made carry no information
        keep = singular**2 > max(solution.resolution, 1e-12 * float(singular.max(initial=0.0)) ** 2)
        keep[self.n_components or len(keep) :] = False
        left, singular, right = left[:, keep], singular[keep], right[keep]
        level = singular**2 + solution.isotropic + self.alpha / count
        targets = U[self._targets]
        coef = (targets @ right.T) * (singular / level) @ left.T
        total = (targets**2).sum(1) + solution.isotropic
        projected = targets @ right.T
        factor = singular / level
        explained = ((projected**2) * (2.0 * factor * singular - factor**2 * (singular**2 + solution.isotropic))).sum(1)
        return coef, None, explained, total, int(keep.sum()), None

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
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, accept_large_sparse=False)
        return np.asarray(rows @ self.coef_.T + self.intercept_)


def _columns(value: Any, dim: int, name: str) -> npt.NDArray[np.intp]:
    columns = np.atleast_1d(np.asarray(value))
    if columns.ndim != 1 or columns.dtype.kind not in "iu":
        raise ValueError(f"{name} must be column numbers, got {value!r}")
    if not len(columns) or (columns < -dim).any() or (columns >= dim).any():
        raise ValueError(f"{name} must be columns of the {dim} in the sketch, got {value!r}")
    columns = columns.astype(np.intp) % dim
    if len(np.unique(columns)) != len(columns):
        raise ValueError(f"{name} name a column twice: {value!r}")
    return columns


def _minimum_norm(
    coef: Array, H: Array, scale: Array, null: Array, constant: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Take out of a solution whatever lies in the null space, in the units of the columns."""
    directions = scale[:, None] * null
    lengths = np.linalg.norm(directions, axis=0)
    directions = directions[:, lengths > 0] / lengths[lengths > 0]
    if directions.shape[1]:
        left, singular, _ = np.linalg.svd(directions, full_matrices=False)
        basis = left[:, singular > 1e-10 * singular[0]]
        P = np.eye(len(scale)) - basis @ basis.T
        coef, H = P @ coef, P @ H @ P
    coef = np.where(constant[:, None], 0.0, coef)
    return coef, H
