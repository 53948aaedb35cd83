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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Index
from sketchlearn.features import portable
from sketchlearn.features.operator import DenseOperator, DerivedOperator, Operator, Real
from sketchlearn.kernels import hadamard as kernel

STRUCTURES = ("dense", "hadamard", "gr2", "fastfood")
_SIGNS = {"hadamard": 3, "gr2": 2, "fastfood": 1}
_SMALLEST = 16
_CROSSOVER = 64
_BLOCK = 2**22  # products that are looked at together
_SHORT = 128  # columns up to which a product with a matrix takes no longer than a transform
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

    def first(self, count: int) -> Blocks:
        """The first of these blocks."""
        return Blocks(
            self.p, self.signs[:count], self.normals[:count], self.permutation[:count], self.radius[: count * self.p]
        )

    @property
    def lengths(self) -> Array:
        """Lengths of the padded frequencies in radians, (size,)."""
        p = self.p
        unit = np.full(len(self.signs), p * math.sqrt(p))
        if self.normals.size:
            wide = self.normals.astype(np.float64)
            unit = np.sqrt(portable.total(wide * wide)) * (math.sqrt(p) if self.permutation.size else p)
        return self.radius.astype(np.float64) * math.pi * np.repeat(unit, p)[: len(self.radius)]

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


class StructuredOperator(Operator):
    """Structured frequencies in radians: forward and adjoint cost ``m log p`` a point, memory O(m)."""

    def __init__(self, blocks: Blocks, stretch: Array, scale: float, dtype: npt.DTypeLike = np.float32) -> None:
        self._blocks, self._stretch, self._scale = blocks, stretch, scale
        self._dtype = np.dtype(dtype)

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
        count, p = len(index), self._blocks.p
        if p <= count <= size and count % p == 0 and (index == np.arange(count)).all():
            return StructuredOperator(self._blocks.first(count // p), self._stretch, self._scale, self._dtype)
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
        return StructuredOperator(self._blocks, self._stretch, self._scale * float(factor), self._dtype)

    def transformed(self, matrix: Real) -> Operator:
        matrix = np.asarray(matrix, np.float64)
        diagonal = np.diag(matrix)
        if (matrix - np.diag(diagonal)).any():
            return super().transformed(matrix)
        return StructuredOperator(self._blocks, self._stretch / diagonal, self._scale, self._dtype)

    def astype(self, dtype: npt.DTypeLike) -> StructuredOperator:
        return self if self._dtype == dtype else StructuredOperator(self._blocks, self._stretch, self._scale, dtype)
