"""Sums of cells as bytes: as few per sum as the largest one needs, in two planes, so that thousands add up at once.

A sum of n rows is below n * 2**22: of 64 bits, a cell of a hundred rows uses 30, and the lower ones are noise that no
compressor makes smaller.  Sums of `w` bytes are kept as one plane of the lower bytes (unsigned) and one of the upper
ones (signed); adding cells is adding planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Ints

Bytes = npt.NDArray[np.uint8]

_PLANES: dict[int, tuple[str | None, str]] = {
    1: (None, "<i1"), 2: (None, "<i2"), 3: ("<u2", "<i1"), 4: (None, "<i4"), 5: ("<u4", "<i1"), 6: ("<u4", "<i2"),
    8: (None, "<i8"),
}  # fmt: skip
"""Types of the lower and the upper plane by the number of bytes of a sum."""


_BLOCK = 128  # cells that are packed at a time: their sums fit the cache


class Packed(NamedTuple):
    """Byte strings, one after the other.

    `data`: all bytes. `offsets`: where each string begins; one more entry than there are strings.
    """

    data: Bytes
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, strings: list[bytes]) -> Packed:
        """Some byte strings together."""
        lengths = np.fromiter(map(len, strings), np.int64, len(strings))
        return cls(np.frombuffer(b"".join(strings), np.uint8), np.concatenate([[0], np.cumsum(lengths)]))

    def strings(self) -> list[bytes]:
        """Each byte string on its own."""
        whole, ends = self.data.tobytes(), self.offsets.tolist()
        return [whole[a:b] for a, b in pairwise(ends)]


def pack(sums: npt.NDArray[np.generic]) -> Packed:
    """Rows of sums (cells, entries), int64 or float64, as bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.store.packing import pack, unpack
    >>> sums = np.array([[1, -2, 3], [10**9, 5, -(10**11)]])
    >>> packed = pack(sums)
    >>> np.diff(packed.offsets).tolist(), (unpack(packed, 3) == sums).all().item()
    ([3, 15], True)
    """
    count, entries = sums.shape
    if sums.dtype.kind == "f":
        data = np.frombuffer(np.ascontiguousarray(sums, "<f8").tobytes(), np.uint8)
        return Packed(data, np.arange(count + 1, dtype=np.int64) * (8 * entries))
    widths = _widths(sums.astype(np.int64, copy=False))
    offsets = np.concatenate([[0], np.cumsum(widths * entries)]).astype(np.int64)
    data = np.empty(int(offsets[-1]), np.uint8)
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        block = _planes(sums[chosen].astype(np.int64, copy=False), width)
        if len(chosen) == count:
            data[:] = block.reshape(-1)
            continue
        for line, i in zip(block, chosen.tolist(), strict=True):
            data[offsets[i] : offsets[i + 1]] = line
    return Packed(data, offsets)


def pack_each(sums: Sequence[AnyArray]) -> Packed:
    """Arrays of sums of one shape, one cell each, as bytes; they are gathered in blocks that stay in the cache."""
    space = np.empty((min(len(sums), _BLOCK), sums[0].size), sums[0].dtype)
    pieces: list[Packed] = []
    for i in range(0, len(sums), _BLOCK):
        chosen = sums[i : i + _BLOCK]
        for line, values in zip(space, chosen, strict=False):
            line[:] = values.reshape(-1)
        pieces.append(pack(space[: len(chosen)]))
    lengths = np.concatenate([np.diff(piece.offsets) for piece in pieces])
    return Packed(
        np.concatenate([piece.data for piece in pieces]), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    )


def _widths(sums: Ints) -> Ints:
    """Bytes that the largest sum of each row needs, sign included."""
    largest = np.maximum(sums.max(axis=1, initial=0), ~sums.min(axis=1, initial=0))
    bits = np.zeros(len(sums), np.int64)
    for power in (32, 16, 8, 4, 2, 1):
        more = largest >= np.int64(1) << power
        bits[more] += power
        largest = np.where(more, largest >> power, largest)
    needed = (bits + 1 + (largest > 0)) // 8 + 1  # bits of the number, one of the sign, in whole bytes
    needed = np.where((bits + 1 + (largest > 0)) % 8 == 0, needed - 1, needed)
    return np.where(needed == 7, 8, np.maximum(needed, 1))


def _planes(sums: Ints, width: int) -> Bytes:
    low, high = (None if t is None else np.dtype(t) for t in _PLANES[width])
    assert high is not None
    upper = sums if low is None else sums >> (8 * low.itemsize)
    parts = [np.ascontiguousarray(upper.astype(high)).view(np.uint8).reshape(len(sums), -1)]
    if low is not None:
        lower = (sums & ((1 << (8 * low.itemsize)) - 1)).astype(low)
        parts.insert(0, np.ascontiguousarray(lower).view(np.uint8).reshape(len(sums), -1))
    return np.concatenate(parts, axis=1)


class _Block(NamedTuple):
    """Planes of cells of one width: their places, and (shift in bits, plane) pairs."""

    places: Ints
    planes: list[tuple[int, npt.NDArray[np.generic]]]


def _blocks(packed: Packed, entries: int) -> Iterator[_Block]:
    lengths = np.diff(packed.offsets)
    for length in np.unique(lengths).tolist():
        width, rest = divmod(length, entries)
        if rest or width not in _PLANES:
            raise ValueError(f"damaged: a cell of {length} bytes can't hold {entries} sums")
        places = np.flatnonzero(lengths == length)
        runs = np.flatnonzero(np.diff(places, prepend=-2) != 1).tolist()
        ends = [*runs[1:], len(places)]
        pieces = [
            packed.data[packed.offsets[places[a]] : packed.offsets[places[b - 1] + 1]]
            for a, b in zip(runs, ends, strict=True)
        ]
        lines = (pieces[0] if len(pieces) == 1 else np.concatenate(pieces)).reshape(len(places), length)
        low, high = _PLANES[width]
        shift = 0 if low is None else 8 * np.dtype(low).itemsize
        cut = entries * shift // 8
        planes: list[tuple[int, npt.NDArray[np.generic]]] = [(shift, _typed(lines[:, cut:], high))]
        if low is not None:
            planes.append((0, _typed(lines[:, :cut], low)))
        yield _Block(places, planes)


def _typed(lines: Bytes, kind: str) -> npt.NDArray[np.generic]:
    """Lines of bytes as numbers; numbers that are not aligned are copied."""
    dtype = np.dtype(kind)
    if not lines.flags.c_contiguous or lines.ctypes.data % dtype.alignment:
        lines = np.array(lines, order="C")
    return lines.view(dtype)


def unpack(packed: Packed, entries: int, kind: str = "i") -> npt.NDArray[np.generic]:
    """Inverse of :func:`pack`: (cells, entries), int64, or float64 for ``kind="f"``."""
    if kind == "f":
        return np.frombuffer(packed.data.tobytes(), "<f8").reshape(len(packed), entries)
    out = np.zeros((len(packed), entries), np.int64)
    for block in _blocks(packed, entries):
        for shift, plane in block.planes:
            out[block.places] += plane.astype(np.int64) << shift
    return out


def add_into(out: Ints, packed: Packed, codes: Ints, factors: Ints | None = None) -> None:
    """Add cells to rows of sums: cell i, times ``factors[i]``, to row ``codes[i]`` of `out` (rows, entries).

    The caller has made sure, from the weights of the cells, that no sum leaves int64.
    """
    for block in _blocks(packed, out.shape[1]):
        which = codes[block.places]
        order = None if len(out) == 1 or np.all(which[:-1] <= which[1:]) else np.argsort(which, kind="stable")
        sorted_ = which if order is None else which[order]
        starts = np.flatnonzero(np.diff(sorted_, prepend=-1))
        for shift, plane in block.planes:
            lines = plane if order is None else plane[order]
            if factors is not None:
                chosen = factors[block.places]
                lines = lines.astype(np.int64) * (chosen if order is None else chosen[order])[:, None]
            if len(starts) == 1:
                out[sorted_[0]] += lines.sum(axis=0, dtype=np.int64) << shift
            elif len(starts) == len(lines):
                out[sorted_] += lines.astype(np.int64) << shift
            else:
                out[sorted_[starts]] += np.add.reduceat(lines, starts, axis=0, dtype=np.int64) << shift
