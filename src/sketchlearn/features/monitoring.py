"""Fourier features of all columns together, then a few of each column alone.

The features of one column are harmonics of a base frequency: ``exp(i h t x)`` for h = 1, 2, ....  Within a range of the
column that is known beforehand, weighted sums of them come as near as one likes to the value of the column and to its
square, so their averages tell its mean and variance whatever its law is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Flags, Index
from sketchlearn.features import dense
from sketchlearn.features.adapted import AdaptedFeatures
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.joined import JoinedMap
from sketchlearn.features.recipe_arrays import decode_array

HARMONICS = 6
"""Features of each column: the error for its mean is then below 0.1 % of its reach, up to one and a half times that."""


@register
@dataclass(frozen=True, eq=False, repr=False)
class MonitoringFeatures(JoinedMap):
    """Fourier features of all columns together, then some of each column alone; ``sl.design(..., task="monitoring")``.

    Attributes
    ----------
    dim, size : int
        Columns of the data; all features.
    joint : FourierFeatures or AdaptedFeatures
        The map of all columns.
    reach : ndarray (dim,)
        How far values of each column are from its centre, about.  The base frequency of a column is one over this.
    harmonics : int
        Features of each column.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.features import MonitoringFeatures
    >>> joint = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    >>> phi = MonitoringFeatures.of(joint, reach=[4.0, 8.0])
    >>> phi.size, phi.frequencies[phi.entries_of(1)[0]].round(6)
    (112, array([0.   , 0.125]))
    """

    kind: ClassVar[str] = "monitoring"
    dim: int
    size: int
    joint: FourierFeatures | AdaptedFeatures
    reach: Array
    harmonics: int

    @classmethod
    def of(
        cls, joint: FourierFeatures | AdaptedFeatures, reach: npt.ArrayLike, harmonics: int = HARMONICS
    ) -> MonitoringFeatures:
        """The features of a map, and harmonics of each column.

        Parameters
        ----------
        joint : FourierFeatures or AdaptedFeatures
            A plain map of all columns.
        reach : array (dim,)
            How far values of each column are from its centre, about; positive.
        harmonics : int
            Features of each column.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> from sketchlearn.features import MonitoringFeatures
        >>> MonitoringFeatures.of(sl.FourierFeatures.draw(dim=1, size=10, scale=1.0, seed=0), [3.0]).size
        16
        """
        if isinstance(joint, FourierFeatures):
            cls._check_plain(joint, "the map of all columns")
        far = dense.finite(reach, ((joint.dim,),), "reach")
        if not (far > 0).all():
            raise ValueError(f"the reach of column {int(np.argmin(far))} must be positive, got {far.min()}")
        if isinstance(harmonics, bool) or not isinstance(harmonics, int) or harmonics < 2:
            raise ValueError(f"harmonics must be an integer of at least 2, got {harmonics!r}")
        far.flags.writeable = False
        plain = joint.with_columns(None)
        return cls(joint.dim, joint.size + joint.dim * harmonics, plain, far, harmonics)

    def entries_of(self, column: int) -> Index:
        """The entries of a sketch that are about one column alone, in the order of the harmonics."""
        return self.joint.size + column * self.harmonics + np.arange(self.harmonics)

    # -- recipe ------------------------------------------------------------------------------

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> MonitoringFeatures:
        cls._check_names(parameters)
        joint = FeatureMap.from_recipe(parameters["joint"])
        if not isinstance(joint, FourierFeatures | AdaptedFeatures):
            raise ValueError("the map of all columns in a monitoring recipe is one of Fourier features")
        reach = decode_array(parameters["reach"], ((joint.dim,),), "reach")
        if reach is None:
            raise ValueError("a monitoring recipe has a reach of each column")
        phi = cls.of(joint, reach, parameters["harmonics"])
        return phi._checked(parameters)

    # -- numbers -----------------------------------------------------------------------------

    def draw_array(self) -> npt.NDArray[np.float32]:
        drawn = np.zeros((self.size, self.dim), np.float32)
        drawn[: self.joint.size] = self.joint.random_array()
        base = 1.0 / (np.pi * self.reach)
        for j in range(self.dim):
            drawn[self.entries_of(j), j] = (np.arange(1, self.harmonics + 1) * base[j]).astype(np.float32)
        if not dense.in_range(drawn):
            raise ValueError("float32 can't hold the frequencies: scale the columns")
        return drawn

    @property
    def center(self) -> Array | None:  # type: ignore[override]
        """Constants subtracted from the rows; invisible in the results."""
        return self.joint.center

    @property
    def spread(self) -> Array | None:  # type: ignore[override]
        """Units of the columns in which distances are meant."""
        return self.joint.spread

    @property
    def whitening(self) -> Array | None:  # type: ignore[override]
        """The metric of the features of all columns."""
        return self.joint.whitening

    @property
    def broad(self) -> Flags:
        """Which frequencies span all scales: those of single columns do."""
        return np.concatenate([self.joint.broad, np.ones(self.size - self.joint.size, bool)])

    @property
    def designed_width(self) -> float | None:
        return self.joint.designed_width

    def describe(self) -> str:
        return f"Fourier, {self.joint.size} of all columns and {self.harmonics} of each column alone"

    def __repr__(self) -> str:
        return f"MonitoringFeatures(dim={self.dim}, size={self.size}, harmonics={self.harmonics})"
