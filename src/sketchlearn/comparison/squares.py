"""The law of a sum of squares of independent normals with weights: what distances of sketches follow by noise alone.

``P(Q > q)`` is ``1 / (2 pi i)`` times the integral of ``exp(K(s) - s q) / s`` from below to above, to the right of 0
and to the left of the first branch point, where ``K(s) = -1/2 sum log(1 - 2 s w_i)`` (Rice, SIAM J. Sci. Stat. Comput.,
1980).  The path goes through the saddlepoint of the integrand and bends to the right, where ``exp(-s q)`` falls: a sum
over a few dozen points has all digits, near the mean and as far out as there are numbers.  No moments are matched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array

_LITTLE = 1e-7  # of the largest product of two: there are thousands of smaller ones
_NONE = 1e-12  # of the largest weight: smaller ones are rounding, or add nothing
_POINTS, _REACH, _STEP = 80, 6.5, 0.7  # of the path: their number, how far, and the unit near the saddlepoint
_BEND = 0.05  # least curvature of the path, times its unit
_SLOPE = 0.8  # of the path far out: below 1 the part of many small weights, which is normal, falls on it too
_NOTHING = 45.0  # logarithm of the largest value over one that adds nothing
_LOG_TINY = -745.0  # below it a probability is 0


@dataclass(frozen=True, eq=False)
class SumOfSquares:
    """A sum of squares of independent standard normals, with weights.

    `weights`: positive, in falling order; none for a sum that is 0. `freedom`: how many squares have each weight, whole
    or not (a chi-square law); by default one each.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.comparison.squares import SumOfSquares
    >>> law = SumOfSquares(np.ones(2))  # exponential, with mean 2
    >>> bool(np.isclose(law.tail(40.0), np.exp(-20.0))), round(law.limit(np.exp(-5.0)), 6)
    (True, 10.0)
    """

    weights: Array
    freedom: Array | None = None

    @property
    def _freedom(self) -> Array:
        return np.ones(len(self.weights)) if self.freedom is None else self.freedom

    @classmethod
    def of(cls, covariance: Array) -> SumOfSquares:
        """Of the squared length of a normal vector with this covariance."""
        values: Array = np.linalg.eigvalsh(covariance)[::-1].astype(np.float64)
        return cls(values[values > _NONE * max(float(values[0]), 0.0)] if len(values) else values)

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.weights @ self._freedom)

    @property
    def variance(self) -> float:
        """Its variance."""
        return 2.0 * float(self.weights**2 @ self._freedom)

    def product(self, other: SumOfSquares) -> SumOfSquares:
        """With the products of a weight of this and a weight of the other."""
        weights = np.sort(np.outer(self.weights, other.weights).ravel())[::-1]
        return SumOfSquares(weights[weights > _LITTLE * weights[:1].sum()])

    def plus(self, variance: float, skewness: float) -> SumOfSquares:
        """The sum with another, independent variable: a chi-square law with this variance and skewness.

        Its mean is there too: what has a mean of 0 is this less the :attr:`mean` that it adds.
        """
        freedom = 8.0 / skewness**2
        weights = np.append(self.weights, np.sqrt(0.5 * variance / freedom))
        order = np.argsort(-weights)
        return SumOfSquares(weights[order], np.append(self._freedom, freedom)[order])

    def scaled(self, factor: float) -> SumOfSquares:
        """The sum times a factor."""
        return SumOfSquares(self.weights * factor, self.freedom)

    def steeper(self, squares: float) -> SumOfSquares:
        """Of the same mean, with weights that fall faster, by one factor each, so that their squares sum to more."""
        if not len(self.weights):
            return self
        wanted = (self.weights @ self.weights + squares) / self.mean**2
        low, high = 0.0, 1.0
        for _ in range(50):
            factor = 0.5 * (low + high)
            shares = self.weights * factor ** np.arange(len(self.weights))
            low, high = (low, factor) if shares @ shares < wanted * shares.sum() ** 2 else (factor, high)
        return SumOfSquares(shares[shares > _NONE * shares[0]] * (self.mean / shares.sum()))

    def tail(self, statistic: float) -> float:
        """P(Q > statistic)."""
        if statistic <= 0 or not len(self.weights):
            return float(statistic <= 0)
        unit = float(self.weights[0])
        return _tail(self.weights / unit, self._freedom, statistic / unit)

    def limit(self, alpha: float) -> float:
        """What Q exceeds with probability `alpha`: the inverse of :meth:`tail`."""
        if not len(self.weights):
            return 0.0
        from scipy.optimize import brentq  # slow to import

        high = self.mean
        while self.tail(high) > alpha:
            high *= 2.0
        return float(brentq(lambda q: np.log(self.tail(q) / alpha), 1e-9 * high, high, rtol=1e-9))


def _tail(weights: Array, freedom: Array, q: float) -> float:
    """P(Q > q) for weights of which the largest is 1: beyond the mean itself, before it 1 - P(Q < q)."""
    side = 1.0 if q > weights @ freedom else -1.0
    # the slope of the exponent falls with the distance of the saddlepoint from 0, to both sides
    low, high = 0.0, 0.5 if side > 0 else (0.5 * freedom.sum() + 1.0) / q
    for _ in range(60):
        distance = 0.5 * (low + high)
        z = side * distance
        further = side * (float((weights / (1.0 - 2.0 * z * weights)) @ freedom) - 1.0 / z - q) < 0
        low, high = (distance, high) if further else (low, distance)
    relative = weights / (1.0 - 2.0 * z * weights)
    second = 2.0 * float(relative**2 @ freedom) + 1.0 / z**2
    third = 8.0 * float(relative**3 @ freedom)  # of K alone: 1/s is no reason to bend
    unit = 1.0 / np.sqrt(second)
    bend = max(third / (6.0 * second), _BEND / unit)
    t = np.linspace(0.0, _REACH, _POINTS)
    y = _STEP * unit * np.sinh(t)
    far = _SLOPE / (2.0 * bend)  # where the hyperbola has turned into a line
    root = np.sqrt(1.0 + (y / far) ** 2)
    s = z + _SLOPE * far * (root - 1.0) + 1j * y
    exponent = -0.5 * np.log(1.0 - 2.0 * s[:, None] * weights) @ freedom - s * q - np.log(side * s)
    top = float(exponent[0].real)
    kept = exponent.real > top - _NOTHING
    values = (np.exp(exponent[kept] - top) * (1.0 - 2j * bend * y / root)[kept]).real * np.cosh(t[kept])
    total = (float(values.sum()) - 0.5 * float(values[0])) * _STEP * unit * (t[1] - t[0]) / np.pi
    logarithm = top + np.log(total)
    found = float(np.exp(logarithm)) if logarithm > _LOG_TINY else 0.0
    return found if side > 0 else max(1.0 - found, 0.0)
