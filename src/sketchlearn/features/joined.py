"""Maps that join the frequencies of several parts: all of them in one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.features import portable
from sketchlearn.features.operator import DenseOperator, Operator
from sketchlearn.features.phases import PhaseMap
from sketchlearn.kernels import Plan


@dataclass(frozen=True, eq=False, repr=False)
class JoinedMap(PhaseMap):
    """A map of Fourier features whose parts are plain Fourier features; subclasses say how the parts are laid out."""

    @cached_property
    def frequencies(self) -> npt.NDArray[np.float64]:
        """Frequencies in radians per unit of the data, (size, dim)."""
        return self.random_array().astype(np.float64) * np.pi

    @property
    def _center(self) -> npt.NDArray[np.float64]:
        return np.zeros(self.dim) if self.center is None else np.ascontiguousarray(self.center)

    @cached_property
    def _rotation(self) -> npt.NDArray[np.complex128]:
        return np.asarray(np.exp(1j * (self.frequencies @ self._center)))

    def operator(self, scale: float = 1.0, dtype: npt.DTypeLike = np.float32) -> Operator:
        return DenseOperator.of(self.frequencies * scale, dtype)

    def __call__(self, X: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """``exp(i w·x)`` for a few rows, (n, size), in float64 and not rounded to the grid."""
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        return np.asarray(np.exp(1j * (rows @ self.frequencies.T)))

    def plan(self) -> Plan:
        """That of Fourier features, with all frequencies."""
        squares = np.ascontiguousarray((self.frequencies**2).T)
        arrays: dict[str, npt.NDArray[Any]] = {
            "center": self._center,
            "half_turns": self.random_array(),
            "rms": np.sqrt(portable.total(squares) / self.size),
        }
        return Plan("fourier", self.dim, self.sums_shape, self.sums_dtype, arrays)

    @staticmethod
    def _check_plain(part: Any, which: str) -> None:
        """Refuse parts whose frequencies are not drawn one by one, or that prepare their rows: the whole map does."""
        if part.encoder is not None or part.projection is not None:
            raise ValueError(f"{which} must be without an encoder and a projection: give these to the joined map")
        if part.structure != "dense" or part.quantized or part.features_per_row is not None:
            raise ValueError(f"{which} must be plain: dense, neither quantised nor subsampled")

    def _checked(self, parameters: dict[str, Any]) -> Self:
        """The map, if it has the numbers of columns and features that its recipe says."""
        if (self.dim, self.size) != (parameters["dim"], parameters["size"]):
            raise ValueError(f"the parts have {self.dim} columns and {self.size} features, the recipe says otherwise")
        return self
