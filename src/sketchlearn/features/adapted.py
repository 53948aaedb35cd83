"""Fourier features of several metrics: frequencies of all scales, then those of each component of a mixture.

A frequency tells the covariance of a component if its length is about one over the component's width in that direction.
Components of other shapes need other frequencies: no single metric suits all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Flags
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.joined import JoinedMap


@register
@dataclass(frozen=True, eq=False, repr=False)
class AdaptedFeatures(JoinedMap):
    """Fourier features of all scales, then some of the width and shape of each component; ``sl.design(previous=...)``.

    Attributes
    ----------
    dim, size : int
        Columns of the data; all features.
    joint : FourierFeatures
        Frequencies of all scales, in the metric of all components.
    parts : tuple of FourierFeatures
        Frequencies of each component, in its own metric.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.features import AdaptedFeatures
    >>> joint = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, radial="multiscale", seed=0)
    >>> narrow = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1, whitening=np.diag([1.0, 9.0]))
    >>> AdaptedFeatures.of(joint, [narrow])
    AdaptedFeatures(dim=2, size=70, components=1)
    """

    kind: ClassVar[str] = "adapted"
    dim: int
    size: int
    joint: FourierFeatures
    parts: tuple[FourierFeatures, ...]

    @classmethod
    def of(cls, joint: FourierFeatures, parts: Sequence[FourierFeatures]) -> AdaptedFeatures:
        """The features of a map of all scales, and of maps of single components.

        Parameters
        ----------
        joint : FourierFeatures
            A plain map of all scales.
        parts : sequence of FourierFeatures
            Plain maps of the same columns.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> from sketchlearn.features import AdaptedFeatures
        >>> a, b = (sl.FourierFeatures.draw(dim=1, size=5, scale=1.0, seed=s) for s in (0, 1))
        >>> AdaptedFeatures.of(a, [b, b.replace(seed=2)]).size
        15
        """
        own = tuple(parts)
        if not own:
            raise ValueError("there must be a map of at least one component")
        for part in (joint, *own):
            cls._check_plain(part, "all maps")
            if part.dim != joint.dim:
                raise ValueError(f"the maps should have the same columns, got {joint.dim} and {part.dim}")
        size = joint.size + sum(part.size for part in own)
        return cls(joint.dim, size, joint.with_columns(None), tuple(part.with_columns(None) for part in own))

    # -- recipe ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        parts = [part.recipe() for part in self.parts]
        return {"dim": self.dim, "size": self.size, "joint": self.joint.recipe(), "parts": parts}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> AdaptedFeatures:
        cls._check_names(parameters, ("dim", "size", "joint", "parts"))
        if not isinstance(parameters["parts"], list):
            raise ValueError("an adapted recipe has a list of parts")
        joint, *parts = (FeatureMap.from_recipe(recipe) for recipe in (parameters["joint"], *parameters["parts"]))
        plain = [part for part in parts if isinstance(part, FourierFeatures)]
        if not isinstance(joint, FourierFeatures) or len(plain) < len(parts):
            raise ValueError("the parts of an adapted recipe are Fourier features")
        return cls.of(joint, plain)._checked(parameters)

    # -- numbers -----------------------------------------------------------------------------

    def draw_array(self) -> npt.NDArray[np.float32]:
        return np.concatenate([part.half_turns for part in (self.joint, *self.parts)])

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
        """The metric of the frequencies of all scales."""
        return self.joint.whitening

    @property
    def broad(self) -> Flags:
        """Which frequencies span all scales: those of the joint map."""
        return np.arange(self.size) < self.joint.size

    @property
    def designed_width(self) -> float | None:
        return self.joint.designed_width

    def describe(self) -> str:
        return f"Fourier, {self.joint.size} of all scales and {self.size - self.joint.size} of single components"

    def __repr__(self) -> str:
        return f"AdaptedFeatures(dim={self.dim}, size={self.size}, components={len(self.parts)})"
