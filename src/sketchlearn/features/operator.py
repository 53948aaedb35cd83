"""The linear part of a feature map, as decoders use it: all that they know about the frequencies w_1 ... w_m.

An operator gives products (phases of points and their adjoint), quadratic forms ``w'Sw`` and their adjoint, and
itself again for some of the frequencies, in other units or in another metric.  A structured operator defines
:meth:`Operator.forward` and :meth:`Operator.adjoint`; everything else has a definition in terms of these two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Index

F32 = npt.NDArray[np.float32]
Real = AnyArray

_DOUBLE_ENTRIES = 2**24  # integer directions are kept in float64 up to here, in float32 up to 8 times as many,
_SINGLE_ENTRIES = 2**27  # and beyond that as the bytes they are drawn as
_MATRIX_ENTRIES = 2**26  # operators are turned into matrices up to here: 256 MB
_PRODUCT_BYTES = 2**27  # products of coordinates are kept up to here: 128 MB, of three metrics at a time
COPIED_ENTRIES = 2**22
"""Of a matrix of frequencies, up to which it is kept in double precision, transposed and squared too: 16 MB."""
_WIDEST = 2.0**100  # of a variance: the largest that fits into float32 with its products; damping is 0 long before
_BLOCK = 2**22  # entries of the frequencies that are looked at together


@lru_cache(64)
def lower_triangle(d: int) -> tuple[Index, Index]:
    """Rows and columns of the lower triangle of a (d, d) matrix, diagonal included."""
    return np.tril_indices(d)


def even_power(squares: Real, exponent: int) -> Real:
    """An even power of numbers whose squares are given."""
    return squares if exponent == 2 else squares ** (exponent // 2)


class Operator(ABC):
    """Frequencies (size, dim) as a linear operator; numbers are of :attr:`dtype`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(size, dim)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type of what the products give."""

    @abstractmethod
    def forward(self, points: npt.ArrayLike) -> Real:
        """Phases w·c of points (k, dim), as (k, size)."""

    @abstractmethod
    def adjoint(self, values: Real) -> Real:
        """Sums ``sum_j v_j w_j`` over the frequencies, (k, size) to (k, dim)."""

    @property
    def work(self) -> float:
        """Multiply-adds of a product with one point, for each frequency."""
        return float(self.shape[1])

    # -- quadratic forms -----------------------------------------------------------------------

    @cached_property
    def squared_norms(self) -> Real:
        """|w|^2, (size,)."""
        return self.quadratic(np.ones((1, self.shape[1])))[0]

    def quadratic(self, covariances: npt.ArrayLike) -> Real:
        """Quadratic forms ``w'Sw``, one row per covariance.

        Parameters
        ----------
        covariances : array
            One variance ``()``, variances ``(k,)``, diagonals ``(k, dim)`` or matrices ``(k, dim, dim)``.

        Returns
        -------
        ndarray (k, size)
            With one row for a single variance.
        """
        s = np.clip(covariances, -_WIDEST, _WIDEST).astype(self.dtype, copy=False)
        if s.ndim < 2:
            return np.asarray(np.atleast_1d(s)[:, None] * self.squared_norms)
        if s.ndim == 2:
            return self.powers(s, 2)
        out = np.zeros((len(s), self.shape[0]), self.dtype)
        for at, w in self._coordinates():
            for l, matrix in enumerate(s):
                out[l] += (w * self.forward(matrix[at])).sum(0)
        return out

    def quadratic_adjoint(self, values: Real, like: str) -> Real:
        """Adjoint of :meth:`quadratic`: ``sum_j v_j w_j w_j'`` for rows of values (k, size).

        Parameters
        ----------
        values : ndarray (k, size)
            One row per covariance.
        like : {"spherical", "diag", "full"}
            The trace ``(k,)``, the diagonal ``(k, dim)`` or the whole matrix ``(k, dim, dim)``.
        """
        v = np.asarray(values, self.dtype)
        if like == "spherical":
            return np.asarray(v @ self.squared_norms)
        if like == "diag":
            return self.powers_adjoint(v, 2)
        k, d = len(v), self.shape[1]
        out = np.zeros((k, d, d), self.dtype)
        for at, w in self._coordinates():
            for l in range(k):
                out[l, at] = self.adjoint(v[l] * w)
        return out

    def powers(self, values: Real, exponent: int) -> Real:
        """Sums ``sum_a v_a w_a^e`` over the coordinates, (k, dim) to (k, size), for an even exponent."""
        v = np.asarray(values)
        out = np.zeros((len(v), self.shape[0]), np.result_type(v, self.dtype))
        for at, w in self._coordinates():
            out += v[:, at] @ even_power(w * w, exponent)
        return out

    def powers_adjoint(self, values: Real, exponent: int) -> Real:
        """Adjoint of :meth:`powers`: sums ``sum_j v_j w_ja^e`` over the frequencies, (k, size) to (k, dim)."""
        v = np.asarray(values)
        out = np.empty((len(v), self.shape[1]), np.result_type(v, self.dtype))
        for at, w in self._coordinates():
            out[:, at] = v @ even_power(w * w, exponent).T
        return out

    def cheapest(self) -> Operator:
        """An equal operator in the form whose products with many points cost the least."""
        return self

    def as_matrix(self) -> Operator:
        """An equal operator that keeps its entries and their squares in memory, unless they are too many."""
        size, dim = self.shape
        if size * dim > _MATRIX_ENTRIES:
            return self
        return DenseOperator(self.frequencies())

    def frequencies(self) -> Real:
        """All frequencies as a matrix (size, dim), for what needs every entry: `size` times `dim` numbers."""
        return np.ascontiguousarray(self.forward(np.eye(self.shape[1], dtype=self.dtype)).T)

    def sample(self, count: int, rng: np.random.Generator) -> Index:
        """At least so many frequencies that stand for all of them, in order: those whose products are cheap."""
        return np.sort(rng.permutation(self.shape[0])[:count])

    def normal(self, weights: Real, points: Real) -> tuple[Real, Real]:
        """``sum_p (w·c_p)^2`` (size,), and ``sum_j weights_j w_j (w_j·c_p)`` (k, dim), in one sweep."""
        projected = self.forward(points)
        return (projected * projected).sum(0), self.adjoint(projected * weights)

    def _coordinates(self) -> Iterator[tuple[slice, Real]]:
        """Coordinates of all frequencies, some at a time: (slice of columns, (columns, size))."""
        size, dim = self.shape
        step = max(1, min(dim, _BLOCK // max(size, 1)))
        for i in range(0, dim, step):
            at = slice(i, min(i + step, dim))
            yield at, self.forward(np.eye(dim, dtype=self.dtype)[at])

    def coordinate_squares(self) -> Real:
        """Squares of the coordinates of the frequencies, (dim, size)."""
        w = self.forward(np.eye(self.shape[1], dtype=self.dtype))
        return np.multiply(w, w, out=w)

    def pieces(self, size: int) -> list[tuple[slice, Operator]]:
        """The operator in pieces of so many frequencies where these cost less than the whole; else as it is."""
        return [(slice(0, self.shape[0]), self)]

    # -- the same frequencies, seen otherwise -----------------------------------------------------

    def rows(self, index: Index) -> Operator:
        """The operator of some of the frequencies; index -1 stands for the frequency 0."""
        return DerivedOperator(self, index=np.asarray(index, np.intp))

    def scaled(self, factor: float) -> Operator:
        """All frequencies times a number: points in units of `factor`."""
        return DerivedOperator(self, factor=float(factor))

    def transformed(self, matrix: Real) -> Operator:
        """The frequencies for rows ``A x`` instead of rows x: ``w'(A^-1 y)`` for points y."""
        return DerivedOperator(self, inverse=np.linalg.inv(np.asarray(matrix, np.float64)))

    @abstractmethod
    def astype(self, dtype: npt.DTypeLike) -> Operator:
        """An equal operator in another precision."""


