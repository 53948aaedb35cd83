"""Noise for sums of products of columns without delta: a symmetric matrix whose law knows the cone of such sums.

What a row r adds to the products, with its columns and the number of rows, is one matrix ``S = (r, s)(r, s)'``:
positive semidefinite, of trace at most ``T = N**2 + s**2``.  The noise is ``W = A - B`` for independent A, B with
density ``exp(-epsilon tr(A) / T)`` on the cone of such matrices of D columns (Wishart, D + 1 degrees of freedom).

Pure epsilon.  Put t = epsilon / T.  The density of W is ``f(W) = c exp(t tr W) I(W)``, where ``I(W)`` integrates
``exp(-2 t tr A)`` over all A with ``A >= 0`` and ``A >= W``.  For ``S >= 0`` whatever is above W is above ``W - S``, so
``I(W - S) >= I(W)`` and ``f(W - S) >= exp(-t tr S) f(W)``.  And f is even, so ``f(W) = f(-W) = f((S - W) - S) >=
exp(-t tr S) f(S - W) = exp(-t tr S) f(W - S)``.  Both ratios are at most ``exp(t tr S) <= exp(epsilon)``.  Of one row
for another the difference is that of two such matrices, and of several rows their sum: traces add up.  In one column
this is Laplace noise; in D columns its largest eigenvalue grows like D, that of Laplace noise entry by entry like
``D**1.5``.

Integers.  S is a matrix of integers.  Rounding ``S + W`` is post-processing, and gives S plus the rounded W: so it is
enough to draw real noise and to round every entry *exactly*.  Normal variables (of the polar method, from the operating
system's bits) are computed in decimal arithmetic to an error that is known, products and sums in whole numbers.  An
entry that is so near a half that its rounding is not certain gets more random bits, of the same uniform numbers: the
result is that of real numbers.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Ints
from sketchlearn.privacy import noise

LARGEST = 512
"""Columns up to which noise takes seconds: two normal variables for every entry of a matrix."""
LARGEST_SCALE = 2.0**52
"""Of the noise times the number of columns: entries then leave int64 with a probability below 2**-2000."""
_BITS, _MORE = 88, 64  # of the fraction of a normal variable, and how many are added where rounding is not certain
_EXTRA = 52  # bits of its uniform numbers beyond that
_LIMB = 20  # bits of a part: sums of products of parts are exact in float64
_FARTHEST = 64  # no normal variable of 140 random bits is larger


def variances(dim: int, scale: float) -> tuple[float, float]:
    """Variance of diagonal and of other entries of the noise of `dim` columns."""
    return 4.0 * (dim + 1) * scale**2, 2.0 * (dim + 1) * scale**2


def count_tail(dim: int, scale: float, chance: float) -> float:
    """A number that an entry of the diagonal exceeds with a probability of at most `chance` (Chernoff).

    Examples
    --------
    >>> from sketchlearn.privacy.matrices import count_tail
    >>> count_tail(2, 1.0, 1e-6) < 40.0
    True
    """
    # the logarithm of E exp(x W) is -(D + 1) / 2 log(1 - 4 x**2 scale**2); any x below its pole gives a bound
    needed = -math.log(chance)
    poles = np.linspace(0.001, 0.999, 999) / (2.0 * scale)
    return float(((needed - 0.5 * (dim + 1) * np.log1p(-4.0 * (poles * scale) ** 2)) / poles).min())


def draw(n: int, dim: int, scale: float) -> Ints:
    """Rounded noise of n matrices of `dim` columns, ``scale (Y'Y - Z'Z)`` for normal Y, Z of dim + 1 rows.

    Examples
    --------
    >>> from sketchlearn.privacy.matrices import draw
    >>> noise = draw(3, 2, 1e6)
    >>> noise.shape, bool((noise == noise.swapaxes(1, 2)).all()), bool(abs(noise).max() < 1e9)
    ((3, 2, 2), True, True)
    """
    if not scale * dim < LARGEST_SCALE:
        raise OverflowError(f"noise of scale {scale:.3g} does not fit 64-bit sums: fewer columns, or a larger epsilon")
    rows = 2 * (dim + 1)
    signs = np.repeat([1.0, -1.0], dim + 1)
    seeded = noise.seeded()
    if seeded is not None:
        z = seeded.normal(size=(n, rows, dim))
        return np.rint(scale * (np.swapaxes(z, 1, 2) * signs) @ z).astype(np.int64)
    pairs = _accepted(-(-n * rows * dim // 2))
    bits = _BITS
    while True:
        normal = np.array([z for pair in pairs for z in pair.normals(bits)][: n * rows * dim], object)
        found = _rounded(normal.reshape(n, rows, dim), signs, bits, Fraction(scale))
        if found is not None:
            return found
        bits += _MORE


class _Pair:
    """Two normal variables of one point of the unit disc, whose bits grow as they are needed."""

    __slots__ = ("bits", "u", "v")

    def __init__(self, u: int, v: int, bits: int) -> None:
        self.u, self.v, self.bits = u, v, bits

    def grow(self, bits: int) -> None:
        """More random bits of both coordinates: they are in [u, u + 1) and [v, v + 1) units of 2**-bits."""
        more = bits - self.bits
        drawn = int.from_bytes(os.urandom(-(-more // 4)), "little")
        self.u = (self.u << more) | (drawn & ((1 << more) - 1))
        self.v = (self.v << more) | ((drawn >> more) & ((1 << more) - 1))
        self.bits = bits

    def inside(self) -> bool:
        """Whether the point is in the open unit disc, by as many bits as it takes."""
        while True:
            one = 1 << 2 * self.bits
            ends = [(abs(a), abs(a + 1)) for a in (self.u, self.v)]
            if sum(max(pair) ** 2 for pair in ends) < one:
                return True
            if sum(min(pair) ** 2 for pair in ends) >= one:
                return False
            self.grow(self.bits + _MORE)

    def normals(self, bits: int) -> tuple[int, int]:
        """Both variables in units of ``2**-bits``, off by less than two of them.

        With r the length of the point and ``g = sqrt(-2 log r**2)`` they are g u / r and g v / r.  A change of
        both coordinates by h moves them by at most ``h (2 g + 4 / g) / r`` at the point, and by less than twice that
        nearby: so many bits are drawn that this is below half a unit.
        """
        need = bits + _EXTRA
        while True:
            if self.bits < need:
                self.grow(need)
            with decimal.localcontext() as context:
                context.prec = 15 + int(0.31 * need)
                unit = decimal.Decimal(2) ** -(self.bits + 1)
                u, v = (2 * self.u + 1) * unit, (2 * self.v + 1) * unit
                s = u * u + v * v
                if 0 < s < 1:
                    g = (-2 * s.ln()).sqrt()
                    factor = g / s.sqrt()
                    if unit * (4 * g + 8 / g) < s.sqrt() * decimal.Decimal(2) ** -(bits + 1):
                        scale = factor * decimal.Decimal(2) ** bits
                        return int((u * scale).to_integral_value()), int((v * scale).to_integral_value())
            need += _MORE


def _accepted(n: int) -> list[_Pair]:
    """Points uniform in the unit disc."""
    found: list[_Pair] = []
    while len(found) < n:
        for u, v in _squares(int(1.3 * (n - len(found))) + 8):
            pair = _Pair(u, v, 63)
            if pair.inside():
                found.append(pair)
    return found[:n]


def _squares(n: int) -> Iterator[tuple[int, int]]:
    """Points uniform in the square from -1 to 1: the first 63 bits of their coordinates, and a sign."""
    words = np.frombuffer(os.urandom(16 * n), "<i8").reshape(2, n)
    return zip(words[0].tolist(), words[1].tolist(), strict=True)


def _rounded(normal: npt.NDArray[np.object_], signs: Array, bits: int, scale: Fraction) -> Ints | None:
    """Rounded ``scale * normal' signs normal``, or None if an entry is too near a half to tell."""
    _n, rows, _dim = normal.shape
    whole = _products(normal, signs)
    # each factor is off by less than 2 units, and below _FARTHEST
    off = rows * (4 * (_FARTHEST << bits) + 4)
    up, down = scale.numerator, scale.denominator << 2 * bits
    low, high = ((2 * up * (whole + move) + down) // (2 * down) for move in (-off, off))
    if (low != high).any():
        return None
    return np.clip(low, -(2**62), 2**62).astype(np.int64)


def _products(normal: npt.NDArray[np.object_], signs: Array) -> npt.NDArray[np.object_]:
    """``normal' signs normal`` of whole numbers of any size, by parts whose products are exact in float64."""
    n, rows, dim = normal.shape
    parts, rest = [], normal.ravel()
    while True:
        last = bool((np.abs(rest) < 2 ** (_LIMB - 1)).all())
        part = rest if last else rest & (2**_LIMB - 1)
        parts.append(part.astype(np.float64).reshape(n, rows, dim))
        if last:
            break
        rest = rest >> _LIMB
    total = np.zeros((n, dim, dim), object)
    for i, a in enumerate(parts):
        for j, b in enumerate(parts):
            exact = (np.swapaxes(a, 1, 2) * signs) @ b
            total += exact.astype(np.int64).astype(object) << _LIMB * (i + j)
    return total
