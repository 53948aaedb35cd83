"""Quartic features: powers of projections up to the fourth, for cumulants along directions.

The fourth cumulant of a projection tells how far it is from normal; along enough directions it determines the fourth
cumulants of the columns as far as independent components need them (Sheehan and Davies, "Compressive independent
component analysis", 2021).  The sums of the second, third and fourth powers of each projection are kept, and those of
the columns, so that everything can be taken about the mean of the rows afterwards.

Rows are first multiplied by a matrix that makes them uncorrelated, of variance 1 or nearly so, and then clipped to a
ball: fourth powers of a few outliers would drown everything else.  Directions are small integers in these coordinates,
and every power is rounded to a fixed grid: sums are integers, the same for any order, batches, threads or machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.accepts import FLAG, SEED, whole
from sketchlearn.arrays import AnyArray, Array
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.dense import positive
from sketchlearn.features.quadratic import integer_normals
from sketchlearn.kernels import GRID_BITS, Plan
from sketchlearn.kernels.directions import squared_norms
from sketchlearn.kernels.quartic import PowersSummer


class ProjectedMoments(NamedTuple):
    """Averages of whitened rows, of their projections' powers, and what the powers are bounded by."""

    mean: Array
    first: Array
    second: Array
    third: Array
    fourth: Array


def usual_radius(dim: int) -> float:
    """Where whitened rows are clipped unless a smaller radius is better: few rows of usual data are."""
    return max(5.0, 2.0 * float(dim) ** 0.5)


def pair_count(dim: int) -> int:
    """Directions of :func:`pair_directions`."""
    return dim + 2 * dim * (dim - 1)


def pair_directions(dim: int) -> npt.NDArray[np.int8]:
    """Every axis, and four directions in the plane of any two: what tells turns of these planes.

    Examples
    --------
    >>> from sketchlearn.features.quartic import pair_directions
    >>> pair_directions(2).tolist()
    [[1, 0], [0, 1], [1, 1], [1, -1], [2, 1], [1, -2]]
    """
    i, j = np.triu_indices(dim, 1)
    found = np.zeros((len(i), 4, dim), np.int8)
    at = np.arange(len(i))
    for step, (a, b) in enumerate(((1, 1), (1, -1), (2, 1), (1, -2))):
        found[at, step, i], found[at, step, j] = a, b
    return np.concatenate([np.eye(dim, dtype=np.int8), found.reshape(-1, dim)])


