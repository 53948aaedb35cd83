"""Maps whose averages are linear in the second moment of the rows: what PCA, regression and their decoders need."""

from __future__ import annotations

from abc import abstractmethod

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.exceptions import Option, UnsuitableMapError
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.operator import Operator


class SecondMomentMap(FeatureMap):
    """A feature map whose averages are measurements of the second moment; the mean of the rows comes along.

    A feature is the sum over its directions q of ``factor * (q·x)**2``, or, of an exact map, a product of two columns.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.features import SecondMomentMap
    >>> isinstance(sl.QuadraticFeatures.draw(dim=3), SecondMomentMap)
    True
    """

    radius: float | None = None
    """Rows are clipped to this distance from the centre; None if they are not."""

    @property
    def as_second_moment(self) -> SecondMomentMap:
        return self

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether the features are all products of two columns, row by row of the upper triangle."""

    @property
    @abstractmethod
    def paired(self) -> bool:
        """Whether a feature has two directions: number j and number ``size + j``."""

    @property
    @abstractmethod
    def factors(self) -> Array:
        """Factor of each direction's square, as many as there are directions."""

    @abstractmethod
    def direction_operator(self) -> Operator:
        """Products with all directions: an operator of shape (directions, dim)."""

    @abstractmethod
    def row_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average row."""

    @abstractmethod
    def centred_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average features of the rows minus their mean."""

    def seen_share(self, sums: AnyArray, weight: float) -> float:
        """The smallest share of the rows that hold two columns: errors are those of so many rows."""
        found = self.shares(sums, weight)
        return 1.0 if found is None else float(found.min())

    def shares(self, sums: AnyArray, weight: float) -> Array | None:
        """Share of the rows that hold both columns, (dim, dim); None for maps of complete rows."""
        return None

    @abstractmethod
    def precision_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Rounding error to expect in the variance of each column: what can't be told from zero."""


def second_moment(features: FeatureMap, what: str) -> SecondMomentMap:
    """The map, if it measures second moments; TypeError with the reason if not."""
    found = features.as_second_moment
    if found is None:
        raise UnsuitableMapError(
            f"{what} needs quadratic features, and this sketch has {features.kind.capitalize()} features: sketch the "
            "rows again with a map for it, designed with ",
            Option("task", "pca" if what == "PCA" else "regression"),
        )
    return found
