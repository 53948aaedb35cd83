"""The linear part of a feature map, as decoders use it: phases of points, and the adjoint.

Decoders only ever call :meth:`forward` and :meth:`adjoint` (and the norms), so a structured operator
with fast products is a drop-in replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DenseOperator:
    """Products with the frequencies, (size, dim), in float32."""

    matrix: F32

    @cached_property
    def _transposed(self) -> F32:
        return np.ascontiguousarray(self.matrix.T)

    @property
    def shape(self) -> tuple[int, int]:
        """(size, dim)."""
        return self.matrix.shape

    @cached_property
    def squared_norms(self) -> F32:
        """|w|^2, (size,)."""
        return (self.matrix * self.matrix).sum(1)

    @cached_property
    def squares(self) -> F32:
        """Squared coordinates of the frequencies, (size, dim): what diagonal covariances need."""
        return self.matrix * self.matrix

    def products(self) -> F32:
        """Products w_a w_b for a >= b, doubled off the diagonal, (size, dim (dim + 1) / 2): for full covariances."""
        return self._products

    @cached_property
    def _products(self) -> F32:
        a, b = np.tril_indices(self.shape[1])
        return self.matrix[:, a] * self.matrix[:, b] * np.where(a == b, 1, 2).astype(np.float32)

    def forward(self, points: npt.ArrayLike) -> F32:
        """Phases w·c of points (k, dim), as (k, size)."""
        return np.asarray(points, np.float32) @ self._transposed

    def adjoint(self, values: F32) -> F32:
        """Sums over the frequencies, (k, size) to (k, dim)."""
        return values @ self.matrix

    def rows(self, index: npt.NDArray[np.intp]) -> DenseOperator:
        """The operator of some of the frequencies."""
        return DenseOperator(np.ascontiguousarray(self.matrix[index]))

    @staticmethod
    def of(frequencies: npt.NDArray[np.float64]) -> DenseOperator:
        """From frequencies in the units of the points."""
        return DenseOperator(np.ascontiguousarray(frequencies, np.float32))
