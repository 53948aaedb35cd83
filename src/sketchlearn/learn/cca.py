"""Canonical correlations in scikit-learn's shape, from a sketch of two groups of columns together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_array

from sketchlearn.accepts import NOTHING, choice, whole
from sketchlearn.arrays import Array
from sketchlearn.decoders.noise import CHANCE
from sketchlearn.learn.joint import JointEstimator
from sketchlearn.learn.parameters import MISSING, estimator, learned, parameter
from sketchlearn.learn.using import Transforms
from sketchlearn.models.base import Model
from sketchlearn.models.cca import CCAModel


@estimator
class CompressiveCCA(Transforms, MultiOutputMixin, RegressorMixin, JointEstimator):  # type: ignore[misc]
    """Canonical correlation analysis from one sketch of both groups of columns.

    It finds pairs of linear combinations, one of each group, with the largest correlations. The sketch holds all
    products of columns, so the result is the same as from the rows. You can choose any two groups of columns
    afterwards.

    Parameters
    ----------
    n_components : int, "auto" or None
        Number of pairs. ``"auto"`` keeps those that are more than chance; None keeps as many as there are columns in
        the smaller group.
    features : QuadraticFeatures, optional
        The map to sketch with, for the columns of X followed by those of y.

    Attributes
    ----------
    correlations_ : ndarray (n_components,)
        Canonical correlations, falling.
    p_values_ : ndarray (n_components,)
        P-values of each correlation and all smaller ones together, by Bartlett's test.
    x_rotations_, y_rotations_ : ndarray (n_features, n_components), (n_targets, n_components)
        Centred rows times these are the scores, of variance 1.
    x_loadings_, y_loadings_ : ndarray
        Covariances of columns and scores of their group.
    coef_, intercept_ : ndarray (n_targets, n_features), (n_targets,)
        Coefficients of the regression of the targets on the scores. With all pairs, this is least squares.
    reliable_, verdict_ : bool, str
        Whether all of these correlations are more than chance, as a yes or no and in words.
    n_features_in_, feature_names_in_
        Number of columns of X, and their names if they have any.

    See Also
    --------
    sketchlearn.CompressiveLDA : directions that tell classes apart.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(2000, 1))
    >>> X, Y = common + rng.normal(size=(2000, 3)), common + rng.normal(size=(2000, 2))
    >>> cca = sl.CompressiveCCA("auto").fit(X, Y)
    >>> cca.n_components_, cca.correlations_.round(1)
    (1, array([0.7]))
    >>> x, y = cca.transform(X, Y)
    >>> bool(np.isclose(np.corrcoef(x[:, 0], y[:, 0])[0, 1], cca.correlations_[0]))
    True
    """

    task: ClassVar[str] = "cca"
    model: ClassVar[type[Model]] = CCAModel
    row_types: ClassVar[tuple[Any, ...]] = (np.float64,)
    fewest_rows: ClassVar[int] = 2
    n_components: int | str | None = parameter(default=None, accepts=whole() | choice("auto") | NOTHING, kw_only=False)
    missing: str | None = parameter(default=None, accepts=MISSING)
    sketch_size: ClassVar[None] = None  # type: ignore[misc]
    decoder: ClassVar[str] = "auto"  # type: ignore[misc]
    random_state: ClassVar[int] = 0  # type: ignore[misc]
    correlations_: Array = learned()
    x_rotations_: Array = learned()
    y_rotations_: Array = learned()
    coef_: Array = learned()
    intercept_: Array = learned()
    n_components_: int = learned()

    # -- learning ------------------------------------------------------------------------------

    def design_request(self) -> dict[str, Any]:
        """All products of columns, whatever the number of components."""
        return {"task": self.task, "n_components": 1}

    def decode_sketch(self, seed: int) -> Model:
        """Pairs of the chosen columns."""
        most = min(len(self._predictors), len(self._targets))
        wanted = most if self.n_components in (None, "auto") else int(self.n_components)  # type: ignore[arg-type]
        if wanted > most:
            raise ValueError(f"n_components={wanted} must be between 1 and {most}, the columns of the smaller group")
        both: dict[str, Any] = {"targets": self._targets, "predictors": self._predictors}
        found: CCAModel = self._decoded(wanted, seed, **both)
        if self.n_components == "auto":
            chance = found.p_values > CHANCE
            kept = int(np.argmax(chance)) if chance.any() else len(chance)
            if kept < len(chance):
                found = self._decoded(max(kept, 1), seed, **both)
        return found

    # -- using ---------------------------------------------------------------------------------

    def transform(self, X: Any, y: Any = None) -> Any:
        """Scores of rows: of X alone, or of both groups of columns.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows of the first group.
        y : array (n_samples, n_targets), optional
            Rows of the second group.

        Returns
        -------
        ndarray (n_samples, n_components), or two of them
        """
        rows = self._new_rows(X)
        x_scores = self.solution_.transform_rows(rows)
        if y is None:
            return x_scores
        others = check_array(y, dtype=np.float64, ensure_2d=False)
        others = others[:, None] if others.ndim == 1 else others
        if others.shape != (len(rows), len(self.y_rotations_)):
            raise ValueError(f"y has shape {others.shape}, expected {(len(rows), len(self.y_rotations_))}")
        return x_scores, self.solution_.transform_others(others)

    def predict(self, X: Any) -> Array:
        """Targets predicted from the scores of rows: (n_samples,) or (n_samples, n_targets)."""
        rows = self._new_rows(X)
        return self._shaped(self.solution_.predict_rows(rows).reshape(len(rows), -1))