class DenseOperator(Operator):
    """Frequencies kept as a matrix (size, dim)."""

    def __init__(self, matrix: Real) -> None:
        self._matrix = np.ascontiguousarray(matrix)

    def as_matrix(self) -> DenseOperator:
        return self

    def coordinate_squares(self) -> Real:
        return self._squares.T

    def pieces(self, size: int) -> list[tuple[slice, Operator]]:
        count = self.shape[0]
        if size >= count:
            return [(slice(0, count), self)]
        return [(slice(i, i + size), DenseOperator(self._matrix[i : i + size])) for i in range(0, count, size)]

    def frequencies(self) -> Real:
        return self._matrix.copy()

    @classmethod
    def of(cls, frequencies: Real, dtype: npt.DTypeLike = np.float32) -> DenseOperator:
        """From frequencies in the units of the points."""
        return cls(np.ascontiguousarray(frequencies, dtype))

    @staticmethod
    def of_half_turns(turns: F32, scale: float, dtype: npt.DTypeLike) -> Operator:
        """From frequencies in half-turns; large ones are kept as they are."""
        if turns.size <= COPIED_ENTRIES:
            return DenseOperator.of(turns.astype(np.float64) * math.pi * scale, dtype)
        wide = WidenedOperator(turns, math.pi * scale)
        return wide if np.dtype(dtype) == np.float64 else wide.astype(dtype)

    @property
    def shape(self) -> tuple[int, int]:
        return self._matrix.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._matrix.dtype

    @cached_property
    def _transposed(self) -> Real:
        return np.ascontiguousarray(self._matrix.T)

    def forward(self, points: npt.ArrayLike) -> Real:
        return np.asarray(points, self.dtype) @ (self._matrix.T if self._large else self._transposed)

    def adjoint(self, values: Real) -> Real:
        return np.asarray(values, self.dtype) @ self._matrix

    @cached_property
    def squared_norms(self) -> Real:
        return np.concatenate([(block * block).sum(1) for _, block in self._blocks()])

    @cached_property
    def _squares(self) -> Real:
        return self._matrix * self._matrix

    @property
    def _large(self) -> bool:
        """Whether copies in other forms would take more memory than they save time."""
        return self._matrix.size > COPIED_ENTRIES

    def _blocks(self, width: int | None = None) -> Iterator[tuple[slice, Real]]:
        """Some of the frequencies at a time, of which `width` numbers each are made."""
        step = max(1, _BLOCK // max(self.shape[1] if width is None else width, 1))
        for i in range(0, max(len(self._matrix), 1), step):
            yield slice(i, i + step), self._matrix[i : i + step]

    @property
    def _wide(self) -> bool:
        """Whether there are more products of coordinates than fit well."""
        size, dim = self.shape
        return size * dim * (dim + 1) // 2 * self.dtype.itemsize > _PRODUCT_BYTES

    @cached_property
    def _products(self) -> Real:
        """Products w_a w_b for a >= b, doubled off the diagonal, (size, dim (dim + 1) / 2)."""
        a, b = lower_triangle(self.shape[1])
        factors = np.where(a == b, 1, 2).astype(self.dtype)
        out = np.empty((len(self._matrix), len(a)), self.dtype, order="F")  # a product of columns after the other
        for at, block in self._blocks(len(a)):
            out[at] = block[:, a] * block[:, b] * factors
        return out

    def powers(self, values: Real, exponent: int) -> Real:
        each = [values @ even_power(squares, exponent).T for _, squares in self._squared()]
        return each[0] if len(each) == 1 else np.concatenate(each, 1)

    def powers_adjoint(self, values: Real, exponent: int) -> Real:
        each = (values[:, at] @ even_power(squares, exponent) for at, squares in self._squared())
        return np.asarray(reduce(np.add, each))

    def _squared(self) -> Iterator[tuple[slice, Real]]:
        """Squares of the entries: of all frequencies where these are kept, or of some at a time."""
        if self._large:
            yield from ((at, block * block) for at, block in self._blocks())
        else:
            yield slice(None), self._squares

    def quadratic(self, covariances: npt.ArrayLike) -> Real:
        s = np.clip(covariances, -_WIDEST, _WIDEST).astype(self.dtype, copy=False)
        if s.ndim < 2:
            return super().quadratic(s)
        if s.ndim == 2:
            return self.powers(s, 2)
        if self._wide:
            return np.stack([np.einsum("ij,ij->i", self._matrix @ matrix, self._matrix) for matrix in s])
        a, b = lower_triangle(self.shape[1])
        return np.asarray(s[:, a, b] @ self._products.T)

    def quadratic_adjoint(self, values: Real, like: str) -> Real:
        v = np.asarray(values, self.dtype)
        if like == "spherical":
            return np.asarray(v @ self.squared_norms)
        if like == "diag":
            return self.powers_adjoint(v, 2)
        if self._wide and self._large:
            return np.stack([sum((row[at] * block.T) @ block for at, block in self._blocks()) for row in v])
        if self._wide:
            return np.stack([(row * self._transposed) @ self._matrix for row in v])
        d = self.shape[1]
        a, b = lower_triangle(d)
        packed = (v @ self._products) / np.where(a == b, 1, 2).astype(self.dtype)
        out = np.empty((len(v), d, d), self.dtype)
        out[:, a, b] = packed
        out[:, b, a] = packed
        return out

    def rows(self, index: Index) -> DenseOperator:
        index = np.asarray(index, np.intp)
        chosen = self._matrix[index]
        chosen[index < 0] = 0
        return DenseOperator(chosen)

    def scaled(self, factor: float) -> DenseOperator:
        return DenseOperator(self._matrix * self.dtype.type(factor))

    def transformed(self, matrix: Real) -> DenseOperator:
        inverse = np.linalg.inv(np.asarray(matrix, np.float64))
        if not self._large:
            return DenseOperator((self._matrix.astype(np.float64) @ inverse).astype(self.dtype))
        out = np.empty_like(self._matrix)
        for at, block in self._blocks():
            out[at] = block.astype(np.float64) @ inverse
        return DenseOperator(out)

    def astype(self, dtype: npt.DTypeLike) -> DenseOperator:
        return self if self.dtype == dtype else DenseOperator(self._matrix.astype(dtype))


class WidenedOperator(Operator):
    """A large matrix in single precision, of which a block at a time is seen in double precision, its columns scaled.

    As exact as the whole in double precision, which would be twice as large as what is kept anyway.
    """

    def __init__(self, matrix: F32, factors: Real | float) -> None:
        self._matrix, self._factors = matrix, np.broadcast_to(np.asarray(factors, np.float64), matrix.shape[1:])

    @property
    def shape(self) -> tuple[int, int]:
        return self._matrix.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def _blocks(self) -> Iterator[tuple[slice, Real]]:
        step = max(1, _BLOCK // (8 * self.shape[1]))  # temporaries twice as wide
        for i in range(0, len(self._matrix), step):
            yield slice(i, i + step), self._matrix[i : i + step].astype(np.float64) * self._factors

    def forward(self, points: npt.ArrayLike) -> Real:
        x = np.asarray(points, np.float64)
        return np.concatenate([x @ block.T for _, block in self._blocks()], 1)

    def adjoint(self, values: Real) -> Real:
        return np.asarray(sum(values[:, at] @ block for at, block in self._blocks()))

    @cached_property
    def squared_norms(self) -> Real:
        return np.concatenate([(block * block).sum(1) for _, block in self._blocks()])

    def frequencies(self) -> Real:
        return np.concatenate([block for _, block in self._blocks()])

    def rows(self, index: Index) -> Operator:
        chosen = self._matrix[np.asarray(index, np.intp)]
        chosen[np.asarray(index) < 0] = 0
        if chosen.size > COPIED_ENTRIES:
            return WidenedOperator(chosen, self._factors)
        return DenseOperator(chosen.astype(np.float64) * self._factors)

    def scaled(self, factor: float) -> Operator:
        return WidenedOperator(self._matrix, self._factors * factor)

    def transformed(self, matrix: Real) -> Operator:
        diagonal = np.diag(matrix)
        if (np.asarray(matrix) == np.diag(diagonal)).all():
            return WidenedOperator(self._matrix, self._factors / diagonal)
        return DenseOperator(self.frequencies()).transformed(matrix)

    def astype(self, dtype: npt.DTypeLike) -> Operator:
        out = np.empty(self.shape, dtype)
        for at, block in self._blocks():
            out[at] = block
        return DenseOperator(out)


class DerivedOperator(Operator):
    """Some rows of another operator, in other units or in another metric, through its products."""

    def __init__(
        self, base: Operator, index: Index | None = None, factor: float = 1.0, inverse: Real | None = None
    ) -> None:
        self._base, self._index, self._factor, self._inverse = base, index, factor, inverse

    @cached_property
    def _distinct(self) -> bool:
        """Whether no row is there twice."""
        known = np.zeros(0, np.intp) if self._index is None else self._index[self._index >= 0]
        return len(np.unique(known)) == len(known)

    @property
    def shape(self) -> tuple[int, int]:
        size, dim = self._base.shape
        return (size if self._index is None else len(self._index)), dim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._base.dtype

    @property
    def work(self) -> float:
        return self._base.work * self._base.shape[0] / max(self.shape[0], 1)

    def forward(self, points: npt.ArrayLike) -> Real:
        x = np.asarray(points, np.float64)
        if self._inverse is not None:
            x = x @ self._inverse.T
        return self._chosen(self._base.forward(x * self._factor))

    def adjoint(self, values: Real) -> Real:
        out = self._base.adjoint(self._spread(np.asarray(values, self.dtype)))
        if self._inverse is not None:
            out = (out @ self._inverse).astype(self.dtype)
        return np.asarray(out * self.dtype.type(self._factor))

    def _chosen(self, out: Real) -> Real:
        """Of numbers of all frequencies, those of the rows."""
        if self._index is None:
            return out
        chosen = out.take(self._index, 1)
        chosen[:, self._index < 0] = 0
        return chosen

    def _spread(self, values: Real) -> Real:
        """Adjoint of :meth:`_chosen`."""
        if self._index is None:
            return values
        spread = np.zeros((len(values), self._base.shape[0]), values.dtype)
        known = self._index >= 0
        if self._distinct:
            spread[:, self._index[known]] = values[:, known]
        else:
            np.add.at(spread.T, self._index[known], values[:, known].T)
        return spread

    def powers(self, values: Real, exponent: int) -> Real:
        if self._inverse is not None:
            return super().powers(values, exponent)
        return self._chosen(self._base.powers(values, exponent)) * self.dtype.type(self._factor) ** exponent

    def powers_adjoint(self, values: Real, exponent: int) -> Real:
        if self._inverse is not None:
            return super().powers_adjoint(values, exponent)
        return self._base.powers_adjoint(self._spread(values), exponent) * self.dtype.type(self._factor) ** exponent

    def rows(self, index: Index) -> Operator:
        index = np.asarray(index, np.intp)
        known = index if self._index is None else np.where(index < 0, -1, self._index[index])
        return DerivedOperator(self._base, known, self._factor, self._inverse)

    def scaled(self, factor: float) -> Operator:
        return DerivedOperator(self._base.scaled(factor), self._index, self._factor, self._inverse)

    def astype(self, dtype: npt.DTypeLike) -> Operator:
        return DerivedOperator(self._base.astype(dtype), self._index, self._factor, self._inverse)


class IntegerOperator(Operator):
    """Directions of small integers, kept as a matrix or, where that is too large, as bytes widened block by block.

    Products come as float64 whatever is kept.
    """

    def __init__(self, directions: npt.NDArray[np.int8]) -> None:
        self._bytes = directions
        if directions.size <= _DOUBLE_ENTRIES:
            self._kept: Real = directions.astype(np.float64)
        elif directions.size <= _SINGLE_ENTRIES:
            self._kept = directions.astype(np.float32)
        else:
            self._kept = directions
        self._real = np.float64 if self._kept.dtype == np.float64 else np.float32
        self._step = len(directions) if self._kept.dtype != np.int8 else max(1, 2**23 // directions.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self._bytes.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @cached_property
    def squared_norms(self) -> Real:
        out = np.empty(self.shape[0])
        for at, block in self._blocks():
            out[at] = np.einsum("ij,ij->i", block, block)
        return out

    def _blocks(self) -> Iterator[tuple[slice, Real]]:
        for i in range(0, self.shape[0], self._step):
            yield slice(i, i + self._step), self._kept[i : i + self._step].astype(self._real, copy=False)

    def forward(self, points: npt.ArrayLike) -> Real:
        x = np.asarray(points).astype(self._real, copy=False).T
        out = np.empty((x.shape[1], self.shape[0]))
        for at, block in self._blocks():
            out[:, at] = (block @ x).T
        return out

    def adjoint(self, values: Real) -> Real:
        out = np.zeros((len(values), self.shape[1]))
        for at, block in self._blocks():
            out += np.asarray(values[:, at].astype(self._real, copy=False) @ block)
        return out

    def normal(self, weights: Real, points: Real) -> tuple[Real, Real]:
        lengths, out = np.empty(self.shape[0]), np.zeros(points.shape)
        x = np.asarray(points).astype(self._real, copy=False).T
        for at, block in self._blocks():
            t = block @ x
            lengths[at] = np.einsum("ij,ij->i", t, t)
            out += (block.T @ (t * weights[at, None].astype(self._real))).T
        return lengths, out

    def astype(self, dtype: npt.DTypeLike) -> Operator:
        return DenseOperator(self._bytes.astype(dtype))
