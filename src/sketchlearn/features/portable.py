"""Arithmetic that gives the same bits everywhere.

Random frequencies must be redrawn bit for bit on any machine.  ``log``, ``exp`` and LAPACK differ in
the last bits between platforms; addition, multiplication, division and square root of IEEE numbers
don't.  So everything from the random bits to the frequencies is built from those four, elementwise
and in a fixed order: no BLAS, no ``np.sum`` (whose order of summation depends on the processor).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Index

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SQRT_HALF = 0.7071067811865476


class Bits:
    """Independent streams of random bits named by (seed, stream): the raw output of Philox-4x64."""

    def __init__(self, seed: int, stream: int) -> None:
        # the 128-bit key is [seed, stream]; no SeedSequence, no Generator
        self._source = np.random.Philox(key=(int(stream) << 64) | int(seed))

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """n words of 64 random bits."""
        return np.asarray(self._source.random_raw(n), np.uint64)

    def uniforms(self, n: int) -> Array:
        """n numbers in (0, 1): multiples of 2**-53 plus half of one."""
        return ((self.words(n) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def normals(self, n: int) -> Array:
        """n standard normal numbers."""
        return normal_quantile(self.uniforms(n))

    def permutation(self, n: int) -> Index:
        """A random order of n things."""
        return np.argsort(self.words(n), kind="stable")


def log(x: Array) -> Array:
    """Natural logarithm of positive numbers, to about 1e-16 relative."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < _SQRT_HALF
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    power = np.where(small, exponent - 1, exponent).astype(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    s2 = s * s
    series = np.zeros_like(s)
    for odd in range(23, 1, -2):  # atanh(s) = s + s^3/3 + ...; |s| < 0.172
        series = s2 * (series + 1.0 / odd)
    return power * _LN2_HIGH + (power * _LN2_LOW + (2.0 * s * series + 2.0 * s))


def exp(x: Array) -> Array:
    """Exponential, to about 1e-16 relative; underflows to 0 below -745."""
    clipped = np.clip(x, -745.0, 709.0)
    n = np.rint(clipped * 1.4426950408889634)
    r = (clipped - n * _LN2_HIGH) - n * _LN2_LOW
    series = np.ones_like(r)
    for k in range(15, 0, -1):
        series = 1.0 + r * series / k
    return np.where(x < -745.0, 0.0, np.ldexp(series, n.astype(np.int64)))


def normal_quantile(u: Array) -> Array:
    """Inverse of the normal distribution function (Wichura 1988, AS 241, about 1e-16)."""
    q = u - 0.5
    tail = np.sqrt(-log(np.where(q < 0, u, 1.0 - u)))
    out = np.where(
        tail <= 5.0,
        _ratio(tail - 1.6, _AS241_C, _AS241_D),
        _ratio(tail - 5.0, _AS241_E, _AS241_F),
    )
    out = np.where(q < 0, -out, out)
    central = np.abs(q) <= 0.425
    inner = np.where(central, 0.180625 - q * q, 0.0)
    return np.where(central, q * _ratio(inner, _AS241_A, _AS241_B), out)


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    out = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out


def _ratio(x: Array, top: tuple[float, ...], bottom: tuple[float, ...]) -> Array:
    return _horner(x, top) / _horner(x, bottom)


_AS241_A = (
    3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
_AS241_B = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
)  # fmt: skip
_AS241_C = (
    1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
    1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
_AS241_D = (
    1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
)  # fmt: skip
_AS241_E = (
    6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
)  # fmt: skip
_AS241_F = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
)  # fmt: skip


def total(x: Array) -> Array:
    """Sum over the last axis by halving: a fixed tree, unlike ``np.sum``."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        pairs = x[..., :half] + x[..., half : 2 * half]
        x = np.concatenate([pairs, x[..., 2 * half :]], -1) if x.shape[-1] % 2 else pairs
    return x[..., 0]


def orthonormalize(rows: Array) -> Array:
    """Gram-Schmidt (modified) on the rows of each matrix in a stack (..., r, d), r <= d."""
    rows = rows.copy()
    for i in range(rows.shape[-2]):
        row = rows[..., i, :]
        row /= np.sqrt(total(row * row))[..., None]
        rest = rows[..., i + 1 :, :]
        if rest.shape[-2]:
            rest -= total(rest * row[..., None, :])[..., None] * row[..., None, :]
    return rows


_NODES = (0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363)
_WEIGHTS = (0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763)
_STEPS: Array = np.ravel([(-node, node) for node in _NODES])
_TOGETHER = 2048  # quantiles that are found together: their numbers stay in the cache


class TabulatedLaw:
    """A radial density on [0, upper] given up to a constant; quantiles and second moment to about 1e-13.

    The distribution function is tabulated by 8-point Gauss-Legendre quadrature on equal panels; a
    quantile is found by Newton steps inside its panel, where the same quadrature is applied.
    """

    def __init__(self, density, upper: float, panels: int = 512) -> None:  # type: ignore[no-untyped-def]
        self._density, self._width = density, upper / panels
        self._left: Array = np.arange(panels, dtype=np.float64) * np.float64(self._width)
        mass = self._integral(self._left, self._left + self._width, 0)
        self._cdf = np.concatenate([[0.0], np.cumsum(mass)])
        second = np.cumsum(self._integral(self._left, self._left + self._width, 2))
        self.second_moment = float(second[-1] / self._cdf[-1])

    def _integral(self, a: Array, b: Array, power: int) -> Array:
        middle, half = (a + b) * 0.5, (b - a) * 0.5
        x = middle + half * _STEPS[:, None]  # all nodes at once; they are added up one after the other
        values = self._density(x) * (x * x if power == 2 else 1.0)
        out: Array = np.zeros_like(middle)
        for weight, value in zip(np.repeat(_WEIGHTS, 2), values, strict=True):
            out = out + weight * value
        return out * half

    def quantile(self, u: Array) -> Array:
        """Radius below which a fraction u of the law lies."""
        flat = np.ravel(u)
        out = np.empty(flat.shape)
        for i in range(0, len(flat), _TOGETHER):
            out[i : i + _TOGETHER] = self._quantile(flat[i : i + _TOGETHER])
        return out.reshape(np.shape(u))

    def _quantile(self, u: Array) -> Array:
        target = u * self._cdf[-1]
        panel = np.clip(np.searchsorted(self._cdf, target, side="right") - 1, 0, len(self._left) - 1)
        left, base = self._left[panel], self._cdf[panel]
        low, high = left, left + self._width
        x = (low + high) * 0.5
        out, moving = x.copy(), np.arange(x.size)
        for _ in range(60):
            excess = base + self._integral(left, x, 0) - target
            low, high = np.where(excess > 0, low, x), np.where(excess > 0, x, high)
            density = self._density(x)
            step = x - excess / np.where(density > 0, density, 1.0)
            inside = (density > 0) & (step > low) & (step < high)
            new = np.where(inside, step, (low + high) * 0.5)
            out[moving] = new
            still = np.flatnonzero(new != x)  # (what stays once stays for good)
            if not len(still):
                break
            moving, x = moving[still], new[still]
            base, left, target, low, high = (part[still] for part in (base, left, target, low, high))
        return out