@register
@dataclass(frozen=True, eq=False, repr=False)
class QuarticFeatures(FeatureMap):
    """Fourth powers along directions, with the lower powers that centring needs.

    Make one with :meth:`sketchlearn.QuarticFeatures.draw`, or, from a pilot sample, ``sl.design(task="ica")``.

    Attributes
    ----------
    dim, size : int
        Columns of the data and number of directions.
    seed : int
        Seed of the random directions.
    radius : float
        Where whitened rows are clipped.
    pairs : bool
        Whether the first directions are the axes and those of :func:`~sketchlearn.features.quartic.pair_directions`.
    center : ndarray (dim,) or None
        Subtracted from the rows first.
    whitening : ndarray (dim, dim) or None
        Multiplies the rows next.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.QuarticFeatures.draw(dim=3, size=30, seed=0)
    >>> phi
    QuarticFeatures(dim=3, size=30, radius=5, seed=0)
    >>> X = np.random.default_rng(0).laplace(size=(1000, 3))
    >>> a, b = sl.sketch(X[:300], phi), sl.sketch(X[300:], phi)
    >>> a + b == sl.sketch(X, phi)
    True
    """

    kind: ClassVar[str] = "quartic"
    array_axes: ClassVar[Mapping[str, int]] = {"center": 1, "whitening": 2}
    dim: int
    size: int
    seed: int
    radius: float
    pairs: bool = True
    center: Array | None = None
    whitening: Array | None = None

    @classmethod
    def draw(
        cls,
        dim: int,
        size: int | None = None,
        seed: int = 0,
        *,
        radius: float | None = None,
        pairs: bool = True,
        center: npt.ArrayLike | None = None,
        whitening: npt.ArrayLike | None = None,
    ) -> QuarticFeatures:
        """A map with explicit parameters.

        Parameters
        ----------
        dim : int
            Columns of the data.
        size : int, optional
            Number of directions; by default ``3 dim**2``.
        seed : int
            The same seed and parameters give the same directions on any machine.
        radius : float, optional
            Whitened rows are clipped to this length; by default ``max(5, 2 sqrt(dim))``.
        pairs : bool
            Whether directions begin with the axes and the planes of any two, as far as `size` allows.
        center : array (dim,), optional
            A point near the data.
        whitening : array (dim, dim), optional
            Makes rows about the centre nearly uncorrelated, of variance 1; best, nearly independent.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.QuarticFeatures.draw(dim=4).directions.shape
        (48, 4)
        """
        whole().check("dim", dim)
        size = 3 * int(dim) ** 2 if size is None else size
        whole().check("size", size)
        if radius is None:
            radius = usual_radius(int(dim))
        centre = None if center is None else np.array(center, np.float64)
        if centre is not None and (centre.shape != (dim,) or not np.isfinite(centre).all()):
            raise ValueError(f"center must be {dim} finite numbers, got shape {centre.shape}")
        matrix = None if whitening is None else np.array(whitening, np.float64)
        if matrix is not None and (matrix.shape != (dim, dim) or not np.isfinite(matrix).all()):
            raise ValueError(f"whitening must be {dim} by {dim} finite numbers, got shape {matrix.shape}")
        return cls(int(dim), int(size), seed, radius, bool(pairs), centre, matrix)._validated()

    def _validated(self) -> Self:
        SEED.check("seed", self.seed)
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "radius", positive(self.radius, "radius"))
        if not 1e-60 < self.radius < 1e60:
            raise ValueError(f"radius must be positive and finite, got {self.radius!r}")
        FLAG.check("pairs", self.pairs)
        if self.whitening is not None and np.linalg.matrix_rank(self.whitening) < self.dim:
            raise ValueError("whitening must be invertible")
        for array in (self.center, self.whitening):
            if array is not None:
                array.flags.writeable = False
        return self

    @property
    def as_quartic(self) -> QuarticFeatures:
        return self

    # -- numbers -----------------------------------------------------------------------------

    @property
    def random_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int8)

    def draw_array(self) -> npt.NDArray[np.int8]:
        drawn = np.empty((self.size, self.dim), np.int8)
        chosen = min(self.size, pair_count(self.dim)) if self.pairs else 0
        if chosen:
            drawn[:chosen] = pair_directions(self.dim)[:chosen]
        integer_normals(drawn[chosen:], self.seed)
        drawn[~drawn.any(1), 0] = 1  # no direction is nothing
        return drawn

    @property
    def directions(self) -> npt.NDArray[np.int8]:
        """Integer directions in whitened coordinates, one per row."""
        return self.random_array()

    @cached_property
    def lengths(self) -> Array:
        """Lengths of the directions."""
        return np.sqrt(squared_norms(self.directions))

    @cached_property
    def matrix(self) -> Array:
        """The whitening, or the identity."""
        return np.eye(self.dim) if self.whitening is None else self.whitening

    @cached_property
    def origin(self) -> Array:
        """The centre, or zero."""
        return np.zeros(self.dim) if self.center is None else self.center

    # -- features ----------------------------------------------------------------------------

    def whitened(self, X: npt.ArrayLike) -> Array:
        """Rows in whitened coordinates, clipped, (n, dim).

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.QuarticFeatures.draw(dim=2, center=[1.0, 0.0])([[3.0, 0.0]])[0, :2]
        array([16.,  0.])
        """
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        summer = self.own_summer
        assert isinstance(summer, PowersSummer)
        white = summer.whitened(rows)
        return np.asarray(
            white * np.minimum(1.0, self.radius / np.maximum(np.linalg.norm(white, axis=1), 1e-300))[:, None]
        )

    def __call__(self, X: npt.ArrayLike) -> Array:
        """Fourth powers of the projections on unit directions of a few rows, (n, size), not rounded.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.QuarticFeatures.draw(dim=1, size=1)([[2.0], [9.0]])  # clipped at 5
        array([[ 16.],
               [625.]])
        """
        return np.asarray((self.whitened(X) @ (self.directions / self.lengths[:, None]).T) ** 4)

    # -- sums --------------------------------------------------------------------------------

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """Second, third and fourth powers, then the whitened columns."""
        return (3 * self.size + self.dim,)

    @property
    def row_cost(self) -> float:
        return self.size * (self.dim + 12.0) + self.dim * (self.dim + 10.0)

    @property
    def fewest_rows(self) -> int:
        return 960

    def plan(self) -> Plan:
        """Powers along directions of whitened rows, clipped at the radius."""
        arrays: dict[str, AnyArray] = {
            "center": self.origin,
            "whitening": self.matrix,
            "directions": self.directions,
            "bounds": self.lengths,
        }
        return Plan("powers", self.dim, self.sums_shape, self.sums_dtype, arrays, {"radius": self.radius})

    def moments_from_sums(self, sums: AnyArray, weight: float) -> ProjectedMoments:
        """Averages of whitened rows and of powers of their projections on unit directions.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.QuarticFeatures.draw(dim=2, size=6)
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> s = sl.sketch(X, phi)
        >>> bool(np.allclose(phi.moments_from_sums(s.sums, s.weight).fourth, phi(X).mean(0), atol=1e-4))
        True
        """
        unit = np.asarray(sums, np.float64) / (weight * 2.0**GRID_BITS)
        m = self.size
        mean = unit[3 * m :] * self.radius
        first = (self.directions @ mean) / self.lengths
        return ProjectedMoments(mean, first, *(unit[i * m : (i + 1) * m] * self.radius ** (i + 2) for i in range(3)))

    def mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        return self.moments_from_sums(sums, weight).fourth

    def feature_variances(self, sums: AnyArray, weight: float) -> Array:
        """Variances of fourth powers over rows, as they are for normal data of the same variance."""
        return np.asarray(96.0 * self.moments_from_sums(sums, weight).second ** 4)

    def _noise_of_mean(self, sums_variance: Array) -> Array:
        return np.asarray(sums_variance[2 * self.size : 3 * self.size] * self.radius**8 * 4.0**-GRID_BITS)

    def impossible(self, sums: AnyArray, weight: int) -> str | None:
        found = super().impossible(sums, weight)
        if found is not None or weight == 0:
            return found
        second, fourth = sums[: self.size] / weight, sums[2 * self.size : 3 * self.size] / weight
        if (second < -1.0).any() or (fourth < -1.0).any():
            return "the average of some even power would be negative"
        if (fourth > second + 2.0).any():  # of numbers between -1 and 1
            return "the average of some fourth power would be larger than that of its square"
        return None

    def describe(self) -> str:
        return f"quartic, rows clipped to radius {self.radius:.6g}, seed {self.seed}"

    def __repr__(self) -> str:
        extra = "" if self.center is None else ", center=..."
        extra += "" if self.whitening is None else ", whitening=..."
        return f"QuarticFeatures(dim={self.dim}, size={self.size}, radius={self.radius:.6g}, seed={self.seed}{extra})"


def quartic(features: FeatureMap, what: str) -> QuarticFeatures:
    """The map, if it has fourth powers; TypeError with the reason if not."""
    found = features.as_quartic
    if found is None:
        raise UnsuitableMapError(f"{what} needs quartic features, the sketch has {features.kind} features")
    return found
