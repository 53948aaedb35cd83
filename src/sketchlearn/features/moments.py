"""How averages are read off the sums of squares or products: for any map that sums the second moment."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array, Index
from sketchlearn.features.second_moment import SecondMomentMap
from sketchlearn.kernels import GRID_BITS, PRODUCT_BITS, pairs


class MomentSums(SecondMomentMap):
    """Sums of squares along directions, or of products of columns, followed by the sums of the columns.

    With a radius they are integers; without one pairs of float64, and at the end the weight of the float32 rows.
    """

    variant: str

    @property
    @abstractmethod
    def _centre(self) -> Array:
        """The point that was subtracted from the rows."""

    @property
    @abstractmethod
    def _bounds(self) -> Array:
        """What the squares on the grid were divided by, per direction."""

    @abstractmethod
    def _of_centred(self, rows: Array) -> Array:
        """Features of rows from which the centre is subtracted already."""

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
        return 2 ** (2 * PRODUCT_BITS) if self.is_exact else 2 ** (GRID_BITS + 1)

    def add_sums(self, a: AnyArray, b: AnyArray, out: AnyArray | None = None) -> AnyArray:
        return super().add_sums(a, b, out) if self.radius is not None else pairs.add_large(a, b, out)

    def _averages(self, sums: AnyArray, weight: float) -> tuple[pairs.Pairs, pairs.Pairs]:
        """Average squares or products and average rows about the centre, as pairs, in units of the data."""
        if self.radius is None:
            averages = pairs.quotient(sums[:, : self.size + self.dim], weight)
            return averages[:, : self.size], averages[:, self.size :]
        high = sums.astype(np.float64)
        # the high part of a large sum may round up to 2**63, which int64 can't hold
        low = (sums - np.minimum(high, 2.0**63 - 1024).astype(np.int64)).astype(np.float64)
        averages = pairs.quotient(pairs.pair(np.minimum(high, 2.0**63 - 1024), low), weight)
        bits = PRODUCT_BITS if self.is_exact else GRID_BITS
        quadratic, linear = averages[:, : self.size], averages[:, self.size :] * 2.0**-bits
        if self.is_exact:
            quadratic = quadratic * 2.0 ** (-2 * bits)
        else:
            quadratic = pairs.times(quadratic, self._bounds[: self.size] * 2.0**-bits)
        square = np.stack(pairs.two_product(self.radius, self.radius))[:, None]
        return pairs.product(quadratic, square), pairs.times(linear, self.radius)

    @property
    def _feature_factors(self) -> Array | float:
        return 1.0 if self.is_exact else np.abs(self.factors[: self.size])

    def mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        quadratic, _ = self._averages(sums, weight)
        return np.asarray(quadratic[0] * self._feature_factors)

    def _noise_of_mean(self, sums_variance: Array) -> Array:
        unit = np.asarray(self._feature_factors)
        if self.radius is not None:
            grid = 4.0**-PRODUCT_BITS if self.is_exact else self._bounds[: self.size] * 2.0**-GRID_BITS
            unit = unit * grid * self.radius**2
        # of pairs the first parts carry the noise
        return np.asarray(np.atleast_2d(sums_variance)[0, : self.size] * unit**2)

    def row_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average row (of the clipped rows, if there is a radius)."""
        _, linear = self._averages(sums, weight)
        return np.asarray(linear[0] + self._centre)

    def centred_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average features of the rows minus their mean: ``y - phi(mean)``.

        All products are centred with twice the digits of float64, so that a mean far from the origin costs nothing.
        """
        quadratic, linear = self._averages(sums, weight)
        if self.is_exact:
            out, at = np.empty(self.size), 0
            for i, count in enumerate(range(self.dim, 0, -1)):  # row by row: pairs of all products are many numbers
                square = pairs.product(linear[:, i : i + 1], linear[:, i:])
                out[at : at + count] = pairs.add(quadratic[:, at : at + count], -square)[0]
                at += count
            return out
        return np.asarray(quadratic[0] * self._feature_factors - self._of_centred(linear[:1])[0])

    def precision_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Rounding error to expect in the variance of each column, (dim,): what can't be told from zero."""
        if self.radius is not None:
            step = self.radius * 2.0 ** -(PRODUCT_BITS if self.is_exact else 11)
            return np.full(self.dim, step * step / 12.0)
        eps = 2.0**-21 if not self.is_exact or sums[0, -1] > 0 else 2.0**-50
        diagonal = _diagonal(self.dim)
        centred = self.centred_mean_from_sums(sums, weight)
        variance = centred[diagonal] if self.is_exact else np.full(self.dim, np.abs(centred).mean())
        return np.asarray(eps * np.maximum(variance, 0.0))

    def feature_variances(self, sums: AnyArray, weight: float) -> Array:
        """Variances of the features over rows, as they are for normal data with this mean and second moment."""
        with np.errstate(over="ignore", invalid="ignore"):  # rows of 1e80 have features whose variance is no number
            return np.nan_to_num(self._variances(sums, weight), nan=_LARGEST, posinf=_LARGEST)

    def _variances(self, sums: AnyArray, weight: float) -> Array:
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

    def _trace(self, sums: AnyArray, weight: float) -> float:
        y = self.mean_from_sums(sums, weight)
        # E y^2 of differences is the squared Frobenius norm, at most the squared trace
        return float(np.sqrt(np.mean(y * y)))

    def impossible(self, sums: AnyArray, weight: int) -> str | None:
        if not np.isfinite(sums).all():
            return "some sums are not finite"
        if weight == 0:
            return None if self.radius is None or not sums.any() else "no rows have sums"
        found = super().impossible(sums, weight)
        if found is not None:
            return found
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


def _diagonal(dim: int) -> Index:
    """Places of the squares of the columns in a triangle kept row by row."""
    rows = np.arange(dim)
    return rows * dim - rows * (rows - 1) // 2


_LARGEST = 1e300
