"""From sums to averages: how the integers that a Fourier map sums are read.

Three kinds: cosines and sines on the grid; counts of negative cosines and sines (features of one bit); and either of
them where each row has given some of the features only, with the weight of the rows behind each group of features.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Complex, Ints
from sketchlearn.kernels import ENTRY_BOUND, GRID_BITS

Sums = Ints
Weight = float | Array


class Reading(ABC):
    """How sums (2, size) of rows of some weight are read; the weight may differ between features, (size,)."""

    entry_bound: int
    """Largest integer that one row adds to an entry."""
    pair_l1: int
    """Largest sum of the two integers that one row adds to a feature."""
    pair_squared: int
    """Largest sum of their squares."""

    @abstractmethod
    def mean(self, sums: Sums, weight: Weight) -> Complex:
        """Averages of ``exp(i w·(x - center))``."""

    @abstractmethod
    def variances(self, sums: Sums, weight: Weight) -> Array:
        """Variances of what one row contributes to the averages."""

    @abstractmethod
    def gain(self) -> float:
        """What the variance of a sum is multiplied by in the average of one row."""

    @abstractmethod
    def impossible(self, sums: Sums, weight: Weight) -> str | None:
        """Why no rows of this weight have these sums, or None."""


class Waves(Reading):
    """Cosines and sines in units of 2**-22."""

    entry_bound = ENTRY_BOUND
    pair_l1 = math.isqrt(2 * 4**GRID_BITS) + 3
    pair_squared = (2**GRID_BITS + 2) ** 2

    def mean(self, sums: Sums, weight: Weight) -> Complex:
        return np.asarray((sums[0] + 1j * sums[1]) / (np.asarray(weight) * 2.0**GRID_BITS))

    def variances(self, sums: Sums, weight: Weight) -> Array:
        return np.maximum(1.0 - np.abs(self.mean(sums, weight)) ** 2, 0.0)

    def gain(self) -> float:
        return 4.0**-GRID_BITS

    def impossible(self, sums: Sums, weight: Weight) -> str | None:
        modulus = np.hypot(sums[0].astype(np.float64), sums[1].astype(np.float64))
        # each row has modulus at most 1 up to the rounding of both parts
        bad = modulus > (2.0**GRID_BITS + 2.0) * np.asarray(weight) * (1 + 1e-12)
        if not bad.any():
            return None
        j = int(np.argmax(bad))
        whole = float(np.broadcast_to(weight, modulus.shape)[j])
        return f"feature {j} would have an average of modulus {modulus[j] / 2.0**GRID_BITS / max(whole, 1):.4g} > 1"


@dataclass(frozen=True)
class Signs(Reading):
    """How many cosines and sines of ``w·x + dither`` are negative.

    The average of ``sgn cos t + i sgn sin t`` over rows is, up to harmonics, ``4/pi`` times that of ``exp(it)``:
    the other Fourier coefficients of the square wave, those of ``exp(-3it)``, ``exp(5it)`` and so on, are 3, 5, ...
    times smaller and come with ``exp(-4iu)``, ``exp(4iu)``, ... of the dither u, whose mean is zero.
    """

    dither: npt.NDArray[np.float32]

    entry_bound = 1
    pair_l1 = 2
    pair_squared = 2

    def _signs(self, sums: Sums, weight: Weight) -> Complex:
        w = np.asarray(weight, np.float64)
        return np.asarray((1.0 - 2.0 * sums[0] / w) + 1j * (1.0 - 2.0 * sums[1] / w))

    def mean(self, sums: Sums, weight: Weight) -> Complex:
        back = np.exp(-1j * math.pi * self.dither.astype(np.float64))
        return (math.pi / 4) * back * self._signs(sums, weight)

    def variances(self, sums: Sums, weight: Weight) -> Array:
        return (math.pi / 4) ** 2 * np.maximum(2.0 - np.abs(self._signs(sums, weight)) ** 2, 0.0)

    def gain(self) -> float:
        return (math.pi / 2) ** 2

    def impossible(self, sums: Sums, weight: Weight) -> str | None:
        bad = ((sums < 0) | (sums > np.asarray(weight))).any(0)
        if not bad.any():
            return None
        j = int(np.argmax(bad))
        return f"feature {j} would be negative in {sums[0, j]} and {sums[1, j]} of all rows"


def square_wave(most: int) -> tuple[tuple[int, float], ...]:
    """Harmonics of one-bit features up to an order, -3, 5, -7, ..., and their factors, where the first has 1."""
    return tuple((h if h % 4 == 1 else -h, (1.0 if h % 4 == 1 else -1.0) / h) for h in range(3, most + 1, 2))


HARMONICS = square_wave(15)
"""Those that decoders look at."""

_EVEN = 0.3  # of the noise of harmonics: this much is spread evenly


def harmonics(norms: Array, squares: Array) -> Array:
    """Mean square of what the harmonics of one-bit features add to each average, over dithers.

    The k-th harmonic (3, 5, 7, ...) adds the characteristic function at k w over k.  How large that is at k times the
    length of w is read off the averages of frequencies of about that length (`squares`, their squares without
    sampling noise); beyond the longest frequency it is taken to go on falling like that of a normal law, as fast as it
    does between half of that length and the full length.  (Clusters far apart have averages of about one over their
    number out to frequencies of one over their width: what falls there begins to fall late.)
    """
    order = np.argsort(norms, kind="stable")
    width = max(1, min(len(order), max(20, len(order) // 20)))
    total = np.concatenate([[0.0], np.cumsum(squares[order])])
    half = width // 2
    low = np.maximum(np.arange(len(order)) - half, 0)
    high = np.minimum(np.arange(len(order)) + half + 1, len(order))
    smooth = np.maximum((total[high] - total[low]) / (high - low), 0.0)
    longest, last = max(float(norms[order[low[-1] :]].mean()), 1e-300), min(float(smooth[-1]), 1.0)
    half_way = min(max(float(np.interp(longest / 2.0, norms[order], smooth)), last), 1.0)
    out = np.zeros(len(norms))
    for harmonic, share in HARMONICS:
        k = abs(harmonic)
        further = np.maximum((k * norms / longest) ** 2 - 1.0, 0.0)
        beyond = last * (last / half_way) ** (further / 0.75) if last > 0.0 else np.zeros(len(norms))
        out += np.where(k * norms <= longest, np.interp(k * norms, norms[order], smooth), beyond) * share**2
    # what is the same for all of one length is known no better than that: nobody is taken for almost free of noise
    return np.asarray((1.0 - _EVEN) * out + _EVEN * out.mean())


def check_per_row(per_row: object, size: int, block: int) -> int:
    """A number of features per row that makes groups of whole blocks; ValueError for any other."""
    if isinstance(per_row, bool) or not isinstance(per_row, int | np.integer) or not 0 < per_row < size:
        raise ValueError(f"features_per_row must be an integer between 0 and size={size}, got {per_row!r}")
    if per_row % block:
        raise ValueError(f"features_per_row of structured features is a multiple of {block}, got {per_row}")
    return int(per_row)


def group_bounds(size: int, per_row: int) -> Ints:
    """Where the groups of features begin, and the size: each row contributes to the features of one group."""
    return np.append(np.arange(0, size, per_row, dtype=np.int64), size)


@dataclass(frozen=True)
class Grouped:
    """Sums of groups of features: cosines, sines, then the weight of the rows that fell to each group.

    `starts`: where the groups begin, (groups + 1,).
    """

    starts: Ints

    @property
    def groups(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Number of features."""
        return int(self.starts[-1])

    def split(self, sums: Sums) -> tuple[Sums, Array]:
        """Sums (2, size), and the weight behind each feature; 1 where there is none."""
        size = self.size
        counts = np.repeat(sums[2 * size :], np.diff(self.starts)).astype(np.float64)
        return sums[: 2 * size].reshape(2, size), np.maximum(counts, 1.0)
