"""How far one person can move the sums of a sketch: whole numbers, computed without rounding.

The sums of a sketch are integers, so what one row adds to them is an integer vector.  A *reach* bounds its length: the
sum of its absolute entries, the sum of their squares and, for features that come as cosine and sine, the sum of the
lengths of these pairs.  Two reaches belong to a map: of one row that is added or removed, and of one row that is
replaced by another.

A kind of map that is not known here gives its own bounds by a method ``row_bounds()``, or registers a function with
:func:`register_bounds`.  Bounds are valid for *every* row, whatever the frequencies: never an average, never a high
probability.  That rules out features kept by independent coin flips (a row may keep all of them), and allows a group of
`r` of them (:func:`phase_bounds` with r kept features).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from sketchlearn.arrays import Ints
from sketchlearn.exceptions import PUBLIC, UnboundedError
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.phases import PhaseMap
from sketchlearn.kernels import GRID_BITS
from sketchlearn.privacy.split import count_multiplier

RELATIONS = ("add-remove", "replace-one")

PAIR_SQUARED = 2**44 + 10_052_744
"""Largest square of the length of a rounded (cosine, sine), in units of the grid.

Of float32 phases by exhaustion: all 1 056 964 609 remainders in [0, 1/2] were tried (the tests do it again).  Of
float64 phases each part is within 0.501 units of the circle of radius 2**22, so the square is below
``(2**22 + 0.71)**2``.
"""
PAIR_L1 = 5_931_642
"""Largest sum of the absolute values of both, by the same arguments; sqrt(2) * 2**22 is 5 931 641.6."""


@dataclass(frozen=True)
class Reach:
    """How far something moves the sums (each times its multiplier).

    `l1`: sum of absolute values. `l2_squared`: sum of squares. `circular`: sum over pairs of entries of their Euclidean
    length, for sums that come in pairs.
    """

    l1: int
    l2_squared: int
    circular: int | None = None

    def times(self, records: int) -> Reach:
        """Of so many rows at once."""
        circular = None if self.circular is None else records * self.circular
        return Reach(records * self.l1, records**2 * self.l2_squared, circular)


@dataclass(frozen=True)
class MatrixReach:
    """How far one row moves ``(r, s)(r, s)'``: its products, its columns times a constant, and the constant squared.

    `columns`: of the matrix: one more than the row has. `constant`: the constant s, in the units of the row. `trace`:
    largest trace of what a row adds; a row that becomes another moves the matrix by twice as much.
    """

    columns: int
    constant: int
    trace: int

    def moved(self, relation: str, records_per_user: int) -> int:
        """By one person, in trace norm."""
        return self.trace * records_per_user * (1 if relation == "add-remove" else 2)


@dataclass(frozen=True)
class Bounds:
    """Reaches of one row of a map.

    `added`, `replaced`: of a row that comes or goes, and of a row that becomes another one. `multipliers`: runs of
    (length, multiplier), (int, int): entries of different size are multiplied by whole numbers before noise of one size
    is added, and divided afterwards. `proof`: which bound was used. `matrix`: of all products of columns: how far a row
    moves them as a matrix.
    """

    added: Reach
    replaced: Reach
    multipliers: tuple[tuple[int, int], ...]
    proof: str
    matrix: MatrixReach | None = None

    def multiplier_array(self) -> Ints:
        """One multiplier per entry of the flattened sums."""
        return np.repeat(*np.array([(m, n) for n, m in self.multipliers], np.int64).T)


_BOUNDS: dict[str, Callable[[FeatureMap], Bounds]] = {}


def register_bounds(kind: str) -> Callable[[Callable[[FeatureMap], Bounds]], Callable[[FeatureMap], Bounds]]:
    """Make known what one row of a kind of map can add to the sums."""

    def keep(function: Callable[[FeatureMap], Bounds]) -> Callable[[FeatureMap], Bounds]:
        _BOUNDS[kind] = function
        return function

    return keep


def row_bounds(features: FeatureMap) -> Bounds:
    """What one row of this map can add to the sums; TypeError if nobody knows.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.privacy.sensitivity import row_bounds
    >>> row_bounds(sl.FourierFeatures.draw(dim=2, size=3, scale=1.0, seed=0)).added.l1 / 2**22
    4.242640972137451
    """
    if features.sums_dtype != np.int64:
        raise UnboundedError(
            f"{features.kind} features have no bound, so no noise would hide a row: design the map with public ",
            PUBLIC,
            ", or draw it with a public radius, so that rows are clipped",
        )
    own = getattr(features, "row_bounds", None)
    if callable(own):
        found = own()
        if not isinstance(found, Bounds):
            raise TypeError(f"row_bounds() of {features.kind} features must return Bounds, got {type(found).__name__}")
        return found
    if features.kind not in _BOUNDS:
        raise TypeError(
            f"no sensitivity is known of {features.kind} features: it must be proven and registered before a release"
        )
    return _BOUNDS[features.kind](features)


def reach(bounds: Bounds, relation: str, records_per_user: int) -> Reach:
    """How far one person with so many rows can move the sums.

    Examples
    --------
    >>> from sketchlearn.privacy.sensitivity import phase_bounds, reach
    >>> one, two = (reach(phase_bounds(100), "add-remove", records) for records in (1, 2))
    >>> two.l1 / one.l1, two.l2_squared / one.l2_squared
    (2.0, 4.0)
    """
    if relation not in RELATIONS:
        raise ValueError(f"relation={relation!r}: choose one of {', '.join(RELATIONS)}")
    return (bounds.added if relation == "add-remove" else bounds.replaced).times(records_per_user)


def phase_bounds(kept: int, groups: int = 1, size: int | None = None) -> Bounds:
    """Bounds of rounded pairs (cosine, sine) of modulus 1, of which a row contributes at most `kept`.

    ``|cos| + |sin| <= sqrt(2)`` and ``cos**2 + sin**2 = 1`` at any phase, so the bounds don't depend on frequencies;
    they are reached (up to rounding) where frequencies are independent over the rationals.  The difference of two
    such vectors is at most twice as long.

    With several `groups`, a row adds to the features of one group and 1 to its number of rows, which comes after the
    `size` pairs.  Which group follows from the row alone, and the bounds hold for all of them.

    Examples
    --------
    >>> from sketchlearn.privacy.sensitivity import phase_bounds
    >>> phase_bounds(10).replaced.l2_squared == 4 * phase_bounds(10).added.l2_squared
    True
    """
    added = Reach(kept * PAIR_L1, kept * PAIR_SQUARED, kept * _sqrt_up(PAIR_SQUARED))
    return _grouped(added, added.times(2), kept, groups, size, "modulus 1 at any phase, rounding by exhaustion")


def sign_bounds(kept: int, groups: int = 1, size: int | None = None) -> Bounds:
    """Bounds for features of one bit: pairs of 0 or 1.

    Two such pairs differ by at most 1 in each entry: replacing a row reaches no further than adding one, as long as
    both are in the same group.

    Examples
    --------
    >>> from sketchlearn.privacy.sensitivity import sign_bounds
    >>> sign_bounds(10).added.l1, sign_bounds(10).added.l2_squared
    (20, 20)
    """
    added = Reach(2 * kept, 2 * kept, _sqrt_up(2 * kept**2))
    replaced = added if groups == 1 else Reach(2 * added.l1, 2 * added.l2_squared)
    return _grouped(added, replaced, kept, groups, size, "two bits per feature")


def _grouped(added: Reach, replaced: Reach, kept: int, groups: int, size: int | None, proof: str) -> Bounds:
    if groups == 1:
        return Bounds(added, replaced, ((2 * (size or kept), 1),), proof)
    # numbers of rows of the groups are multiplied like that of all rows; another row may be in another group
    times = count_multiplier(added.l2_squared, 2 * kept)
    return Bounds(
        Reach(added.l1 + times, added.l2_squared + times**2),
        Reach(replaced.l1 + 2 * times, replaced.l2_squared + 2 * times**2),
        ((2 * (size or kept * groups), 1), (groups, times)),
        f"{proof}; one group of features per row",
    )


@register_bounds("monitoring")
@register_bounds("fourier")
def _fourier(features: FeatureMap) -> Bounds:
    phi = cast(PhaseMap, features)  # registered by kind
    groups = -(-phi.size // phi.kept)
    return (phase_bounds if phi.dither is None else sign_bounds)(phi.kept, groups, phi.size)


@register_bounds("adapted")
@register_bounds("split")
def _joined(features: FeatureMap) -> Bounds:
    """Parts that share one plan of Fourier features: each pair has modulus 1, wherever its frequency comes from."""
    return phase_bounds(features.size)


EMBEDDED_SQUARED = 2**30 + 46_728
"""Largest square of the length of a (cosine, sine) rounded to 2**-15, in units of 2**-30.

