"""Linear discriminant analysis: a classifier and a projection, exact, from one sketch of second moments a class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.classifier import CompressiveClassifier
from sketchlearn.models.discriminant import discriminants
from sketchlearn.models.rules import ClassSolution, MixtureRule

Array = npt.NDArray[np.float64]


class CompressiveLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CompressiveClassifier):  # type: ignore[misc]
    """Linear discriminant analysis from a table of sketches, one a class: the same as from the rows.

    Parameters
    ----------
    n_components : int, optional
        Directions that :meth:`transform` keeps; by default one fewer than there are classes, or all columns if those
        are fewer.
    shrinkage : float
        Between 0 and 1: the covariance within classes is pulled towards its mean variance by so much.
    class_weight : dict, "balanced" or None
        Factors of the rows of each class, applied to the sketches.
    features : QuadraticFeatures, optional
        The map to sketch with; by default all products of columns.
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, RandomState or None
        For the expected error, which is estimated from draws.

    Attributes
    ----------
    scalings_ : ndarray (n_features, n_components)
        Centred rows times these are the scores: of variance 1 within classes, the classes as far apart as possible.
    explained_variance_ratio_ : ndarray (n_components,)
        Their parts of the variance between classes.
    xbar_ : ndarray (n_features,)
        The centre.
    classes_, class_counts_, sketch_, solution_, reliable_, verdict_
        As of :class:`~sketchlearn.CompressiveClassifier`.
    n_features_in_, feature_names_in_
        Number of columns, and their names if they have any.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> lda = sl.CompressiveLDA(n_components=1).fit(X, y)
    >>> lda.transform(X).shape, lda.explained_variance_ratio_.round(2), bool(lda.score(X, y) > 0.97)
    ((150, 1), array([0.99]), True)
    """

    projects: ClassVar[bool] = False
    learned: ClassVar[tuple[str, ...]] = (
        *CompressiveClassifier.learned,
        "scalings_",
        "explained_variance_ratio_",
        "xbar_",
    )
    method = "lda"
    covariance_type = "tied"
    alpha = None
    sketch_size = None
    scalings_: Array
    xbar_: Array

    def __init__(
        self,
        n_components: int | None = None,
        *,
        shrinkage: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        features: FeatureMap | None = None,
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components  # type: ignore[assignment]
        self.shrinkage = shrinkage
        self.class_weight = class_weight
        self.features = features
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

    def check_parameters(self) -> None:
        """The number of directions may be left open."""
        k = self.n_components
        if k is not None and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
            raise ValueError(f"n_components must be a positive integer or None, got {k!r}")
        self.check_options()
        self.check_sketching()

    def set_learned(self, solution: ClassSolution) -> None:
        """Labels, and directions."""
        super().set_learned(solution)
        assert isinstance(solution.rule, MixtureRule)
        if len(self.classes_) < 2:
            raise ValueError("there is one class: discriminants tell two or more apart")
        self.xbar_, directions, shares = discriminants(solution.rule)
        if self.n_components is not None and self.n_components > len(shares):
            raise ValueError(
                f"n_components={self.n_components} must be at most {len(shares)}: classes less one, or columns"
            )
        self.scalings_ = directions[:, : self.n_components]
        self.explained_variance_ratio_ = shares[: self.n_components]

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Coordinates of rows along the directions that tell the classes apart.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_components)
        """
        rows = self._new_rows(X)
        return np.asarray((rows - self.xbar_) @ self.scalings_)

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])
