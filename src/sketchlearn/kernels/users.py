"""Which rows of each user count: those with the smallest hashes."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

U64 = npt.NDArray[np.uint64]
_BLOCK = 2**10  # rows made float64 together: they stay in the cache
_TOGETHER = 14  # about 2**14 rows are looked at together
_AT_ONCE, _PARTS = 2**20, 8  # rows that are put in order at once, or an eighth of all: fresh memory costs time


def row_hashes(rows: npt.NDArray[np.floating], start: U64) -> U64:
    """A number for each row that follows from its values as float64 and from a number to start with."""
    out = start.copy()
    hashes = tiers.loops("users").row_hashes
    for i in range(0, len(rows), _BLOCK):
        hashes(np.ascontiguousarray(rows[i : i + _BLOCK].T, np.float64), out[i : i + _BLOCK])
    return out


def certain(users: U64, most: int) -> npt.NDArray[np.bool_] | None:
    """Rows that share some bits of their user with at most `most` rows; None if these are all."""
    if len(users) <= most:
        return None
    loops, bits = tiers.loops("users"), max(6, (len(users) - 1).bit_length() - 1)
    counts = np.zeros(1 << bits, np.uint8 if most < 255 else np.uint32)
    mask, limit = np.uint64((1 << bits) - 1), counts.dtype.type(most)
    if not loops.count(users, mask, limit, counts):
        return None
    found = np.empty(len(users), np.bool_)
    loops.certain(users, mask, limit, counts, found)
    return found


def chosen(users: U64, hashes: U64, most: int, certain: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """Which rows count: of each user those with the smallest hashes, `most` of them.

    Rows go to buckets by the leading bits of their users, and users are told apart in each bucket.  Rows that are
    certain count whatever their hashes; none of their users has others.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.kernels.users import chosen
    >>> chosen(np.array([7, 7, 5, 7], np.uint64), np.array([30, 10, 40, 20], np.uint64), 2)
    array([False,  True,  True,  True])
    """
    sure = np.zeros(len(users), np.bool_) if certain is None else certain
    keep, loops = sure.copy(), tiers.loops("users")
    bits = min(16, max(1, len(users).bit_length() - _TOGETHER))
    shift, sizes = np.uint64(64 - bits), np.zeros(1 << bits, np.int64)
    loops.count_buckets(users, sure, shift, sizes)
    largest = int(sizes.max())
    buffers = [np.empty(largest, kind) for kind in (np.uint64, np.int64, np.int64, np.uint64, np.int32, np.uint64)]
    table = np.empty(2 << max(1, largest.bit_length()), np.int32)
    part = np.cumsum(sizes) // max(_AT_ONCE, len(users) // _PARTS + 1)
    cuts = np.flatnonzero(np.diff(part, prepend=-1, append=-1))
    waiting = np.empty((max(int(sizes[a:b].sum()) for a, b in itertools.pairwise(cuts)), 3), np.uint64)
    for a, b in itertools.pairwise(cuts.tolist()):
        ends = np.cumsum(sizes[a:b]) - sizes[a:b]
        loops.spread(users, sure, hashes, shift, np.uint64(a), ends, waiting)
        loops.choose(ends, waiting, min(most, len(users)), table, *buffers, keep)
    return keep
