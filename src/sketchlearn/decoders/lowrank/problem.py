"""The problem every low-rank decoder solves: find a positive matrix of low rank with given quadratic measurements.

Measurements are normalised so that those of the identity are 1: ``y_j = <u_j u_j', S>`` for unit directions u_j
(for two directions per feature, the corresponding average).  Then, for uniform directions,
``E y_j u_j u_j' = (2 S + tr(S) I) / (d (d + 2))``: the trace is seen d / 2 times better than anything else.  The
loss therefore weighs the mean of the residuals by sqrt(2 / (d + 2)), which makes the expected Hessian a multiple of
the identity on symmetric matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features.operator import Operator
from sketchlearn.features.second_moment import SecondMomentMap


@dataclass(frozen=True)
class Problem:
    """Normalised measurements of a matrix."""

    operator: Operator  # products with the directions
    factors: Array  # normalised weight of each direction in its measurement
    measurements: Array  # y, (m,)
    has_trace: bool  # whether the identity can be seen (measurements by differences can't see it)
    tolerance: float = 1e-6  # residual, relative to the measurements, below which there is nothing left to fit
    added: Array = field(default_factory=lambda: np.zeros(1))  # variance of each beyond that of sampling rows
    laplace: bool = False  # whether that noise follows Laplace's law

    @staticmethod
    def from_features(
        features: SecondMomentMap,
        y: Array,
        tolerance: float = 1e-6,
        added: Array | float = 0.0,
        laplace: bool = False,
    ) -> Problem:
        """The problem behind average features y of a map with random directions; `added` is their added variance."""
        if features.is_exact:
            raise ValueError("all products of columns need no decoding: use the matrix itself")
        operator, factors, size = features.direction_operator(), features.factors, features.size
        identity = _grouped(np.abs(factors) * operator.squared_norms, size)
        tiled = np.tile(identity, len(factors) // size)
        # a difference of two squares can't see the identity
        has_trace = not bool((factors < 0).any())
        return Problem(operator, factors / tiled, y / identity, has_trace, tolerance, added / identity**2, laplace)

    @property
    def size(self) -> int:
        """Number of measurements."""
        return len(self.measurements)

    @property
    def dim(self) -> int:
        """Rows of the matrix that is looked for."""
        return self.operator.shape[1]

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
        t = self.operator.forward(U.T)
        return self.of_lengths(np.einsum("ij,ij->j", t, t))

    def adjoint_times(self, v: Array, U: Array) -> Array:
        """``sum_j v_j u_j u_j' U / m``, without the matrix."""
        return self.operator.normal(self.spread(v), U.T)[1].T / self.size

    def measure_matrix(self, S: Array) -> Array:
        """Measurements of a symmetric matrix."""
        return self.of_lengths(np.einsum("ij,ij->i", self._rows @ S, self._rows))

    def adjoint(self, v: Array) -> Array:
        """``sum_j v_j u_j u_j' / m``, a matrix."""
        return np.asarray(self._rows.T @ (self._rows * self.spread(v)[:, None])) / self.size

    @cached_property
    def _rows(self) -> Array:
        """The directions as a matrix, for the decoders that work on matrices."""
        return self.operator.frequencies()

    def traceless_lengths(self) -> Array:
        """Squared Frobenius norm of what each measurement sees beyond the trace, (m,)."""
        rows, m, d = self._rows, self.size, self.dim
        lengths = self.factors * np.einsum("ij,ij->i", rows, rows)
        squares = _grouped(lengths**2, m)
        if len(lengths) > m:
            inner = np.einsum("ij,ij->i", rows[:m], rows[m:])
            squares = squares + 2.0 * self.factors[:m] * self.factors[m:] * inner**2
        return np.asarray(squares - _grouped(lengths, m) ** 2 / d)

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