Rounded to 2**-22 first, it is within 0.006 units of 2**-15 of the circle; rounding both parts again moves it by at
most 0.7072: the length is below ``2**15 + 0.713``.
"""
EMBEDDED_L1 = 46_342
"""Largest sum of the absolute values of both: sqrt(2) (2**15 + 0.006) + 1 is 46 342.0, which is not reached."""


@register_bounds("histogram")
def _histogram(features: FeatureMap) -> Bounds:
    """A row is in one cell of each column: another row takes it out of that and puts it into another one."""
    one = 2**GRID_BITS
    d = features.dim
    added = Reach(d * one, d * one**2)
    return Bounds(added, Reach(2 * added.l1, 2 * added.l2_squared), ((features.size, 1),), "one cell of each column")


@register_bounds("embedded")
def _embedded(features: FeatureMap) -> Bounds:
    """Products of any two of 2 m rounded cosines and sines (upper triangle), then the numbers f themselves.

    ``sum_{i<=j} (f_i f_j)**2 = (|f|**4 + sum f_i**4) / 2 <= P**2 m (m + 1) / 2``, since a pair has
    ``c**4 + s**4 <= (c**2 + s**2)**2 <= P**2``.  For another row g, ``|f f' - g g'|**2 <= |f|**4 + |g|**4`` and the
    squares on the diagonal differ by at most P: ``sum_{i<=j} (f_i f_j - g_i g_j)**2 <= P**2 (2 m**2 + 2 m) / 2``.
    ``sum_{i<=j} |f_i f_j| = (|f|_1**2 + |f|**2) / 2``.  The numbers themselves are multiplied so that they add about
    half as much again to the squares: classes are told apart by them.
    """
    m = int(cast(Any, features).inner.size)  # registered by kind
    p, a = EMBEDDED_SQUARED, EMBEDDED_L1
    times = 2**15 * max(1, math.isqrt(m) // 2)
    products, linear = p**2 * m * (m + 1) // 2, m * p
    return Bounds(
        Reach(((m * a) ** 2 + m * p) // 2 + 1 + times * m * a, products + times**2 * linear),
        Reach((m * a) ** 2 + m * p + 2 + 2 * times * m * a, 2 * products + 4 * times**2 * linear),
        ((features.size, 1), (2 * m, times)),
        "products of pairs of modulus 1, rounding included",
    )


@register_bounds("quadratic")
def _quadratic(features: FeatureMap) -> Bounds:
    from sketchlearn.privacy.quadratic import quadratic_bounds

    return quadratic_bounds(features)


def _sqrt_up(value: int) -> int:
    """The square root, rounded up."""
    root = math.isqrt(value)
    return root + (root * root < value)


def sqrt_above(value: Fraction, bits: int = 64) -> Fraction:
    """A fraction at least the square root, closer than ``2**-bits``."""
    scaled = math.ceil(value * 4**bits)
    return Fraction(_sqrt_up(scaled), 2**bits)
