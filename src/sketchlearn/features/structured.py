"""Structured frequencies: stacked blocks of Walsh-Hadamard transforms and random diagonals.

A block of ``p = 2**q >= dim`` frequencies is ``S M``, S the radii, and M one of

- ``"hadamard"``: ``p**-1.5 H D3 H D2 H D1`` with three diagonals of random signs; orthonormal; few bits per frequency.
  Its rows take few values where p is small, and the mean kernel is then visibly not Gaussian: refused below p = 16;
- ``"gr2"``: ``H G H D2 H D1 / (p |G|)`` with a diagonal G of normal numbers;
- ``"fastfood"``: ``H G P H D1 / (sqrt(p) |G|)`` with a random permutation P.

The rows of all three have length 1; those of the last two are uniform on the sphere, so the mean kernel is exactly
that of independent directions.  Rows of the data are padded with zeros to p columns, radii follow the law in p
dimensions (so that ``E|w|^2 = dim / scale^2`` for what is left of w), and of the last block as many frequencies are
kept as the size asks for (Chatalic, "Efficient and privacy-preserving compressive learning", chapter 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Index
from sketchlearn.features import portable
from sketchlearn.features.operator import DenseOperator, DerivedOperator, Operator, Real, even_power
from sketchlearn.kernels import hadamard as kernel

STRUCTURES = ("dense", "hadamard", "gr2", "fastfood")
_SIGNS = {"hadamard": 3, "gr2": 2, "fastfood": 1}
_SMALLEST = 16
_CROSSOVER = 64
_BLOCK = 2**22  # products that are looked at together
_SHORT = 128  # columns up to which a product with a matrix takes no longer than a transform
_TILE = 2048  # frequencies whose squares are made together, at least: fewer or more take a tenth longer
_KEPT_ENTRIES = 2**26  # squares of entries that are kept: 256 MB
_DENSE_ENTRIES = 2**24  # subsets of the frequencies up to here are kept as a matrix


def padded(dim: int) -> int:
    """The next power of two."""
    return 1 << (dim - 1).bit_length()


def unit_of(scale: float) -> float:
    """A power of two near an extreme scale, 1 for others: in its units no transform over- or underflows float32."""
    exponent = math.frexp(scale)[1]
    return math.ldexp(1.0, exponent) if abs(exponent) > 20 else 1.0


def choose(structure: str, dim: int, size: int, whitening: Array | None) -> str:
    """The structure that a name stands for; ValueError if there is none, or none for this dimension.

    ``"auto"`` is structured from 64 columns on, where the whole pass is faster by measurement
    (``benchmarks/structured.py``), if there is at least one block and the metric is that of the columns.
    """
    diagonal = whitening is None or not (whitening - np.diag(np.diag(whitening))).any()
    if structure == "auto":
        return "hadamard" if dim >= _CROSSOVER and size >= padded(dim) and diagonal else "dense"
    if structure not in STRUCTURES:
        raise ValueError(f"structure={structure!r}: choose one of auto, {', '.join(STRUCTURES)}")
    if structure == "hadamard" and dim < _SMALLEST:
        raise ValueError(
            f"structure='hadamard' needs at least {_SMALLEST} columns, got {dim}: with fewer, its kernel differs "
            "visibly from the requested one; choose 'gr2', 'fastfood' or 'dense'"
        )
    if structure != "dense" and not diagonal:
        raise ValueError(
            f"structure={structure!r} works only with diagonal whitening: a full matrix would destroy the structure"
        )
    return structure


@dataclass(frozen=True, eq=False)
class Blocks:
    """The random numbers of structured frequencies.

    `p`: length of a block. `signs`: A bit per sign, the lowest first, (blocks, diagonals, bytes); 1 for minus.
    `normals`: (blocks, p). `permutation`: (blocks, p). `radius`: in half-turns, with all normalisation, (size,).
    """

    p: int
    signs: npt.NDArray[np.uint8]
    normals: npt.NDArray[np.float32]
    permutation: npt.NDArray[np.int32]
    radius: npt.NDArray[np.float32]

    @classmethod
    def draw(cls, structure: str, dim: int, seed: int, radius: Array) -> Blocks:
        """Signs, normal numbers and order from the seed; `radius` are the lengths of the padded frequencies."""
        p = padded(dim)
        blocks = -(-len(radius) // p)
        count = -(-p // 8)
        words = portable.Bits(seed, 5).words(-(-blocks * _SIGNS[structure] * count // 8)).astype("<u8", copy=False)
        signs = words.view(np.uint8)[: blocks * _SIGNS[structure] * count].reshape(blocks, _SIGNS[structure], count)
        normals, permutation = np.empty((0, 0), np.float32), np.empty((0, 0), np.int32)
        factor = np.full(blocks, 1.0 / (p * math.sqrt(p)))
        if structure != "hadamard":
            normals = portable.Bits(seed, 6).normals(blocks * p).reshape(blocks, p).astype(np.float32)
            wide = normals.astype(np.float64)
            length = np.sqrt(portable.total(wide * wide))
            factor = 1.0 / (length * (p if structure == "gr2" else math.sqrt(p)))
        if structure == "fastfood":
            keys = portable.Bits(seed, 7).words(blocks * p).reshape(blocks, p)
            permutation = np.argsort(keys, axis=1, kind="stable").astype(np.int32)
        with np.errstate(over="ignore", under="ignore"):
            scaled = (radius * np.repeat(factor, p)[: len(radius)] / math.pi).astype(np.float32)
        return cls(p, np.array(signs), normals, permutation, scaled)

    def first(self, count: int, zeros: int = 0) -> Blocks:
        """The first of these frequencies, then so many that are 0: any with a radius of 0."""
        blocks = np.arange(-(-(count + zeros) // self.p)) % len(self.signs)
        return self._of(blocks, np.pad(self.radius[:count], (0, zeros)))

    def part(self, first: int, stop: int) -> Blocks:
        """Some of the blocks."""
        return self._of(slice(first, stop), self.radius[first * self.p : stop * self.p])

    def _of(self, blocks: Index | slice, radius: npt.NDArray[np.float32]) -> Blocks:
        normals = self.normals[blocks] if self.normals.size else self.normals
        permutation = self.permutation[blocks] if self.permutation.size else self.permutation
        return Blocks(self.p, self.signs[blocks], normals, permutation, radius)

    @property
    def unit(self) -> Array:
        """Lengths of the rows of each block before their radii, (blocks,)."""
        p = self.p
        if not self.normals.size:
            return np.full(len(self.signs), p * math.sqrt(p))
        wide = self.normals.astype(np.float64)
        return np.sqrt(portable.total(wide * wide)) * (math.sqrt(p) if self.permutation.size else p)

    @property
    def lengths(self) -> Array:
        """Lengths of the padded frequencies in radians, (size,)."""
        return self.radius.astype(np.float64) * math.pi * np.repeat(self.unit, self.p)[: len(self.radius)]

    def to_array(self) -> npt.NDArray[np.int8]:
        """All numbers as bytes, little-endian, one after the other: what is embedded and fingerprinted."""
        parts = [
            self.signs.ravel(),
            *(np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
              for a in (self.normals, self.permutation, self.radius)),
        ]  # fmt: skip
        return np.concatenate(parts).view(np.int8)

    @staticmethod
    def bytes_of(structure: str, dim: int, size: int) -> int:
        """Length of :meth:`to_array`."""
        p = padded(dim)
        blocks = -(-size // p)
        extra = {"hadamard": 0, "gr2": 4, "fastfood": 8}[structure]
        return blocks * _SIGNS[structure] * -(-p // 8) + extra * blocks * p + 4 * size

    @classmethod
    def from_array(cls, array: npt.NDArray[np.int8], structure: str, dim: int, size: int) -> Blocks:
        """Inverse of :meth:`to_array`."""
        p = padded(dim)
        blocks, count = -(-size // p), -(-p // 8)
        raw = np.ascontiguousarray(array).view(np.uint8)
        at = blocks * _SIGNS[structure] * count
        signs = raw[:at].reshape(blocks, _SIGNS[structure], count)
        rest: dict[str, Any] = {"normals": np.empty((0, 0), np.float32), "permutation": np.empty((0, 0), np.int32)}
        for name, dtype, present in (
            ("normals", "<f4", structure != "hadamard"),
            ("permutation", "<i4", structure == "fastfood"),
        ):
            if present:
                part = raw[at : at + 4 * blocks * p].view(dtype)
                rest[name] = part.astype(part.dtype.newbyteorder("=")).reshape(blocks, p)
                at += 4 * blocks * p
        if rest["permutation"].size and not (np.sort(rest["permutation"], axis=1) == np.arange(p)).all():
            raise ValueError("the embedded permutations are invalid")
        radius = raw[at : at + 4 * size].view("<f4")
        return cls(p, signs, radius=radius.astype(np.float32), **rest)


class Squares:
    """Squares of the entries of some blocks whose rows have length 1.

    They have no fast transform: as a matrix, the squares of a block are ``H A H``, and A, a product of two ambiguity
    functions, is as full as any. But products of a tile with points take longer than the transforms that make it. Tiles
    in single precision are kept up to a limit, and made again beyond.
    """

    def __init__(self, blocks: Blocks, dim: int) -> None:
        self._of, self._dim = blocks, dim
        self.step = max(_TILE // blocks.p, 1)  # blocks of a tile
        self._columns = max(_BLOCK // (self.step * blocks.p), 1)
        self._kept: dict[tuple[int, int], Real] = {}
        self._free = _KEPT_ENTRIES
        self._loops: dict[np.dtype[Any], kernel.Blocks] = {}

    def tiles(self, first: int, size: int, dtype: np.dtype[Any]) -> Iterator[tuple[slice, slice, Real]]:
        """Those of `size` frequencies from a block on, which begins a tile: columns, frequencies, and squares."""
        p = self._of.p
        for block in range(first, min(-(-(first * p + size) // p), len(self._of.signs)), self.step):
            start = (block - first) * p
            for column in range(0, self._dim, self._columns):
                squares = self._tile(block, column, dtype)[:, : size - start]
                columns, count = squares.shape
                yield slice(column, column + columns), slice(start, start + count), squares

    def _tile(self, block: int, column: int, dtype: np.dtype[Any]) -> Real:
        if dtype == np.float32 and (block, column) in self._kept:
            return self._kept[block, column]
        if dtype not in self._loops:
            of = self._of
            tables = kernel.diagonals(of.signs, of.normals, of.p), of.permutation, np.repeat(1.0 / of.unit, of.p)
            self._loops[dtype] = kernel.Blocks(np.ones(self._dim), *tables, dtype)
        count = min(self._columns, self._dim - column)
        out = self._loops[dtype].part(block, block + self.step).forward(np.eye(count, self._dim, column, dtype))
        out *= out
        if dtype == np.float32 and out.size <= self._free:
            self._kept[block, column] = out
            self._free -= out.size
        return out


class StructuredOperator(Operator):
    """Structured frequencies in radians: forward and adjoint cost ``m log p`` a point, memory O(m).

    Quadratic forms cost ``m d`` a point, and ``m d log p`` for each sweep, or memory for the squares of the entries: up
    to 256 MB, which operators of the same blocks share.
    """

    def __init__(
        self,
        blocks: Blocks,
        stretch: Array,
        scale: float,
        dtype: npt.DTypeLike = np.float32,
        squares: Squares | None = None,
        begin: int = 0,
    ) -> None:
        self._blocks, self._stretch, self._scale = blocks, stretch, scale
        self._dtype = np.dtype(dtype)
        self._squares = Squares(blocks, len(stretch)) if squares is None else squares
        self._begin = begin  # the first of our blocks among those of the squares

    def _like(self, **changed: Any) -> StructuredOperator:
        """An operator of the same blocks, or of some of them, that shares their squares."""
        now = {"blocks": self._blocks, "stretch": self._stretch, "scale": self._scale, "dtype": self._dtype,
               "squares": self._squares, "begin": self._begin}  # fmt: skip
        return StructuredOperator(**{**now, **changed})

    @cached_property
    def _loops(self) -> kernel.Blocks:
        return kernel.Blocks(self._stretch, *self._tables(), self._dtype)

    def _tables(self) -> tuple[Real, Real, Real]:
        blocks = self._blocks
        diagonals = kernel.diagonals(blocks.signs, blocks.normals, blocks.p)
        return diagonals, blocks.permutation, blocks.radius.astype(np.float64) * (math.pi * self._scale)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._blocks.radius), len(self._stretch)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def work(self) -> float:
        """Additions of three transforms, three of them in the time of a multiply-add of a product of matrices."""
        return math.log2(self._blocks.p)

    @property
    def nbytes(self) -> int:
        """Bytes of all tables, signs spread out."""
        return self._loops.nbytes

    def forward(self, points: npt.ArrayLike) -> Real:
        return self._loops.forward(np.asarray(points, self._dtype))

    def adjoint(self, values: Real) -> Real:
        return self._loops.adjoint(np.asarray(values, self._dtype))

    @cached_property
    def squared_norms(self) -> Real:
        """From the columns, or, where they are fewer and all padded columns are alike, from those that were cut off."""
        dim, p = self.shape[1], self._blocks.p
        unit = float(self._stretch[0])
        cut = p - dim < dim and bool((self._stretch == unit).all())
        loops = self._loops
        if cut:
            full = self._blocks.lengths * (unit * self._scale)
            out = full * full
            loops = kernel.Blocks(np.full(p, unit), *self._tables(), self._dtype)
        else:
            out = np.zeros(self.shape[0])
        step = max(1, 2**22 // self.shape[0])
        for i in range(dim if cut else 0, p if cut else dim, step):
            columns = np.arange(i, min(i + step, p if cut else dim))
            w = loops.forward((columns[:, None] == np.arange(p if cut else dim)).astype(self._dtype))
            out += (w * w).sum(0) * (-1.0 if cut else 1.0)
        return np.maximum(out, 0.0).astype(self._dtype)

    def normal(self, weights: Real, points: Real) -> tuple[Real, Real]:
        points = np.asarray(points, self._dtype)
        lengths, out = np.empty(self.shape[0], self._dtype), np.zeros(points.shape, self._dtype)
        for at, part in self._loops.parts(_BLOCK // max(1, len(points))):
            t = part.forward(points)
            lengths[at] = np.einsum("ij,ij->j", t, t)
            out += part.adjoint(t * weights[at].astype(self._dtype))
        return lengths, out

    @cached_property
    def _units(self) -> tuple[Array, Array]:
        """Stretches in units of the largest, and lengths of the frequencies with it."""
        unit = float(np.abs(self._stretch).max())
        return self._stretch / unit, self._blocks.lengths * (self._scale * unit)

    def powers(self, values: Real, exponent: int) -> Real:
        v = np.asarray(values)
        dtype = np.result_type(v, self._dtype)
        stretch, lengths = self._units
        v = (v * stretch**exponent).astype(dtype)
        out = np.zeros((len(v), self.shape[0]), dtype)
        for columns, at, squares in self._squares.tiles(self._begin, self.shape[0], self._dtype):
            out[:, at] += v[:, columns] @ even_power(squares, exponent)
        return np.multiply(out, (lengths**exponent).astype(dtype), out=out)

    def powers_adjoint(self, values: Real, exponent: int) -> Real:
        v = np.asarray(values)
        dtype = np.result_type(v, self._dtype)
        stretch, lengths = self._units
        v = (v * lengths**exponent).astype(dtype)
        out = np.zeros((len(v), self.shape[1]), dtype)
        for columns, at, squares in self._squares.tiles(self._begin, self.shape[0], self._dtype):
            out[:, columns] += v[:, at] @ even_power(squares, exponent).T
        return np.asarray(out * stretch**exponent, dtype)

    def pieces(self, size: int) -> list[tuple[slice, Operator]]:
        p, step = self._blocks.p, self._squares.step
        step *= max(size // (step * p), 1)  # blocks
        if step * p >= self.shape[0]:
            return super().pieces(size)
        return [
            (slice(b * p, min((b + step) * p, self.shape[0])),
             self._like(blocks=self._blocks.part(b, b + step), begin=self._begin + b))
            for b in range(0, len(self._blocks.signs), step)
        ]  # fmt: skip

    def cheapest(self) -> Operator:
        """A matrix, if it is small and transforms are short: it has a fast form for the squares of its entries too."""
        size, dim = self.shape
        if self._blocks.p > _SHORT or size * dim > _DENSE_ENTRIES:
            return self
        return self.as_matrix()

    def sample(self, count: int, rng: np.random.Generator) -> Index:
        """The first blocks: they are independent, and a part of a block costs as much as the whole."""
        p = self._blocks.p
        return np.arange(min(-(-count // p) * p, self.shape[0]))

    def rows(self, index: Index) -> Operator:
        index = np.asarray(index, np.intp)
        size, dim = self.shape
        count, p = int((index >= 0).sum()), self._blocks.p
        if p <= count <= size and (index[:count] == np.arange(count)).all():  # the first ones, then zeros
            return self._like(blocks=self._blocks.first(count, len(index) - count))
        transforms = 3 * size * math.log2(self._blocks.p)
        if len(index) * dim > min(_DENSE_ENTRIES, 4 * transforms):
            return DerivedOperator(self, index=index)
        # few frequencies are cheaper as they are
        matrix = np.empty((len(index), dim), self._dtype)
        for at, w in self._coordinates():
            matrix[:, at] = w[:, index].T
        matrix[index < 0] = 0
        return DenseOperator(matrix)

    def scaled(self, factor: float) -> StructuredOperator:
        return self._like(scale=self._scale * float(factor))

    def transformed(self, matrix: Real) -> Operator:
        matrix = np.asarray(matrix, np.float64)
        diagonal = np.diag(matrix)
        if (matrix - np.diag(diagonal)).any():
            return super().transformed(matrix)
        return self._like(stretch=self._stretch / diagonal)

    def astype(self, dtype: npt.DTypeLike) -> StructuredOperator:
        return self if self._dtype == dtype else self._like(dtype=np.dtype(dtype))
