"""A number for each row that follows from its content alone; compiled version."""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sketchlearn.kernels._compile import compiled
from sketchlearn.kernels._constants import MIX

_ONE, _TWO, _THREE = (np.uint64(c) for c in MIX)
_HALF, _SHIFT = np.uint64(32), np.uint64(29)


@intrinsic
def _bits(typingctx, x):
    def codegen(context, b, sig, args):
        return b.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@compiled
def pick(X, seed, groups, out):
    """A group in [0, groups) for each row: a hash of its numbers as float64, with one zero.

    Four chains over the columns modulo 4 are joined at the end, each step an exclusive or, a product and a shift.
    """
    d = X.shape[1]
    whole = d - d % 4
    for i in range(X.shape[0]):
        a, b, c, e = seed, seed + np.uint64(1), seed + np.uint64(2), seed + np.uint64(3)
        for k in range(0, whole, 4):
            a = (a ^ _bits(np.float64(X[i, k]) + 0.0)) * _ONE
            b = (b ^ _bits(np.float64(X[i, k + 1]) + 0.0)) * _ONE
            c = (c ^ _bits(np.float64(X[i, k + 2]) + 0.0)) * _ONE
            e = (e ^ _bits(np.float64(X[i, k + 3]) + 0.0)) * _ONE
            a, b, c, e = a ^ (a >> _HALF), b ^ (b >> _HALF), c ^ (c >> _HALF), e ^ (e >> _HALF)
        if whole < d:
            a = (a ^ _bits(np.float64(X[i, whole]) + 0.0)) * _ONE
            a = a ^ (a >> _HALF)
        if whole + 1 < d:
            b = (b ^ _bits(np.float64(X[i, whole + 1]) + 0.0)) * _ONE
            b = b ^ (b >> _HALF)
        if whole + 2 < d:
            c = (c ^ _bits(np.float64(X[i, whole + 2]) + 0.0)) * _ONE
            c = c ^ (c >> _HALF)
        h = (a ^ b) * _TWO
        h = h ^ (h >> _SHIFT)
        h = (h ^ c) * _TWO
        h = h ^ (h >> _SHIFT)
        h = (h ^ e) * _TWO
        h = (h ^ (h >> _SHIFT)) * _THREE
        h = h ^ (h >> _HALF)
        out[i] = np.int64(((h >> _HALF) * groups) >> _HALF)


@compiled
def gather(X, weights, group, ends, rows, kept):
    """Rows (and weights, if there are any) in the order of their groups; `ends` are those of the groups, zero before.

    `X`, `weights`, `group`: the rows; weights may be empty. `ends`: on return where each group ends, (groups,). `rows`,
    `kept`: the result.
    """
    for i in range(len(group)):
        ends[group[i]] += 1
    total = 0
    for g in range(len(ends)):  # where each group begins
        total += ends[g]
        ends[g] = total - ends[g]
    weighted = len(weights) > 0
    for i in range(len(group)):
        place = ends[group[i]]
        ends[group[i]] = place + 1
        for k in range(X.shape[1]):
            rows[place, k] = X[i, k]
        if weighted:
            kept[place] = weights[i]
