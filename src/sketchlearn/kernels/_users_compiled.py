"""Hashes of rows, and the rows of each user with the smallest ones; compiled loops."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled
from sketchlearn.kernels._constants import MIX
from sketchlearn.kernels._hash_compiled import _bits

_ONE, _TWO, _THREE = (np.uint64(c) for c in MIX)
_A, _B, _C = np.uint64(30), np.uint64(27), np.uint64(31)
_MISSING = np.uint64(0x7FF8000000000000)  # one NaN
_ALL = np.uint64(2**64 - 1)


@compiled
def count(users, mask, most, counts):
    """How many rows share the last bits of a user, no further than one above `most`; how many counts got there."""
    above = 0
    for i in range(len(users)):
        at = users[i] & mask
        n = counts[at]
        counts[at] = n + (n <= most)
        above += n == most
    return above


@compiled
def certain(users, mask, most, counts, found):
    """Mark the rows whose count is at most `most`."""
    for i in range(len(users)):
        found[i] = counts[users[i] & mask] <= most


@compiled
def row_hashes(X, out):
    """A number for each row of float64 from its values, with one zero and one NaN, and the number in `out`.

    `X`: the rows, by columns, (d, n). `out`: what hashes start from, and the result, (n,).
    """
    n = X.shape[1]
    for j in range(n):
        h = out[j]
        h = (h ^ (h >> _A)) * _TWO
        h = (h ^ (h >> _B)) * _THREE
        out[j] = h ^ (h >> _C)
    for k in range(X.shape[0]):
        for j in range(n):
            x = X[k, j]
            value = _bits(x + 0.0)
            h = out[j] * _ONE + (value if x == x else _MISSING)
            h = (h ^ (h >> _A)) * _TWO
            h = (h ^ (h >> _B)) * _THREE
            out[j] = h ^ (h >> _C)


@compiled
def count_buckets(users, certain, shift, sizes):
    """How many rows that are not certain each bucket has: the leading bits of their users."""
    for i in range(len(users)):
        if not certain[i]:
            sizes[users[i] >> shift] += 1


@compiled
def spread(users, certain, hashes, shift, first, ends, waiting):
    """Users, hashes and places of rows in the order of their buckets, for some buckets.

    `users`, `certain`, `hashes`: of all rows, (n,); those that are certain are left out. `first`: the first bucket.
    `ends`: where each begins, (buckets,); on return where it ends. `waiting`: the result, (m, 3).
    """
    buckets = np.uint64(len(ends))
    for i in range(len(users)):
        bucket = (users[i] >> shift) - first  # of earlier ones beyond all others
        if bucket < buckets and not certain[i]:
            at = ends[bucket]
            ends[bucket] = at + 1
            waiting[at, 0], waiting[at, 1], waiting[at, 2] = users[i], hashes[i], i


@compiled
def choose(ends, waiting, most, table, known, sizes, firsts, limits, slots, values, keep):
    """Mark of each user the rows with the smallest hashes, `most` of them, the first of equals.

    `ends`, `waiting`: as :func:`spread` leaves them. `table`: buffer, (a power of two, at least twice the largest
    bucket): number of a user in the bucket, by the last bits of the user. `known`, `sizes`, `firsts`, `limits`,
    `slots`, `values`: buffers, (largest bucket,): the users of a bucket, how many rows each has, where their hashes
    begin, the largest hash that counts, the user of each row, hashes by user. `keep`: where rows that count are marked,
    (n,).
    """
    start = 0
    for b in range(len(ends)):
        n, users, width = ends[b] - start, 0, 2
        while width < 2 * n:
            width *= 2
        last = np.uint64(width - 1)
        for i in range(width):
            table[i] = -1
        for i in range(n):
            user = waiting[start + i, 0]
            at = np.int64(user & last)
            while table[at] >= 0 and known[table[at]] != user:
                at = np.int64(np.uint64(at + 1) & last)
            if table[at] < 0:
                table[at], known[users], sizes[users] = users, user, 0
                users += 1
            slots[i] = table[at]
            sizes[slots[i]] += 1
        total = 0
        for u in range(users):
            firsts[u] = total
            total += sizes[u]
        for i in range(n):
            u = slots[i]
            values[firsts[u]] = waiting[start + i, 1]
            firsts[u] += 1
        for u in range(users):
            if sizes[u] <= most:
                limits[u] = _ALL
                continue
            low, high = firsts[u] - sizes[u], firsts[u] - 1
            wanted = low + most - 1
            while low < high:  # quickselect (Hoare)
                pivot, i, j = values[(low + high) // 2], low, high
                while i <= j:
                    while values[i] < pivot:
                        i += 1
                    while values[j] > pivot:
                        j -= 1
                    if i <= j:
                        values[i], values[j] = values[j], values[i]
                        i += 1
                        j -= 1
                if wanted <= j:
                    high = j
                elif wanted >= i:
                    low = i
                else:
                    low = high
            limits[u] = values[wanted]
            sizes[u] = most
        for i in range(n):  # from here on sizes are how many may still count
            u = slots[i]
            if waiting[start + i, 1] < limits[u]:
                keep[waiting[start + i, 2]] = True
                sizes[u] -= 1
        for i in range(n):
            u = slots[i]
            if waiting[start + i, 1] == limits[u] and sizes[u] > 0:
                keep[waiting[start + i, 2]] = True
                sizes[u] -= 1
        start = ends[b]
