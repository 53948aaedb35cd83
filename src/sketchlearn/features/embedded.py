"""Second moments of embedded rows: all products of two Fourier features, as integers.

A row is replaced by the cosines and sines of its Fourier features, whose inner products approximate a kernel; the
sketch holds the mean and the second moment of these, which is all that kernel ridge regression, classification by
least squares and Mahalanobis distances in feature space need.  Features are bounded by 1 and rounded to 2**-15, so
the sums are integers: the same for any order, batches, threads or machine, and exactly subtractable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.characteristic import CharacteristicMap
from sketchlearn.kernels import PRODUCT_BITS, Plan
from sketchlearn.kernels.embedded import EmbeddedSummer


@register
@dataclass(frozen=True, eq=False, repr=False)
class EmbeddedFeatures(FeatureMap):
    """All products of two Fourier features of a row; make one with :meth:`sketchlearn.EmbeddedFeatures.of`.

    Attributes
    ----------
    dim, size : int
        Columns of the data; number of products, ``width * (width + 1) / 2``.
    inner : FourierFeatures
        The map that embeds the rows.
    width : int
        Number of cosines and sines, twice the size of `inner`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0))
    >>> phi
    EmbeddedFeatures(dim=2, width=20, inner=FourierFeatures(dim=2, size=10, scale=1, radial=adapted, seed=0))
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> a, b = sl.sketch(X[:300], phi), sl.sketch(X[300:], phi)
    >>> a + b == sl.sketch(X, phi)
    True
    """

    kind: ClassVar[str] = "embedded"
    dim: int
    size: int
    inner: CharacteristicMap

    @classmethod
    def of(cls, inner: CharacteristicMap) -> EmbeddedFeatures:
        """The second moments of the features of a map.

        Parameters
        ----------
        inner : FourierFeatures
            The map that embeds the rows.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)).size
        210
        """
        if not isinstance(inner, CharacteristicMap):
            raise TypeError(f"rows are embedded by Fourier features, got {type(inner).__name__}")
        if getattr(inner, "quantized", False) or getattr(inner, "features_per_row", None) is not None:
            raise ValueError("products need all features of a row, with all their digits: neither quantised nor some")
        width = 2 * inner.size
        plain = inner.with_encoder(None).with_projection(None)  # which are the outer map's
        phi = cls(inner.dim, width * (width + 1) // 2, plain)
        return phi._with(columns=inner.columns, encoder=inner.encoder, projection=inner.projection)

    def standardized(self, offset: npt.ArrayLike, spread: npt.ArrayLike) -> EmbeddedFeatures:
        """The map for raw rows that this one is for standardised rows."""
        return EmbeddedFeatures.of(self.inner.standardized(offset, spread))

    @property
    def as_embedded(self) -> EmbeddedFeatures:
        return self

    @property
    def width(self) -> int:
        """Number of cosines and sines."""
        return 2 * self.inner.size

    # -- recipe ------------------------------------------------------------------------------

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> EmbeddedFeatures:
        cls._check_names(parameters)
        inner = FeatureMap.from_recipe(parameters["inner"])
        if not isinstance(inner, CharacteristicMap):
            raise ValueError(f"rows are embedded by Fourier features, the recipe has {inner.kind} ones")
        phi = cls.of(inner)
        if (phi.dim, phi.size) != (parameters["dim"], parameters["size"]):
            raise ValueError(
                f"an embedding of {phi.dim} columns with {phi.size} products, the recipe says "
                f"{parameters['dim']} and {parameters['size']}"
            )
        return phi

    # -- numbers -----------------------------------------------------------------------------

    def draw_array(self) -> AnyArray:
        return self.inner.random_array()

    @property
    def random_shape(self) -> tuple[int, ...]:
        return self.inner.random_shape

    @property
    def random_dtype(self) -> np.dtype[Any]:
        return self.inner.random_dtype

    @cached_property
    def _checked(self) -> CharacteristicMap:
        """The inner map with the random numbers that this map was told to use."""
        return self.inner if self._embedded is None else self.inner.with_random_array(self.random_array())

    # -- features ----------------------------------------------------------------------------

    def embed(self, X: npt.ArrayLike) -> Array:
        """Cosines, then sines, of rows, (n, width): as they are multiplied, rounded to 2**-15.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=2, size=3, scale=1.0, seed=0))
        >>> phi.embed([[0.0, 0.0]])
        array([[1., 1., 1., 0., 0., 0.]])
        """
        rows = np.asarray(X)
        rows = rows if rows.dtype == np.float32 else np.asarray(rows, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        summer = self.own_summer
        assert isinstance(summer, EmbeddedSummer)
        step = max(1, 2**21 // self.width)
        parts = [summer.features(rows[i : i + step]) for i in range(0, len(rows), step)]
        return np.concatenate([np.zeros((0, self.width)), *parts]) * 2.0**-PRODUCT_BITS

    def __call__(self, X: npt.ArrayLike) -> Array:
        """Products of the features of a few rows, (n, size).

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=2, size=1, scale=1.0, seed=0))
        >>> phi([[0.0, 0.0]])
        array([[1., 0., 0.]])
        """
        rows = self.embed(X)
        i, j = np.triu_indices(self.width)
        return rows[:, i] * rows[:, j]

    # -- sums --------------------------------------------------------------------------------

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """Products, then features."""
        return (self.size + self.width,)

    @property
    def entry_bound(self) -> int | None:
        return 2 ** (2 * PRODUCT_BITS)

    @property
    def row_cost(self) -> float:
        return 0.5 * self.width * (self.width + 10.0) + self.inner.row_cost

    @property
    def fewest_rows(self) -> int:
        return max(960, 4 * self.width)

    def plan(self) -> Plan:
        """The inner plan, its kind and the number of features."""
        inner = self._checked.plan()
        numbers = {**inner.numbers, "inner": inner.kind, "width": self.width}
        return Plan("embedded", self.dim, self.sums_shape, self.sums_dtype, inner.arrays, numbers)

    def mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        return np.asarray(sums[: self.size] / (weight * 4.0**PRODUCT_BITS))

    def moments_from_sums(self, sums: AnyArray, weight: float) -> tuple[Array, Array]:
        """Mean (width,) and second moment (width, width) of the embedded rows.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=2, size=4, scale=1.0, seed=0))
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> s, F = sl.sketch(X, phi), phi.embed(X)
        >>> mean, second = phi.moments_from_sums(s.sums, s.weight)
        >>> bool(np.allclose(mean, F.mean(0)) and np.allclose(second, F.T @ F / 100))
        True
        """
        second = np.empty((self.width, self.width))
        i, j = np.triu_indices(self.width)
        second[i, j] = second[j, i] = self.mean_from_sums(sums, weight)
        return np.asarray(sums[self.size :] / (weight * 2.0**PRODUCT_BITS)), second

    def _noise_of_mean(self, sums_variance: Array) -> Array:
        return np.asarray(sums_variance[: self.size] * 16.0**-PRODUCT_BITS)

    def impossible(self, sums: AnyArray, weight: int) -> str | None:
        found = super().impossible(sums, weight)
        if found is not None or weight == 0:
            return found
        diagonal = np.cumsum(np.r_[0, np.arange(self.width, 1, -1)])
        squares = sums[: self.size][diagonal] / (weight * 4.0**PRODUCT_BITS)
        means = sums[self.size :] / (weight * 2.0**PRODUCT_BITS)
        if (squares - means**2 < -1e-9).any():
            return f"the variance of feature {int(np.argmin(squares - means**2))} would be negative"
        return None

    def describe(self) -> str:
        return f"products of {self.width} features ({self.inner.describe()})"

    def __repr__(self) -> str:
        return f"EmbeddedFeatures(dim={self.dim}, width={self.width}, inner={self.inner!r})"


def embedding(features: FeatureMap, what: str) -> EmbeddedFeatures:
    """The map, if it sums second moments of embedded rows; TypeError with the reason if not."""
    found = features.as_embedded
    if found is None:
        raise UnsuitableMapError(f"{what} needs products of Fourier features, the sketch has {features.kind} features")
    return found
