"""Maps whose averages are linear in the second moment of the rows: what PCA, regression and their decoders need."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.exceptions import Option, UnsuitableMapError
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.operator import IntegerOperator, Operator
from sketchlearn.features.projection import Projection


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

    def contrast_variances(self, contrasts: Array, sums: AnyArray, weight: float) -> tuple[Array, Array] | None:
        """Errors of covariances and means from n normal rows that miss entries; None if rows are complete.

        First n times the variance of the sum of each of `contrasts` (c, dim, dim), symmetric, times the covariances;
        second n times the covariance of the means, (dim, dim).
        """
        return None

    def about_origin_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average features of the rows about the origin; ValueError if the map took them about another point."""
        if getattr(self, "center", None) is not None:
            raise ValueError("without an intercept the rows must be sketched about the origin: no center")
        return self.mean_from_sums(sums, weight)

    @abstractmethod
    def precision_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Rounding error to expect in the variance of each column: what can't be told from zero."""


class IncompleteRowsMap(SecondMomentMap):
    """A map for rows that miss entries (NaN): of all products of two columns, with nothing drawn at random."""

    takes_missing: ClassVar[bool] = True

    def with_projection(self, projection: Projection | None) -> Self:
        """Refused: a projection mixes columns, and of a row that misses one nothing would be left."""
        if projection is not None:
            raise ValueError("rows with missing entries can't be projected")
        return super().with_projection(projection)

    @property
    def is_exact(self) -> bool:
        return True

    @property
    def paired(self) -> bool:
        return False

    @property
    def factors(self) -> Array:
        return np.empty(0)

    def direction_operator(self) -> Operator:
        return IntegerOperator(self.random_array())

    @property
    def random_shape(self) -> tuple[int, ...]:
        return 0, self.dim

    @property
    def random_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int8)

    def draw_array(self) -> npt.NDArray[np.int8]:
        return np.empty(self.random_shape, np.int8)

    def release_variances(
        self, sums: AnyArray, weight: float, sums_variance: npt.ArrayLike, weight_variance: float
    ) -> Array:
        """Refused: no release of such sums is known."""
        raise TypeError(f"{self.kind} features have no private release")

    def _triangle(self, matrix: Array) -> Array:
        return np.asarray(matrix[np.triu_indices(self.dim)])


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
