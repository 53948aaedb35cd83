"""Maps whose averages are samples of the characteristic function: what decoders of mixtures need to know of them.

The average of such features over rows is ``E exp(i w·x)`` at the map's frequencies, up to sampling noise (and
whatever else :attr:`sketchlearn.Sketch.variances` knows about).  Fourier features are the plain case; quantised,
subsampled or structured ones are others.  A decoder asks for a :class:`CharacteristicMap` and never for one of them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Flags, Index
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.operator import Operator


class CharacteristicMap(FeatureMap):
    """A feature map whose averages are values of the characteristic function of the rows, (size,) complex.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.features import CharacteristicMap
    >>> isinstance(sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3), CharacteristicMap)
    True
    """

    sees_all_columns: ClassVar[bool] = True
    """Whether frequencies point in all directions, so that the averages tell the law of whole rows."""
    center: Array | None = None
    """A point near the rows, if the map knows one."""
    spread: Array | None = None
    """Units of the columns in which distances are meant, (dim,); None for those of the rows."""
    whitening: Array | None = None
    """The metric that the frequencies were drawn in, (dim, dim); None for that of the rows."""

    @property
    def as_characteristic(self) -> CharacteristicMap:
        return self

    @abstractmethod
    def operator(self, scale: float = 1.0, dtype: npt.DTypeLike = np.float32) -> Operator:
        """Products with the frequencies times `scale`, forward and adjoint."""

    def kernel(self, x: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Array:
        """The kernel that the map approximates, between rows: the average of ``cos(w·(x - y))`` over its frequencies.

        Distances of sketches of this map are maximum mean discrepancies of this kernel (:func:`sketchlearn.mmd`).

        Parameters
        ----------
        x : array (n, dim)
            Rows.
        y : array (k, dim), optional
            Other rows; by default those of `x`.

        Returns
        -------
        ndarray (n, k)

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=4000, scale=2.0, radial="gaussian")
        >>> phi.kernel([[0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]).round(1)
        array([[1. , 0.6]])
        """
        operator = self.operator(dtype=np.float64)
        rows, others = (self._rows_of(v) for v in (x, x if y is None else y))
        middle = rows.mean(axis=0) if len(rows) else 0.0  # phases of far rows lose digits
        a, b = (operator.forward(v - middle) for v in (rows, others))
        return np.asarray((np.cos(a) @ np.cos(b).T + np.sin(a) @ np.sin(b).T) / self.size)

    def _rows_of(self, values: npt.ArrayLike) -> Array:
        rows = np.asarray(values, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim or not np.isfinite(rows).all():
            raise ValueError(f"expected finite rows with {self.dim} columns, got an array of shape {rows.shape}")
        return rows

    def ideal_variances(self, mean: AnyArray, sums: AnyArray, weight: float) -> Array:
        """Variances of ``exp(i w·x)`` over rows with these averages: those of ideal features, (size,)."""
        return np.maximum(1.0 - np.abs(mean) ** 2, 0.0)

    @property
    def feature_groups(self) -> Index:
        """The group of each feature, (size,): a row contributes to the features of one group."""
        return np.zeros(self.size, np.intp)

    def rows_behind(self, sums: AnyArray, weight: float) -> Array:
        """Weight of the rows that contributed to each feature, (size,)."""
        return np.full(self.size, float(weight))

    @property
    def importance_weights(self) -> Array:
        """What features and atoms are divided by when they are compared, (size,)."""
        return np.ones(self.size)

    @property
    def broad(self) -> Flags:
        """Which frequencies span all scales (rather than one at which clusters are told apart), (size,)."""
        return np.zeros(self.size, bool)

    @property
    def n_ordinary(self) -> int:
        """How many frequencies, the first ones, decoders look at; the others are low, and show far rows alone."""
        return self.size

    @property
    def designed_width(self) -> float | None:
        """Standard deviation of the (whitened) rows that the map was designed for; None if it is not known."""
        return None


def characteristic(features: FeatureMap, what: str = "this decoder") -> CharacteristicMap:
    """The map, if it is one that decoders of mixtures can use; TypeError with the reason if not."""
    found = features.as_characteristic
    if found is None:
        raise UnsuitableMapError(f"{what} needs Fourier features, the sketch has {features.kind} features")
    return found
