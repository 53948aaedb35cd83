"""Maps that sum functions of phases: what their sums look like, and how they are read.

Cosines and sines, or only their signs; of all features of a row, or of one group of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.features import encoding
from sketchlearn.features.characteristic import CharacteristicMap
from sketchlearn.features.reading import Grouped, Reading, Signs, Waves, Weight, group_bounds, harmonics
from sketchlearn.kernels import ENTRY_BOUND

_REPEATS = 8.0  # times what numbers of different rows scatter, and its standard deviation: less than 1e-5 by chance


@dataclass(frozen=True, eq=False, repr=False)
class PhaseMap(CharacteristicMap):
    """A map whose sums are of cosines and sines of phases (see :mod:`sketchlearn.features.reading`)."""

    @property
    def norms(self) -> npt.NDArray[np.float64]:
        """Euclidean norms of the frequencies, (size,)."""
        return np.sqrt(self.operator(dtype=np.float64).squared_norms)

    @property
    def dither(self) -> npt.NDArray[np.float32] | None:
        """What is added to the phases of quantised features, in half-turns, (size,); None for others."""
        return None

    @property
    def kept(self) -> int:
        """How many of the features a row contributes."""
        return self.size

    @property
    def _rotation(self) -> npt.NDArray[np.complex128] | None:
        return None

    @cached_property
    def _reading(self) -> Reading:
        return Waves() if self.dither is None else Signs(self.dither)

    @cached_property
    def _grouped(self) -> Grouped | None:
        return None if self.kept == self.size else Grouped(group_bounds(self.size, self.kept))

    @property
    def feature_groups(self) -> npt.NDArray[np.intp]:
        if self._grouped is None:
            return np.zeros(self.size, np.intp)
        return np.repeat(np.arange(self._grouped.groups), np.diff(self._grouped.starts))

    def rows_behind(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        if self._grouped is None:
            return np.full(self.size, float(weight))
        return sums[2 * self.size :].astype(np.float64)[self.feature_groups]

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """Cosines and sines (or how many are negative); of subsampled features in one row, then weights of groups."""
        return (2, self.size) if self._grouped is None else (2 * self.size + self._grouped.groups,)

    @property
    def entry_bound(self) -> int:
        return ENTRY_BOUND if self.dither is None else 1

    @property
    def row_bounds_l1(self) -> int:
        """Largest sum of absolute values of the integers that one row adds to the sums."""
        return self.kept * self._reading.pair_l1 + (self._grouped is not None)

    @property
    def row_bounds_squared(self) -> int:
        """Largest sum of their squares."""
        return self.kept * self._reading.pair_squared + (self._grouped is not None)

    @property
    def fewest_rows(self) -> int:
        return 240 if self._grouped is None else 480 * self._grouped.groups

    def encode(self, X: npt.ArrayLike) -> bytes:
        """One-bit features of some rows as bytes: a header of 40 bytes, then two bits per feature and row.

        For devices that send contributions and not sums; :meth:`sketchlearn.Sketch.from_encoded` adds them up to what
        a pass over the rows would have given.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=3, size=100, scale=1.0, seed=0, quantized=True)
        >>> X = np.random.default_rng(0).normal(size=(20, 3))
        >>> len(phi.encode(X)) - 40 == 20 * 2 * 100 // 8
        True
        >>> bool((sl.Sketch.from_encoded([phi.encode(X)], phi).mean == sl.sketch(X, phi).mean).all())
        True
        """
        return encoding.encode(self, X)

    def _of_phases(self, phases: npt.NDArray[np.float64], rows: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
        """Features in float64 from the phases of centred rows, (n, size)."""
        units = np.exp(1j * phases)
        if self.dither is not None:
            t = phases + math.pi * self.dither.astype(np.float64)
            signs = np.where(np.cos(t) < 0, -1.0, 1.0) + 1j * np.where(np.sin(t) < 0, -1.0, 1.0)
            units = (math.pi / 4) * np.exp(1j * (phases - t)) * signs
        units = units if self._rotation is None else units * self._rotation
        if self._grouped is not None:
            mine = self.own_summer.groups(rows)  # type: ignore[attr-defined]  # subsampled
            which = np.repeat(np.arange(self._grouped.groups), np.diff(self._grouped.starts))
            units = units * (mine[:, None] == which) * self._grouped.groups
        return units

    def _split(self, sums: npt.NDArray[np.int64], weight: float) -> tuple[npt.NDArray[np.int64], Weight]:
        """Sums (2, size), and the weight of the rows behind each feature."""
        return (sums, weight) if self._grouped is None else self._grouped.split(sums)

    def mean_from_sums(self, sums: npt.NDArray[np.int64], weight: float) -> npt.NDArray[np.complex128]:
        z = self._reading.mean(*self._split(sums, weight))
        return np.asarray(z if self._rotation is None else z * self._rotation)

    def feature_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variances of the features over the rows, larger where only some of the rows contribute."""
        pairs, behind = self._split(sums, weight)
        return self._reading.variances(pairs, behind) * (weight / np.asarray(behind))

    def selection_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Of subsampled features of rows that repeat: equal rows are all in one group of features.

        Numbers of rows of the groups then scatter more than those of different rows do: by a factor r, the mean number
        of times that a row is there (their chi-squared over its degrees of freedom).  A group with ``n / r`` different
        rows knows an average of modulus |z| up to ``(1 - |z|**2) / (n / r - 1)``, and a group of one row nothing.
        """
        if self._grouped is None or weight <= 0:
            return np.zeros(self.size)
        counts = np.maximum(sums[2 * self.size :].astype(np.float64), 0.0)
        free, expected = len(counts) - 1, weight / len(counts)
        scatter = float(((counts - expected) ** 2).sum()) / expected
        if free < 1 or scatter <= _REPEATS * (free + math.sqrt(2.0 * free)):
            return np.zeros(self.size)
        pairs, behind = self._split(sums, weight)
        others = np.maximum(np.asarray(behind) * free / scatter - 1.0, 0.0)
        left = np.maximum(1.0 - np.abs(self._reading.mean(pairs, behind)) ** 2, 0.0)
        return np.asarray(np.where(others > 0.5, np.minimum(left / np.maximum(others, 0.5), 1.0), 1.0))

    def distortion_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """What the harmonics of one-bit features leave, whatever the number of rows; 0 for other features."""
        if self.dither is None:
            return np.zeros(self.size)
        pairs, behind = self._split(sums, weight)
        noise = self._reading.variances(pairs, behind) / np.asarray(behind)
        return harmonics(self.norms, np.abs(self._reading.mean(pairs, behind)) ** 2 - noise)

    def release_variances(
        self, sums: npt.NDArray[Any], weight: float, sums_variance: npt.ArrayLike, weight_variance: float
    ) -> npt.NDArray[np.float64]:
        noise = np.broadcast_to(np.asarray(sums_variance, np.float64), self.sums_shape)
        pairs, behind = self._split(sums, weight)
        of_weight: Weight = weight_variance
        if self._grouped is not None:
            noise, of_weight = noise[: 2 * self.size], np.repeat(
                noise[2 * self.size :], np.diff(self._grouped.starts)
            )  # fmt: skip
        z = np.abs(self._reading.mean(pairs, behind)) ** 2
        both = noise.reshape(2, self.size).sum(0) * self._reading.gain() + z * of_weight
        return np.asarray(both / np.asarray(behind) ** 2)

    def impossible(self, sums: npt.NDArray[np.int64], weight: int) -> str | None:
        if self._grouped is not None:
            counts = sums[2 * self.size :]
            if (counts < 0).any() or int(counts.sum()) != weight:
                return f"the groups of features would have {int(counts.sum())} rows together, not {weight}"
        return self._reading.impossible(*self._split(sums, weight))
