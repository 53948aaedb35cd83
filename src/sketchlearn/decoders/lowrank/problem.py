"""The problem every low-rank decoder solves: find a positive matrix of low rank with given quadratic measurements.

Measurements are normalised so that those of the identity are 1: ``y_j = <u_j u_j', S>`` for unit directions u_j
(for two directions per feature, the corresponding average).  Then, for uniform directions,
``E y_j u_j u_j' = (2 S + tr(S) I) / (d (d + 2))``: the trace is seen d / 2 times better than anything else.  The
loss therefore weighs the mean of the residuals by sqrt(2 / (d + 2)), which makes the expected Hessian a multiple of
the identity on symmetric matrices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.features.quadratic import QuadraticFeatures

Array = npt.NDArray[np.float64]

_DOUBLE_ENTRIES = 2**24  # directions are kept in float64 up to here, in float32 up to 8 times as many,
_SINGLE_ENTRIES = 2**27  # and beyond that as the bytes they are drawn as


class Directions(ABC):
    """Directions q as a linear operator: all that the decoders know about them."""

    count: int
    dim: int

    @abstractmethod
    def project(self, U: Array) -> Array:
        """``q·U`` for all directions, (count, r)."""

    @abstractmethod
    def back(self, V: Array) -> Array:
        """Transpose of :meth:`project`: (count, r) to (dim, r)."""

    @abstractmethod
    def weighted(self, weights: Array, U: Array) -> tuple[Array, Array]:
        """Squared lengths of ``q·U`` (count,), and ``sum_j weights_j q_j q_j' U`` (dim, r), in one sweep."""


class DenseDirections(Directions):
    """Directions kept as a matrix, or as bytes that are widened block by block where a matrix would be too large."""

    def __init__(self, directions: npt.NDArray[np.int8]) -> None:
        self.count, self.dim = directions.shape
        if directions.size <= _DOUBLE_ENTRIES:
            self._matrix: npt.NDArray[Any] = directions.astype(np.float64)
        elif directions.size <= _SINGLE_ENTRIES:
            self._matrix = directions.astype(np.float32)
        else:
            self._matrix = directions
        self._real = np.float64 if self._matrix.dtype == np.float64 else np.float32
        self._step = self.count if self._matrix.dtype != np.int8 else max(1, 2**23 // self.dim)

    def _blocks(self) -> Any:
        for i in range(0, self.count, self._step):
            yield slice(i, i + self._step), self._matrix[i : i + self._step].astype(self._real, copy=False)

    def project(self, U: Array) -> Array:
        out = np.empty((self.count, U.shape[1]))
        u = U.astype(self._real, copy=False)
        for at, block in self._blocks():
            out[at] = block @ u
        return out

    def back(self, V: Array) -> Array:
        out = np.zeros((self.dim, V.shape[1]))
        for at, block in self._blocks():
            out += block.T @ V[at].astype(self._real, copy=False)
        return out

    def weighted(self, weights: Array, U: Array) -> tuple[Array, Array]:
        lengths, out = np.empty(self.count), np.zeros(U.shape)
        u = U.astype(self._real, copy=False)
        for at, block in self._blocks():
            t = block @ u
            lengths[at] = np.einsum("ij,ij->i", t, t)
            out += block.T @ (t * weights[at, None].astype(self._real))
        return lengths, out


@dataclass(frozen=True)
class Problem:
    """Normalised measurements of a matrix.

    Attributes
    ----------
    directions : Directions
        The operator.
    factors : ndarray
        Normalised weight of each direction in its measurement.
    measurements : ndarray (m,)
        Normalised measurements y.
    has_trace : bool
        Whether the identity can be seen (measurements by differences can't see it).
    tolerance : float
        Residual, relative to the measurements, below which there is nothing left to fit.
    """

    directions: Directions
    factors: Array
    measurements: Array
    has_trace: bool
    tolerance: float = 1e-6

    @staticmethod
    def from_features(
        features: QuadraticFeatures, y: Array, tolerance: float = 1e-6, directions: Directions | None = None
    ) -> Problem:
        """The problem behind average features y of a map with random directions."""
        if features.is_exact:
            raise ValueError("all products of columns need no decoding: use the matrix itself")
        norms, factors, size = features.squared_norms, features.factors, features.size
        identity = _grouped(np.abs(factors) * norms, size)
        tiled = np.tile(identity, len(factors) // size)
        operator = DenseDirections(features.directions) if directions is None else directions
        has_trace = features.variant != "difference"
        return Problem(operator, factors / tiled, y / identity, has_trace, tolerance)

    @property
    def size(self) -> int:
        """Number of measurements."""
        return len(self.measurements)

    @property
    def dim(self) -> int:
        """Rows of the matrix that is looked for."""
        return self.directions.dim

    @cached_property
    def mean_weight(self) -> float:
        """What the mean of the residuals is multiplied by in the loss."""
        return math.sqrt(2.0 / (self.dim + 2.0)) if self.has_trace else 1.0

    @cached_property
    def curvature(self) -> float:
        """Expected eigenvalue of the Hessian of the loss on symmetric matrices."""
        return 2.0 / (self.dim * (self.dim + 2.0))

    @cached_property
    def scale(self) -> float:
        """Estimate of the trace (of the Frobenius norm, where the trace can't be seen)."""
        if self.has_trace:
            estimate = float(self.measurements.mean()) * self.dim
        else:
            estimate = math.sqrt(float(np.mean(self.measurements**2)) / self.curvature)
        return estimate if estimate > 0 else float(np.abs(self.measurements).mean()) * self.dim

    def of_lengths(self, lengths: Array) -> Array:
        """Measurements from the squared lengths of the projections."""
        return _grouped(self.factors * lengths, self.size)

    def spread(self, v: Array) -> Array:
        """Weights of the directions that belong to weights v of the measurements."""
        return self.factors * np.tile(v, len(self.factors) // self.size)

    def measure(self, U: Array) -> Array:
        """Measurements of ``U U'``."""
        t = self.directions.project(U)
        return self.of_lengths(np.einsum("ij,ij->i", t, t))

    def adjoint_times(self, v: Array, U: Array) -> Array:
        """``sum_j v_j u_j u_j' U / m``, without the matrix."""
        return self.directions.weighted(self.spread(v), U)[1] / self.size

    def measure_matrix(self, S: Array) -> Array:
        """Measurements of a symmetric matrix."""
        return self.of_lengths(np.einsum("ij,ij->i", self._rows @ S, self._rows))

    def adjoint(self, v: Array) -> Array:
        """``sum_j v_j u_j u_j' / m``, a matrix."""
        return np.asarray(self._rows.T @ (self._rows * self.spread(v)[:, None])) / self.size

    @cached_property
    def _rows(self) -> Array:
        """The directions as a matrix, for the decoders that work on matrices."""
        return self.directions.project(np.eye(self.dim))

    def balanced(self, v: Array) -> Array:
        """Residuals with their mean weighed down, as in the loss."""
        return v - (1.0 - self.mean_weight) * v.mean()

    def loss(self, residual: Array) -> tuple[float, Array]:
        """Half the mean square of the balanced residuals, and its gradient with respect to them (times m)."""
        balanced = self.balanced(residual)
        return 0.5 * float(np.mean(balanced**2)), self.balanced(balanced)


@dataclass(frozen=True)
class Estimate:
    """What a decoder returns: ``factor @ factor.T + isotropic * I``, and how it got there."""

    factor: Array
    isotropic: float
    iterations: int
    converged: bool


def _grouped(values: Array, size: int) -> Array:
    return values if len(values) == size else values[:size] + values[size:]
