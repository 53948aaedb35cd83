"""Quadratic features: random measurements of the second moment, or all of it.

A feature is ``(a·x)**2`` for a random direction a, or a combination of two such squares.  Averaged over rows it is
``<a a', E x x'>``: linear in the second moment, of which a few times ``k * dim`` such numbers determine the k
leading directions (Gribonval, Blanchard, Keriven and Traonmilin, "Compressive statistical learning with random
feature moments", section 4).  The sum of the rows is carried along, so that the features of the centred rows,
``y - phi(mean)``, need no second pass.

Directions have small integer entries: normal numbers in steps of 1/29, cut off at 4.3 standard deviations.  The
same integers are used by the pass and by the decoders, so nothing is approximated by that; a direction costs a
byte per coordinate, and drawing a billion of them takes seconds.

Precision.  With a `radius`, rows are clipped to the ball of that radius about `center` and each feature is rounded
to a fixed grid: the sums are integers, the same for any order, batches, threads or machine.  Without one the sums
are float64 with an error term (pairs), accurate under any number of merges but not bit for bit the same; a
projection is computed in float32 about a provisional centre, an error of about 1e-7 of the spread of the data in a
single feature and much less in the average.  All products of columns (``"exact"``) of float64 rows are computed in
float64 about a provisional centre.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from sketchlearn.features import portable
from sketchlearn.features.base import (
    FeatureMap,
    check_fingerprint,
    decode_array,
    digest,
    encode_array,
    register,
)
from sketchlearn.features.operator import IntegerOperator, Operator
from sketchlearn.features.second_moment import SecondMomentMap
from sketchlearn.kernels import _pairs
from sketchlearn.kernels import quadratic as kernel
from sketchlearn.kernels.fourier import RowSums

VARIANTS = ("gaussian", "sphere", "complex", "difference", "exact")
_STEPS = 29.0
_KEPT_ENTRIES, _GROUP_ENTRIES = 2**27, 2**24


def _normal_table() -> npt.NDArray[np.int8]:
    """Normal quantiles at 2**16 equally likely points, in steps of 1/29."""
    u = (np.arange(2**16, dtype=np.float64) + 0.5) * 2.0**-16
    return np.rint(portable.normal_quantile(u) * _STEPS).astype(np.int8)


@register
@dataclass(frozen=True, eq=False, repr=False)
class QuadraticFeatures(SecondMomentMap):
    """Random quadratic features of a recipe; make one with :meth:`sketchlearn.QuadraticFeatures.draw`.

    Attributes
    ----------
    dim, size : int
        Columns of the data and number of features.
    variant : str
        ``"gaussian"``: ``(a·x)**2`` with standard normal a.  ``"sphere"``: the same with unit vectors.
        ``"complex"``: ``|a·x|**2`` with complex normal a.  ``"difference"``: ``((a·x)**2 - (b·x)**2) / 2``, whose
        mean square is the squared Frobenius norm of the second moment.  ``"exact"``: all products of two columns.
    seed : int
        Seed of the draw.
    radius : float or None
        Rows are clipped to this distance from `center`, and summed exactly.
    center : ndarray (dim,) or None
        Subtracted from the rows first.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.QuadraticFeatures.draw(dim=50, size=1000, seed=0)
    >>> phi
    QuadraticFeatures(dim=50, size=1000, variant=sphere, seed=0)
    >>> sl.QuadraticFeatures.draw(dim=50, size=2000, seed=0)  # more than 50 * 51 / 2: no need for anything random
    QuadraticFeatures(dim=50, size=1275, variant=exact, seed=0)
    """

    kind: ClassVar[str] = "quadratic"
    dim: int
    size: int
    variant: str
    seed: int
    radius: float | None = None
    center: npt.NDArray[np.float64] | None = None
    _expected: str | None = field(default=None, compare=False)
    _embedded: npt.NDArray[np.int8] | None = field(default=None, compare=False)

    @classmethod
    def draw(
        cls,
        dim: int,
        size: int | None = None,
        seed: int = 0,
        *,
        variant: str = "auto",
        radius: float | None = None,
        center: npt.ArrayLike | None = None,
    ) -> QuadraticFeatures:
        """A map with explicit parameters.

        Parameters
        ----------
        dim : int
            Columns of the data.
        size : int, optional
            Number of features; without it, all products of two columns.
        seed : int
            The same seed and parameters give the same directions on any machine.
        variant : {"auto", "gaussian", "sphere", "complex", "difference", "exact"}
            ``"auto"`` is ``"sphere"``, or ``"exact"`` where `size` is at least dim (dim + 1) / 2.
        radius : float, optional
            A public bound: rows are clipped to this distance from `center`.
        center : array (dim,), optional
            A public point near the data.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.QuadraticFeatures.draw(dim=3, size=4, seed=1, variant="gaussian", radius=10.0)
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> bool(np.allclose(sl.sketch(X, phi).mean, phi(X).mean(0), atol=1e-4))
        True
        """
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"dim must be a positive integer, got {dim!r}")
        products = int(dim) * (int(dim) + 1) // 2
        if size is None:
            if variant not in ("auto", "exact"):
                raise ValueError(f"variant={variant!r} needs a size")
            size = products
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"size must be a positive integer, got {size!r}")
        if variant == "auto":
            variant = "exact" if size >= products else "sphere"
        if variant == "exact":
            if size < products:
                raise ValueError(f"variant='exact' has {products} features in {dim} columns, got size={size}")
            size = products
        centre = None
        if center is not None:
            centre = np.array(center, np.float64)
            if centre.shape != (dim,) or not np.isfinite(centre).all():
                raise ValueError(f"center must be {dim} finite numbers, got shape {centre.shape}")
        phi = cls(int(dim), int(size), variant, seed, radius, centre)
        phi._validate()
        return phi

    def _validate(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant={self.variant!r}: choose one of auto, {', '.join(VARIANTS)}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or not 0 <= self.seed < 2**64:
            raise ValueError(f"seed must be an integer in [0, 2**64), got {self.seed!r}")
        object.__setattr__(self, "seed", int(self.seed))
        if self.variant == "exact" and self.size != self.dim * (self.dim + 1) // 2:
            raise ValueError(
                f"exact features of {self.dim} columns are {self.dim * (self.dim + 1) // 2}, not {self.size}"
            )
        if self.radius is not None:
            if isinstance(self.radius, bool) or not isinstance(self.radius, int | float | np.number):
                raise ValueError(f"radius must be a number, got {self.radius!r}")
            object.__setattr__(self, "radius", float(self.radius))
            if not 1e-90 < self.radius < 1e90:
                raise ValueError(f"radius must be positive and finite, got {self.radius!r}")
        if self.center is not None:
            self.center.flags.writeable = False

    # -- recipe ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        return {
            "dim": self.dim,
            "size": self.size,
            "variant": self.variant,
            "seed": self.seed,
            "radius": self.radius,
            "center": encode_array(self.center),
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> QuadraticFeatures:
        expected = {"dim", "size", "variant", "seed", "radius", "center"}
        if set(parameters) != expected:
            raise ValueError(f"fields of a quadratic recipe: {sorted(expected)}, got {sorted(parameters)}")
        p = dict(parameters)
        p["center"] = decode_array(p["center"], ((p["dim"],),), "center")
        phi = cls(**p)
        phi._validate()
        return phi

    # -- numbers -----------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        """Whether the features are all products of columns."""
        return self.variant == "exact"

    @property
    def paired(self) -> bool:
        """Whether a feature has two directions: number j and number ``size + j``."""
        return self.variant in ("complex", "difference")

    @cached_property
    def directions(self) -> npt.NDArray[np.int8]:
        """Integer directions, one per row: (size, dim), twice as many for complex and difference, none for exact."""
        if self._embedded is not None:
            drawn = self._embedded
        else:
            rows = 0 if self.is_exact else self.size * (1 + self.paired)
            drawn = np.empty((rows, self.dim), np.int8)
            flat, table, bits = drawn.reshape(-1), _normal_table(), portable.Bits(self.seed, 4)
            step = 2**22
            for i in range(0, flat.size, step):
                part = flat[i : i + step]
                words = bits.words(-(-part.size // 4)).astype("<u8", copy=False)
                part[:] = table[words.view("<u2")[: part.size]]
        check_fingerprint(self._expected, digest(drawn))
        drawn.flags.writeable = False
        return drawn

    def direction_operator(self) -> Operator:
        """Products with all directions."""
        return IntegerOperator(self.directions)

    @cached_property
    def squared_norms(self) -> npt.NDArray[np.float64]:
        """Squared lengths of the integer directions."""
        return kernel.squared_norms(self.directions)

    @cached_property
    def factors(self) -> npt.NDArray[np.float64]:
        """A feature is the sum over its one or two directions q of ``factor * (q·x)**2``; a factor per direction."""
        table = _normal_table().astype(np.float64)
        unit = 1.0 / float((table * table).mean())  # makes the entries of q standard
        if self.variant == "sphere":
            return 1.0 / self.squared_norms
        if self.variant == "gaussian":
            return np.full(self.size, unit)
        half = np.full(2 * self.size, 0.5 * unit)
        if self.variant == "difference":
            half[self.size :] *= -1.0
        return half

    @cached_property
    def _bounds(self) -> npt.NDArray[np.float64]:
        """What the squared projections of one unit of the grid are divided by, per direction."""
        if not self.paired:
            return self.squared_norms
        largest = np.maximum(self.squared_norms[: self.size], self.squared_norms[self.size :])
        return np.concatenate([largest, largest])

    @property
    def fingerprint(self) -> str:
        """Hash of the directions, carried by every sketch."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return self._expected or digest(self.directions)

    def random_array(self) -> npt.NDArray[Any]:
        return self.directions

    def with_random_array(self, array: npt.NDArray[Any]) -> QuadraticFeatures:
        rows = 0 if self.is_exact else self.size * (1 + self.paired)
        if array.shape != (rows, self.dim) or array.dtype != np.int8:
            raise ValueError(f"embedded directions are {array.dtype} {array.shape}, expected int8 {(rows, self.dim)}")
        return self._replace(_embedded=np.ascontiguousarray(array))

    def expecting(self, fingerprint: str) -> QuadraticFeatures:
        return self._replace(_expected=fingerprint)

    def _replace(self, **changes: Any) -> QuadraticFeatures:
        names = ("dim", "size", "variant", "seed", "radius", "center", "_expected", "_embedded")
        fields = {**{name: getattr(self, name) for name in names}, **changes}
        return cast(QuadraticFeatures, QuadraticFeatures(**fields).with_columns(self.columns))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.recipe(), self._expected, self._embedded)

    # -- features ----------------------------------------------------------------------------

    def __call__(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Features of a few rows, (n, size), in float64 and not rounded to the grid; clipped if there is a radius.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.QuadraticFeatures.draw(dim=2)([[2.0, 3.0]])
        array([[4., 6., 9.]])
        """
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        rows = rows - self._centre
        if self.radius is not None:
            length = np.sqrt((rows * rows).sum(1))
            rows = rows * (self.radius / np.maximum(length, self.radius))[:, None]
        return self._of_centred(rows)

    def _of_centred(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self.is_exact:
            i, j = np.triu_indices(self.dim)
            return rows[:, i] * rows[:, j]
        squares = kernel.project(self.directions, np.ascontiguousarray(rows.T)).T ** 2 * self.factors
        return squares[:, : self.size] + squares[:, self.size :] if self.paired else squares

    @cached_property
    def _centre(self) -> npt.NDArray[np.float64]:
        return np.zeros(self.dim) if self.center is None else self.center

    # -- sums --------------------------------------------------------------------------------

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """Features, then columns; without a radius pairs, and at the end the weight of the float32 rows."""
        return (2, self.size + self.dim + 1) if self.radius is None else (self.size + self.dim,)

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64 if self.radius is None else np.int64)

    @property
    def entry_bound(self) -> int | None:
        if self.radius is None:
            return None
        return 2 ** (2 * kernel.PRODUCT_BITS) if self.is_exact else 2 ** (kernel.GRID_BITS + 1)

    @property
    def row_cost(self) -> float:
        return 0.5 * self.dim * (self.dim + 10.0) if self.is_exact else super().row_cost * (1 + self.paired)

    @property
    def fewest_rows(self) -> int:
        # adding up pairs of all products costs as much as a hundred rows
        return max(960, 4 * self.dim, min(8160, 2**21 // self.dim)) if self.is_exact else 960

    @cached_property
    def _packed(self) -> kernel.PackedDirections:
        return kernel.pack(self.directions, self._bounds)

    def _groups(self) -> Iterator[kernel.PackedDirections]:
        """Directions ready for the kernel: all at once and for good, or, if they are many, some at a time."""
        if self.directions.size <= _KEPT_ENTRIES:
            yield self._packed
            return
        step = max(1, _GROUP_ENTRIES // self.dim)
        for i in range(0, len(self.directions), step):
            yield kernel.pack(self.directions[i : i + step], self._bounds[i : i + step])

    def sum_rows(
        self, X: npt.NDArray[np.floating], weights: npt.NDArray[np.int64] | None = None, skip_invalid: bool = False
    ) -> RowSums:
        if self.radius is None:
            if self.is_exact:
                return kernel.sum_products(X, self._centre, weights, skip_invalid)
            parts = [kernel.sum_squares(X, g, self._centre, weights, skip_invalid) for g in self._groups()]
        else:
            if self.is_exact:
                return kernel.sum_products_on_grid(X, self._centre, self.radius, weights, skip_invalid)
            grid = self._centre, self.radius, weights, skip_invalid
            parts = [kernel.sum_squares_on_grid(X, g, *grid) for g in self._groups()]
        part = parts[0]
        if part.first_invalid is not None:
            return part
        if len(parts) > 1:
            tail = self.dim + (self.radius is None)
            squares = [p.sums[..., :-tail] for p in parts]
            part = part.with_sums(np.concatenate([*squares, part.sums[..., -tail:]], axis=-1))
        if not self.paired:
            return part
        first, second, rest = np.split(part.sums, [self.size, 2 * self.size], axis=-1)
        sign = -1 if self.variant == "difference" else 1
        combined = self.add_sums(first, sign * second)
        return part.with_sums(np.concatenate([combined, rest], axis=-1))

    def add_sums(
        self, a: npt.NDArray[Any], b: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        return np.add(a, b, out=out) if self.radius is not None else kernel.add_pairs(a, b, out)

    def _averages(self, sums: npt.NDArray[Any], weight: float) -> tuple[_pairs.Pairs, _pairs.Pairs]:
        """Average squares or products and average rows about the centre, as pairs, in units of the data."""
        if self.radius is None:
            pairs = _pairs.quotient(sums[:, : self.size + self.dim], weight)
            return pairs[:, : self.size], pairs[:, self.size :]
        high = sums.astype(np.float64)
        # the high part of a large sum may round up to 2**63, which int64 can't hold
        low = (sums - np.minimum(high, 2.0**63 - 1024).astype(np.int64)).astype(np.float64)
        pairs = _pairs.quotient(_pairs.pair(np.minimum(high, 2.0**63 - 1024), low), weight)
        bits = kernel.PRODUCT_BITS if self.is_exact else kernel.GRID_BITS
        quadratic, linear = pairs[:, : self.size], pairs[:, self.size :] * 2.0**-bits
        if self.is_exact:
            quadratic = quadratic * 2.0 ** (-2 * bits)
        else:
            quadratic = _pairs.times(quadratic, self._bounds[: self.size] * 2.0**-bits)
        square = np.stack(_pairs.two_product(self.radius, self.radius))[:, None]
        return _pairs.product(quadratic, square), _pairs.times(linear, self.radius)

    @property
    def _feature_factors(self) -> npt.NDArray[np.float64] | float:
        return 1.0 if self.is_exact else np.abs(self.factors[: self.size])

    def mean_from_sums(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        quadratic, _ = self._averages(sums, weight)
        return np.asarray(quadratic[0] * self._feature_factors)

    def row_mean_from_sums(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Average row (of the clipped rows, if there is a radius)."""
        _, linear = self._averages(sums, weight)
        return np.asarray(linear[0] + self._centre)

    def centred_mean_from_sums(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Average features of the rows minus their mean: ``y - phi(mean)``.

        All products are centred with twice the digits of float64, so that a mean far from the origin costs nothing.
        """
        quadratic, linear = self._averages(sums, weight)
        if self.is_exact:
            i, j = np.triu_indices(self.dim)
            square = _pairs.product(linear[:, i], linear[:, j])
            return np.asarray(_pairs.add(quadratic, -square)[0])
        return np.asarray(quadratic[0] * self._feature_factors - self._of_centred(linear[:1])[0])

    def precision_from_sums(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Rounding error to expect in the variance of each column, (dim,): what can't be told from zero."""
        if self.radius is not None:
            step = self.radius * 2.0 ** -(kernel.PRODUCT_BITS if self.is_exact else 11)
            return np.full(self.dim, step * step / 12.0)
        eps = 2.0**-21 if not self.is_exact or sums[0, -1] > 0 else 2.0**-50
        diagonal = _diagonal(self.dim)
        centred = self.centred_mean_from_sums(sums, weight)
        variance = centred[diagonal] if self.is_exact else np.full(self.dim, np.abs(centred).mean())
        return np.asarray(eps * np.maximum(variance, 0.0))

    def feature_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variances of the features over rows, as they are for normal data with this mean and second moment."""
        quadratic, linear = self._averages(sums, weight)
        spread = self.centred_mean_from_sums(sums, weight)
        if self.is_exact:
            i, j = np.triu_indices(self.dim)
            v, m = np.maximum(spread[_diagonal(self.dim)], 0.0), linear[0]
            return np.asarray(v[i] * v[j] + spread**2 + v[i] * m[j] ** 2 + v[j] * m[i] ** 2 + 2 * spread * m[i] * m[j])
        if self.variant == "difference":
            # the two squares are not known apart: both have the expectation trace
            trace = float(self._trace(sums, weight))
            return np.full(self.size, trace * trace)
        s = np.maximum(spread, 0.0)
        about = np.maximum(quadratic[0] * self._feature_factors - spread, 0.0)
        # |a.x|^2 of a complex direction adds up two independent squares of half the size
        return np.asarray((2.0 * s**2 + 4.0 * s * about) / (2.0 if self.variant == "complex" else 1.0))

    def _trace(self, sums: npt.NDArray[Any], weight: float) -> float:
        y = self.mean_from_sums(sums, weight)
        # E y^2 of differences is the squared Frobenius norm, at most the squared trace
        return float(np.sqrt(np.mean(y * y)))

    def impossible(self, sums: npt.NDArray[Any], weight: int) -> str | None:
        if not np.isfinite(sums).all():
            return "some sums are not finite"
        if weight == 0:
            return None
        quadratic, linear = self._averages(sums, float(weight))
        y, m = quadratic[0], linear[0]
        limit = 1e-9 * float(np.abs(y).max(initial=0.0))
        if self.variant != "difference":
            squares = y[_diagonal(self.dim)] if self.is_exact else y
            if (squares < -limit).any():
                j = int(np.argmin(squares))
                return f"the average square of feature {j} would be {squares[j]:.4g} < 0"
        if self.is_exact:
            short = y[_diagonal(self.dim)] - m * m < -limit - 1e-9 * m * m
            if short.any():
                return f"the variance of column {int(np.argmax(short))} would be negative"
        if self.radius is not None and (np.abs(m) > self.radius * (1 + 1e-9)).any():
            return f"the mean would lie outside the ball of radius {self.radius:.6g}"
        return None

    def describe(self) -> str:
        bound = "" if self.radius is None else f", rows clipped to radius {self.radius:.6g}"
        return f"quadratic, {self.variant}{bound}, seed {self.seed}"

    def __repr__(self) -> str:
        extra = "" if self.radius is None else f", radius={self.radius:.6g}"
        extra += "" if self.center is None else ", center=..."
        return f"QuadraticFeatures(dim={self.dim}, size={self.size}, variant={self.variant}, seed={self.seed}{extra})"


def _diagonal(dim: int) -> npt.NDArray[np.intp]:
    """Places of the squares of the columns in a triangle kept row by row."""
    rows = np.arange(dim)
    return rows * dim - rows * (rows - 1) // 2


def _rebuild(recipe: dict[str, Any], expected: str | None, embedded: npt.NDArray[np.int8] | None) -> FeatureMap:
    phi = FeatureMap.from_recipe(recipe)
    phi = phi if embedded is None else phi.with_random_array(embedded)
    return phi if expected is None else phi.expecting(expected)
