"""Structured frequencies: blocks of Walsh-Hadamard transforms and diagonals, summed over rows or applied to points.

A block of p = 2**q frequencies is ``S H D3 H D2 H D1`` (or ``S H D2 P H D1``, P a permutation): H the Walsh-Hadamard
matrix, D diagonals of signs or of normal numbers, S the radii with all normalisation.  It costs ``p log p`` additions
a row instead of ``p**2`` multiply-adds, and a few numbers per frequency instead of p.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers
from sketchlearn.kernels.fourier import PhaseSummer
from sketchlearn.kernels.plan import Plan, Rows, Weights, register_summer

Numbers = npt.NDArray[Any]


def loops(p: int, tier: str | None = None, sums: bool = False) -> ModuleType:
    """The loops of a tier (the one in use), or of the second one for transforms that are too short for vectors.

    For sums of blocks of three transforms, `sums`, there are vectors of several rows as well.
    """
    found = tiers.module("hadamard") if tier is None else tiers.module_of("hadamard", tier)
    if p >= found.SMALLEST:
        return found
    lanes = tiers.module_of("hadamard", "lanes")
    return lanes if sums and p >= lanes.SMALLEST else tiers.module_of("hadamard", "plain")


def levels(q: int, stage: int) -> list[int]:
    """The order of the levels of a transform of 2**q numbers: the widest first, except in the second stage.

    The second transform of a block has the levels of bits 2, 1 and 0 before those of bits 5, 4 and 3: what one
    transform shuffled within vectors the next one can then put back without shuffling more.
    """
    last = (2, 1, 0, 5, 4, 3) if stage == 1 else (5, 4, 3, 2, 1, 0)
    return [*range(q - 1, 5, -1), *(bit for bit in last if bit < q)]


def diagonals(signs: npt.NDArray[np.uint8], normals: npt.NDArray[np.float32], p: int) -> npt.NDArray[np.float32]:
    """The diagonals of all blocks, (blocks, stages, p) float32: signs from their bits, then the normal numbers."""
    bits = np.unpackbits(signs, axis=-1, count=p, bitorder="little")
    out = np.empty((bits.shape[0], bits.shape[1] + (normals.size > 0), p), np.float32)
    out[:, : bits.shape[1]] = 1.0 - 2.0 * bits
    if normals.size:
        out[:, -1] = normals
    return out


@register_summer("hadamard")
class HadamardSummer(PhaseSummer):
    """Cosines and sines in units of 2**-22, or how many are negative, of structured phases.

    The plan's arrays are `stretch` (d,) float32, what centred columns are multiplied by; `signs`
    (blocks, stages, bytes) uint8; `normals` and `permutation` (blocks, p), or empty; `radius` (m,) float32, in
    half-turns; for signs `dither` (m,) float32.  The number `p` is the length of a block.
    """

    def __init__(self, plan: Plan, tier: str | None = None) -> None:
        super().__init__(plan)
        arrays, self._width = plan.arrays, int(plan.numbers["p"])
        self._staging = tiers.module() if tier is None else tiers.module_of("", tier)
        self._loops = loops(self._width, tier, sums=not arrays["permutation"].size)
        self._signs = "dither" in arrays
        self._size = len(arrays["radius"])
        self._padded = len(arrays["signs"]) * self._width
        radius, dither = (
            np.pad(arrays[name], (0, self._padded - self._size)) if name in arrays else np.zeros(1, np.float32)
            for name in ("radius", "dither")
        )
        blocks = diagonals(arrays["signs"], arrays["normals"], self._width)
        self._tables = self._loops.pack_sums(blocks, arrays["permutation"], radius, dither)
        self._stretch = arrays["stretch"]
        self._plain = bool((self._stretch == 1).all())

    def _scratch(self, far: bool) -> Any:
        return self._loops.scratch(far, self._signs, self._width)

    def _add(
        self, near: Rows, far: Rows, kept: tuple[Weights, Weights], counts: Weights, sums: Weights, scratch: Any
    ) -> None:
        d = self.plan.dim
        if not self._plain:
            near[: counts[0, -1], :d] *= self._stretch
            far[: counts[1, -1], :d] *= self._stretch.astype(np.float64)
        super()._add(near, far, kept, counts, sums, scratch)


class Blocks:
    """Structured frequencies applied to points, forward and adjoint, in one precision.

    `stretch`: what the columns are multiplied by first, (d,). `blocks`: diagonals, (blocks, stages, p); see
    :func:`diagonals`. `permutation`: (blocks, p). `radius`: what the products are multiplied by last, (m,). `dtype`:
    float32 or float64. `tier`: which loops; by default those in use.
    """

    def __init__(
        self,
        stretch: Numbers,
        blocks: Numbers,
        permutation: Numbers,
        radius: Numbers,
        dtype: npt.DTypeLike,
        tier: str | None = None,
    ) -> None:
        self._made_of = stretch, blocks, permutation, radius
        self.dtype = np.dtype(dtype)
        self._p, self.size = blocks.shape[2], len(radius)
        self._stretch = np.asarray(stretch, self.dtype)
        padded = np.zeros(len(blocks) * self._p, self.dtype)
        padded[: self.size] = radius
        self._module = loops(self._p, tier)
        self._tables = *self._module.pack(blocks, permutation), padded

    def astype(self, dtype: npt.DTypeLike) -> Blocks:
        """Equal blocks in another precision."""
        return self if self.dtype == dtype else Blocks(*self._made_of, dtype)

    @property
    def padded_size(self) -> int:
        """Frequencies of whole blocks."""
        return len(self._tables[2])

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.nbytes for table in self._tables) + self._stretch.nbytes

    def parts(self, entries: int) -> Iterator[tuple[slice, Blocks]]:
        """The blocks in parts of about `entries` frequencies, each with the frequencies that it holds."""
        step = max(1, entries // self._p)
        for b in range(0, len(self._tables[0]), step):
            part = self.part(b, b + step)
            yield slice(b * self._p, b * self._p + part.size), part

    def part(self, first: int, stop: int) -> Blocks:
        """Some of the blocks."""
        table, permutation, padded = self._tables
        part, here, p = copy.copy(self), slice(first, stop), self._p
        part.size = min(stop * p, self.size) - first * p
        part._tables = (
            table[here], permutation[here] if permutation.size else permutation, padded[first * p : stop * p],
        )  # fmt: skip
        return part

    def _scratch(self) -> Any:
        # one more row than the loops fill: ones, the diagonal of a transform that has none
        rows = np.empty((4, self._p), self.dtype)
        rows[2] = 1.0
        return rows

    def forward(self, points: Numbers) -> Numbers:
        """(k, d) to (k, m)."""
        x = np.zeros((len(points), self._p), self.dtype)
        np.multiply(points, self._stretch, out=x[:, : len(self._stretch)], casting="same_kind")
        out = np.empty((len(x), len(self._tables[2])), self.dtype)
        self._module.forward(x, self._tables, out, self._scratch())
        return out[:, : self.size]

    def adjoint(self, values: Numbers) -> Numbers:
        """(k, m) to (k, d)."""
        v = np.asarray(values, self.dtype)
        full = len(self._tables[2])
        if v.shape[1] != full or not v.flags.c_contiguous:
            v = np.pad(v, ((0, 0), (0, full - v.shape[1])))
        out = np.zeros((len(v), self._p), self.dtype)
        self._module.adjoint(v, self._tables, out, self._scratch())
        return out[:, : len(self._stretch)] * self._stretch

    def padded_rows(self, count: int) -> Numbers:
        """A buffer for rows padded with zeros."""
        return np.zeros((count, self._p), self.dtype)

    def add_squares(self, rows: Numbers, count: int, sums: Numbers) -> None:
        """Add the squared products with the first padded rows to float64 sums."""
        self._module.add_squares(rows, count, self._tables, sums, self._scratch())

    def add_rounded_squares(self, rows: Numbers, count: int, weights: Weights, sums: Numbers) -> None:
        """Add squares in units of 2**-22, times weights, to int64 sums."""
        self._module.add_rounded_squares(rows, count, weights, self._tables, sums, self._scratch())
