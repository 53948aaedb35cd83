"""Fourier features of two groups of columns, side by side: no frequency has parts in both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.joined import JoinedMap

Groups = tuple[tuple[int, ...], tuple[int, ...]]


@register
@dataclass(frozen=True, eq=False, repr=False)
class SplitFeatures(JoinedMap):
    """Fourier features of some columns, then those of the others.

    Attributes
    ----------
    dim, size : int
        Columns of the data; features of both groups together.
    parts : tuple of two FourierFeatures
        The map of each group.
    groups : tuple of two tuples of int
        The columns of each group.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.features import SplitFeatures
    >>> a, b = (sl.FourierFeatures.draw(dim=d, size=5, scale=1.0, seed=d) for d in (1, 2))
    >>> phi = SplitFeatures.of(a, b, [2])
    >>> phi.groups, (phi.frequencies != 0).sum(0)
    (((2,), (0, 1)), array([5, 5, 5]))
    """

    kind: ClassVar[str] = "split"
    sees_all_columns: ClassVar[bool] = False
    dim: int
    size: int
    parts: tuple[FourierFeatures, FourierFeatures]
    groups: Groups

    @classmethod
    def of(cls, first: FourierFeatures, second: FourierFeatures, columns: Any) -> SplitFeatures:
        """The features of two maps.

        Parameters
        ----------
        first, second : FourierFeatures
            The maps of the two groups, both plain.
        columns : sequence of int
            The columns of the first group; the second one has all others.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> from sketchlearn.features import SplitFeatures
        >>> SplitFeatures.of(*(sl.FourierFeatures.draw(dim=1, size=5, scale=1.0, seed=s) for s in (0, 1)), [0]).size
        10
        """
        dim = first.dim + second.dim
        mine = tuple(int(i) for i in columns)
        others = tuple(i for i in range(dim) if i not in mine)
        if len(set(mine)) != first.dim or len(others) != second.dim or not all(0 <= i < dim for i in mine):
            raise ValueError(f"the first group should be {first.dim} different columns of {dim}, got {mine}")
        for part in (first, second):
            cls._check_plain(part, "both maps")
        plain = first.with_columns(None), second.with_columns(None)
        return cls(dim, first.size + second.size, plain, (mine, others))

    # -- recipe ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        return {
            "dim": self.dim,
            "size": self.size,
            "parts": [part.recipe() for part in self.parts],
            "first": list(self.groups[0]),
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> SplitFeatures:
        cls._check_names(parameters, ("dim", "size", "parts", "first"))
        parts, first = parameters["parts"], parameters["first"]
        if not isinstance(parts, list) or len(parts) != 2 or not isinstance(first, list):
            raise ValueError("a split recipe has two parts, and a list of columns of the first")
        a, b = (FeatureMap.from_recipe(part) for part in parts)
        if not isinstance(a, FourierFeatures) or not isinstance(b, FourierFeatures):
            raise ValueError("the parts of a split recipe are Fourier features")
        if not all(isinstance(i, int) and not isinstance(i, bool) for i in first):
            raise ValueError(f"the columns of the first group are numbers, got {first!r}")
        phi = cls.of(a, b, first)
        return phi._checked(parameters)

    # -- numbers -----------------------------------------------------------------------------

    def draw_array(self) -> npt.NDArray[np.float32]:
        drawn, at = np.zeros((self.size, self.dim), np.float32), 0
        for part, columns in zip(self.parts, self.groups, strict=True):
            drawn[at : at + part.size, columns] = part.half_turns
            at += part.size
        return drawn

    @cached_property
    def center(self) -> npt.NDArray[np.float64]:  # type: ignore[override]
        """Constants subtracted from the rows; invisible in the results."""
        found = np.zeros(self.dim)
        for part, columns in zip(self.parts, self.groups, strict=True):
            if part.center is not None:
                found[list(columns)] = part.center
        return found

    def describe(self) -> str:
        return f"Fourier, of {len(self.groups[0])} columns and of the other {len(self.groups[1])}"

    def __repr__(self) -> str:
        return f"SplitFeatures(dim={self.dim}, size={self.size}, first={list(self.groups[0])})"


def two_groups(features: FeatureMap, what: str) -> SplitFeatures:
    """The map, if it is of two groups of columns; TypeError with the remedy if not."""
    if not isinstance(features, SplitFeatures):
        raise UnsuitableMapError(f"{what} needs features of two groups of columns: sl.design_independence")
    return features
