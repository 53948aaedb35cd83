"""Linear discriminant analysis: a classifier and a projection, exact, from one sketch of second moments per class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from sketchlearn.accepts import NOTHING, whole
from sketchlearn.arrays import Array
from sketchlearn.learn.classifier import CompressiveClassifier
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.using import Transforms
from sketchlearn.models.classifier import ClassifierModel


@estimator
class CompressiveLDA(Transforms, CompressiveClassifier):
    """Linear discriminant analysis from a table of sketches, one for each class. The result is the same as from the
    rows.

    Parameters
    ----------
    n_components : int, optional
        Directions that :meth:`transform` keeps; by default one fewer than there are classes, or all columns if those
        are fewer.
    shrinkage : float
        Between 0 and 1: how far the covariance within classes is pulled towards its mean variance.
    class_weight : dict, "balanced" or None
        Weights of the classes, applied to the sketches.
    features : QuadraticFeatures, optional
        The map to sketch with; by default all products of columns.
    random_state : int, RandomState or None
        Seed of the draws from which the expected error is estimated.

    Attributes
    ----------
    scalings_ : ndarray (n_features, n_components)
        Centred rows times these are the scores: of variance 1 within classes, the classes as far apart as possible.
    explained_variance_ratio_ : ndarray (n_components,)
        The share of the variance between classes that each direction explains.
    xbar_ : ndarray (n_features,)
        The centre.
    classes_, class_counts_, sketch_, solution_, reliable_, verdict_
        As of :class:`~sketchlearn.CompressiveClassifier`.

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
    also_shown: ClassVar[Mapping[str, str]] = {
        "xbar_": "discriminant_center",
        "scalings_": "discriminant_directions",
        "explained_variance_ratio_": "discriminant_shares",
    }
    n_components: int | None = parameter(default=None, accepts=whole() | NOTHING, kw_only=False)  # type: ignore[assignment]
    decoder: ClassVar[str] = "auto"  # type: ignore[misc]
    method: ClassVar[str] = "lda"  # type: ignore[misc]
    covariance_type: ClassVar[str] = "tied"  # type: ignore[misc]
    alpha: ClassVar[None] = None  # type: ignore[misc]
    sketch_size: ClassVar[None] = None  # type: ignore[misc]
    scalings_: Array = learned()
    xbar_: Array = learned()

    def decode_sketch(self, seed: int) -> ClassifierModel:
        """The rule, and directions of it."""
        found = super().decode_sketch(seed)
        if found.size < 2:
            raise ValueError("there is only one class: discriminants need at least two")
        most = len(found.discriminants[2])
        if self.n_components is not None and self.n_components > most:
            raise ValueError(f"n_components={self.n_components} must be at most {most}: classes less one, or columns")
        return replace(found, directions=self.n_components)

    def _chosen(self, seed: int) -> int:
        return 1

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])
