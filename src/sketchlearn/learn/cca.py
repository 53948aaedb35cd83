"""Canonical correlations in scikit-learn's shape, from a sketch of two groups of columns together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, MultiOutputMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from sketchlearn.decoders import decode
from sketchlearn.decoders.cca import CHANCE, CCASolution
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.joint import JointEstimator
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.cca import CCAModel

Array = npt.NDArray[np.float64]


class CompressiveCCA(  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiOutputMixin, RegressorMixin, JointEstimator
):
    """Canonical correlation analysis from one sketch of both groups of columns.

    Pairs of linear forms, one of each group, with the largest correlations.  The sketch holds all products of
    columns, so they are those of the rows; any two groups of columns can be chosen afterwards.

    Parameters
    ----------
    n_components : int, "auto" or None
        Pairs: so many, those that are more than chance, or as many as there are columns in the smaller group.
    features : QuadraticFeatures, optional
        The map to sketch with, for the columns of X followed by those of y.
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.

    Attributes
    ----------
    correlations_ : ndarray (n_components,)
        Canonical correlations, falling.
    p_values_ : ndarray (n_components,)
        How probable such a correlation, and all smaller ones together, are by chance (Bartlett).
    x_rotations_, y_rotations_ : ndarray (n_features, n_components), (n_targets, n_components)
        Centred rows times these are the scores, of variance 1.
    x_loadings_, y_loadings_ : ndarray
        Covariances of columns and scores of their group.
    coef_, intercept_ : ndarray (n_targets, n_features), (n_targets,)
        Of the regression of the targets on the scores; with all pairs that of least squares.
    n_components_ : int
        Number of pairs.
    sketch_ : Sketch
        What was learned from.
    solution_ : CCASolution
        What the decoder knows.
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
    learned: ClassVar[tuple[str, ...]] = (
        "correlations_",
        "p_values_",
        "x_rotations_",
        "y_rotations_",
        "x_loadings_",
        "y_loadings_",
        "coef_",
        "intercept_",
        "n_components_",
    )
    row_types: ClassVar[tuple[Any, ...]] = (np.float64,)
    fewest_rows: ClassVar[int] = 2
    correlations_: Array
    x_rotations_: Array
    y_rotations_: Array
    coef_: Array
    intercept_: Array
    n_components_: int

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        features: FeatureMap | None = None,
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
    ) -> None:
        self.n_components = n_components
        self.features = features
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress

    # -- learning ------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """The number of pairs may be left open."""
        k = self.n_components
        if k is not None and k != "auto" and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
            raise ValueError(f"n_components must be a positive integer, 'auto' or None, got {k!r}")
        self.check_sketching()

    def design_request(self) -> dict[str, Any]:
        """All products of columns, whatever the number of components."""
        return {"task": self.task, "n_components": 1}

    def decode_sketch(self, seed: int) -> CCASolution:
        """Pairs of the chosen columns."""
        most = min(len(self._predictors), len(self._targets))
        wanted = most if self.n_components in (None, "auto") else int(self.n_components)  # type: ignore[arg-type]
        if wanted > most:
            raise ValueError(f"n_components={wanted} must be between 1 and {most}, the columns of the smaller group")
        both: dict[str, Any] = {"targets": self._targets, "predictors": self._predictors}
        solution = decode(self.sketch_, wanted, task=self.task, **both)
        if self.n_components == "auto":
            chance = solution.p_values > CHANCE
            kept = int(np.argmax(chance)) if chance.any() else len(chance)
            if kept < len(chance):
                solution = decode(self.sketch_, max(kept, 1), task=self.task, **both)
        assert isinstance(solution, CCASolution)
        return solution

    def set_learned(self, solution: CCASolution) -> None:
        """Correlations, directions, and the regression on scores."""
        for name in ("correlations", "p_values", "x_rotations", "y_rotations", "x_loadings", "y_loadings"):
            setattr(self, name + "_", getattr(solution, name))
        self.n_components_ = len(solution.correlations)
        # the covariance of a target and a score of X is its loading on the paired score times their correlation
        self.coef_ = (solution.y_loadings * solution.correlations) @ solution.x_rotations.T
        self.intercept_ = solution.y_mean - self.coef_ @ solution.x_mean

    def make_model(self) -> Model:
        """Directions and loadings by the names of the columns."""
        phi, s = self.sketch_.features, self.solution_
        names = phi.columns or tuple(f"column {i}" for i in range(phi.dim))
        return CCAModel.from_sketch(
            self.sketch_,
            s,
            x_columns=tuple(names[i] for i in self._predictors),
            y_columns=tuple(names[i] for i in self._targets),
            **{name: getattr(s, name) for name in CCAModel.layout if hasattr(s, name)},
        )

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
        x_scores = (rows - self.solution_.x_mean) @ self.x_rotations_
        if y is None:
            return np.asarray(x_scores)
        others = check_array(y, dtype=np.float64, ensure_2d=False)
        others = others[:, None] if others.ndim == 1 else others
        if others.shape != (len(rows), len(self.y_rotations_)):
            raise ValueError(f"y has shape {others.shape}, expected {(len(rows), len(self.y_rotations_))}")
        return np.asarray(x_scores), np.asarray((others - self.solution_.y_mean) @ self.y_rotations_)

    def predict(self, X: Any) -> Array:
        """Targets predicted from the scores of rows.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows of the first group.

        Returns
        -------
        ndarray (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        found = self._new_rows(X) @ self.coef_.T + self.intercept_
        return np.asarray(found[:, 0] if self._flat else found)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)
