"""What can be done with the sums of a feature map: adding, taking away, averages and their noise.

By default those of integer sums in units of 2**-22; a map whose sums are something else says so by its own methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import GRID_BITS

BEYOND = "the sums are beyond what 64-bit integers hold: no rows of this total weight have them"


class SumAlgebra:
    """The part of :class:`~sketchlearn.FeatureMap` that sketches add and divide by."""

    size: int

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        """Type of the sums: int64 on a grid, float64 where the features have no bound."""
        return np.dtype(np.int64)

    @property
    def entry_bound(self) -> int | None:
        """Largest absolute value that one row can add to one sum, in grid units; None for float64 sums."""
        return 2**GRID_BITS + 1

    def add_sums(
        self, a: npt.NDArray[Any], b: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Sums of two groups of rows put together, in a new array or in ``out`` (which may be one of them).

        ``OverflowError`` if an integer would wrap; ``out`` is then as it was, if it was ``a``.
        """
        total = np.add(a, b, out=out)
        if self.sums_dtype.kind == "i":
            # an integer has wrapped where the total lies on the other side of both terms; a is the total less b
            wrapped = ((total ^ b) & (total ^ (total - b))) < 0
            if wrapped.any():
                if out is a:
                    np.subtract(total, b, out=total)
                raise OverflowError(BEYOND)
        return total

    def negate_sums(self, sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What has to be added to take these rows away."""
        return np.negative(sums)

    def shift_sums(self, sums: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
        """Sums times ``2**bits``: in finer units of weight, or in coarser ones if `bits` is negative."""
        if self.sums_dtype.kind != "i":
            return sums * 2.0**bits
        if bits < 0:
            return sums >> -bits
        shifted = sums << bits
        if (shifted >> bits != sums).any():
            raise OverflowError(BEYOND)
        return shifted

    def common_bits(self, sums: npt.NDArray[Any]) -> int:
        """How many times all sums can be halved without loss; 63 if nothing is lost by any number of times."""
        if self.sums_dtype.kind != "i" or not sums.size:
            return 63
        common = int(np.gcd.reduce(sums, axis=None))
        return (common & -common).bit_length() - 1 if common else 63

    def mean_from_sums(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[Any]:
        """Average features from their sums and the total weight."""
        return np.asarray(sums / (weight * 2.0**GRID_BITS))

    def ideal_variances(self, mean: npt.NDArray[Any], sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variances over the rows that decoders count as sampling noise; what features have beyond is additive."""
        return self.feature_variances(sums, weight)

    def feature_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variances of the features over the rows; ``1 - |z|**2`` for features of modulus 1."""
        return np.maximum(1.0 - np.abs(self.mean_from_sums(sums, weight)) ** 2, 0.0)

    def distortion_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variance of each entry of the mean that no number of rows takes away: 0, unless the features are coarse."""
        return np.zeros(self.size)

    def selection_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variance of each entry of the mean by which rows contribute to it, where rows are known to repeat."""
        return np.zeros(self.size)

    def release_variances(
        self,
        sums: npt.NDArray[Any],
        weight: float,
        sums_variance: npt.ArrayLike,
        weight_variance: float,
    ) -> npt.NDArray[np.float64]:
        """Variance of each entry of the mean that noise in the sums and in the weight brings, (size,).

        Parameters
        ----------
        sums, weight
            As they are, noise included.
        sums_variance : array or float
            Variance of the noise of each entry of the sums, in their units; broadcasts to their shape.
        weight_variance : float
            Variance of the noise of the weight, in its units: it moves a mean z by ``-z dn / n``.

        Returns
        -------
        ndarray (size,)
            Of complex entries the variances of both parts together.
        """
        noise = np.broadcast_to(np.asarray(sums_variance, np.float64), np.shape(sums))
        z = np.abs(self.mean_from_sums(sums, weight)) ** 2
        return np.asarray(self._noise_of_mean(noise) / weight**2 + z * (weight_variance / weight**2))

    def _noise_of_mean(self, sums_variance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Variance of the mean at weight 1 for independent noise in the sums."""
        return sums_variance.reshape(-1, self.size).sum(0) * 4.0**-GRID_BITS

    def impossible(self, sums: npt.NDArray[Any], weight: int) -> str | None:
        """Why no rows of this total weight can have these sums, or None if they can."""
        bound = self.entry_bound
        # of the smallest int64 there is no absolute value
        if bound is not None and sums.size and max(int(sums.max()), -int(sums.min())) > bound * weight:
            return f"the sums of {weight} rows would be larger than their features allow"
        return None

    def is_rest(self, sums: npt.NDArray[Any], before: npt.NDArray[Any]) -> bool:
        """Whether sums can be what is left of others when all rows were taken out: nothing but rounding."""
        if self.sums_dtype.kind == "i":
            return not sums.any()
        return bool(np.abs(sums).max(initial=0.0) <= 1e-6 * np.abs(before).max(initial=0.0))
