"""Structured pass over as many rows at once as a vector has lanes: no level needs a shuffle.

Rows are turned such that a vector holds one column of all of them.  Every level then runs between whole vectors, up
to three of them between a load and a store; a multiplication by a diagonal is one by a number that all lanes share.
The last levels of the last transform go straight on to phases, cosines and integer sums, a sum per lane, which are
added up at the end.  The order of levels is the one of ``hadamard.levels``, so the bits are those of the other tiers.

For transforms of 16 and 32 numbers this is the first tier; longer ones take whole groups of rows from here.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels import _hadamard_plain as _plain
from sketchlearn.kernels._compile import aligned, compiled, pointer
from sketchlearn.kernels._tile import I32, I64, LANES, Vectors
from sketchlearn.kernels._vector import _ZERO32, signs, waves

SMALLEST = 16
"""Shorter transforms are left to the second tier."""
LONGEST = 512
"""Longer ones leave the first-level cache; rows one at a time are then faster."""
_LANES, _FLUSH = LANES, K.FLUSH_ROWS


class _Columns(Vectors):
    """Vectors of one column of several rows."""

    def at(self, index, pointer):
        """Where the vector of a column is."""
        place = self.b.gep(pointer, [self.b.mul(index, ir.Constant(I64, LANES))])
        return self.b.bitcast(place, ir.VectorType(pointer.type.pointee, LANES).as_pointer())

    def number(self, pointer, index):
        """A number behind a pointer, in every lane."""
        return self.broadcast(self.b.load(self.b.gep(pointer, [index])))

    def levels(self, x):
        """The levels between all vectors, the widest first, in place."""
        h = len(x) // 2
        while h:
            for j in range(len(x)):
                if not j & h:
                    x[j], x[j + h] = self.b.fadd(x[j], x[j + h]), self.b.fsub(x[j], x[j + h])
            h //= 2

    def columns(self, turn, shift, radix):
        """Columns of one turn of a loop over all of them: `radix`, ``1 << shift`` apart."""
        b = self.b
        bits = ir.Constant(I64, radix.bit_length() - 1)
        inner = b.and_(turn, b.sub(b.shl(ir.Constant(I64, 1), shift), ir.Constant(I64, 1)))
        base = b.add(b.shl(b.lshr(turn, shift), b.add(shift, bits)), inner)
        return [b.add(base, b.shl(ir.Constant(I64, k), shift)) for k in range(radix)]


def _levels(radix, times):
    """Levels of bits `shift` and above, as many as `radix` has, for all columns.

    Factors come before them, between two rounds of them ("between"), or not at all (None).
    """

    @intrinsic
    def kernel(typingctx, src, dst, factors, shift, turns):
        def codegen(context, b, sig, args):
            src, dst, factors, shift, turns = args
            code = _Columns(b, 32)
            with cgutils.for_range(b, turns) as loop:
                places = code.columns(loop.index, shift, radix)
                x = [b.load(code.at(c, src), align=4) for c in places]
                if times == "between":
                    code.levels(x)
                if times:
                    x = [b.fmul(v, code.number(factors, c)) for v, c in zip(x, places, strict=True)]
                code.levels(x)
                for v, c in zip(x, places, strict=True):
                    b.store(v, code.at(c, dst), align=4)
            return context.get_dummy_value()

        return types.void(src, dst, factors, types.intp, types.intp), codegen

    return kernel


_first_2, _first_4, _first_8 = (_levels(radix, "before") for radix in (2, 4, 8))
_both_2, _both_4, _both_8 = (_levels(radix, "between") for radix in (2, 4, 8))
_next_2, _next_4, _next_8 = (_levels(radix, None) for radix in (2, 4, 8))


@intrinsic
def _summed(typingctx, src, factors, dither, cosines, sines, turns):
    """The levels of bits 2, 1 and 0, then phases, and what they add to the sums of each lane."""
    units = waves if cosines.dtype.signed else signs

    def codegen(context, b, sig, args):
        src, factors, dither, cosines, sines, turns = args
        code = _Columns(b, 32)
        with cgutils.for_range(b, turns) as loop:
            places = code.columns(loop.index, ir.Constant(I64, 0), 8)
            x = [b.load(code.at(c, src), align=4) for c in places]
            code.levels(x)
            for v, c in zip(x, places, strict=True):
                t = b.fmul(v, code.number(factors, c))
                if units is signs:
                    t = b.fadd(t, code.number(dither, c))
                for unit, sums in zip(units(code, t), (cosines, sines), strict=True):
                    place = code.at(c, sums)
                    b.store(b.add(b.load(place, align=4), unit), place, align=4)
        return context.get_dummy_value()

    return types.void(src, factors, dither, cosines, sines, types.intp), codegen


@intrinsic
def _turn(typingctx, rows, stride, columns, count):
    """As many rows as there are lanes, their first `count` columns (a multiple of the lanes), one vector per column."""

    def codegen(context, b, sig, args):
        rows, stride, columns, count = args
        code = _Columns(b, 32)
        with cgutils.for_range(b, b.udiv(count, ir.Constant(I64, LANES))) as loop:
            first = b.mul(loop.index, ir.Constant(I64, LANES))
            x = []
            for j in range(LANES):
                place = b.gep(rows, [b.add(b.mul(stride, ir.Constant(I64, j)), first)])
                x.append(b.load(b.bitcast(place, code.vec.as_pointer()), align=4))
            h = LANES // 2
            while h:  # a bit of the row and one of the column change places
                low = [lane if not lane & h else LANES + lane - h for lane in range(LANES)]
                high = [lane + h if not lane & h else LANES + lane for lane in range(LANES)]
                masks = [ir.Constant(ir.VectorType(I32, LANES), half) for half in (low, high)]
                for j in range(LANES):
                    if not j & h:
                        x[j], x[j + h] = (b.shuffle_vector(x[j], x[j + h], mask) for mask in masks)
                h //= 2
            for j, v in enumerate(x):
                b.store(v, code.at(b.add(first, ir.Constant(I64, j)), columns), align=4)
        return context.get_dummy_value()

    return types.void(rows, types.intp, columns, types.intp), codegen


@intrinsic
def behind(typingctx, start, offset):
    """Pointer `offset` numbers behind another."""

    def codegen(context, b, sig, args):
        return b.gep(args[0], [args[1]])

    return start(start, types.intp), codegen


@compiled
def _down(src, dst, factors, q, low):
    """Factors, then the levels of bits q - 1 to `low`, at most three at a time."""
    shift = q - ((q - low - 1) % 3 + 1)
    if q - shift == 1:
        _first_2(src, dst, factors, shift, 1 << (q - 1))
    elif q - shift == 2:
        _first_4(src, dst, factors, shift, 1 << (q - 2))
    else:
        _first_8(src, dst, factors, shift, 1 << (q - 3))
    while shift > low:
        shift -= 3
        _next_8(dst, dst, factors, shift, 1 << (q - 3))


@compiled
def _to_last(src, here, diagonal, q):
    """Three transforms with their diagonals, but for the last three levels."""
    p = 1 << q
    second, third = behind(diagonal, p), behind(diagonal, 2 * p)
    _down(src, here, diagonal, q, 3)
    if q > 6:
        _next_8(here, here, diagonal, 0, p >> 3)
        _down(here, here, second, q, 6)
        _next_8(here, here, diagonal, 0, p >> 3)
        _next_8(here, here, diagonal, 3, p >> 3)
        _down(here, here, third, q, 3)
        return
    # the last levels of a short transform are the first of the next
    _both_8(here, here, second, 0, p >> 3)
    if q == 4:
        _both_2(here, here, third, 3, p >> 1)
    elif q == 5:
        _both_4(here, here, third, 3, p >> 2)
    else:
        _both_8(here, here, third, 3, p >> 3)


@compiled
def take(rows, weights, first, end, least, tables, sums, g, scratch):
    """Add some rows from `first` on, all of one weight or as many as there are lanes; how many, 0 if below `least`."""
    diagonals, radius, dither = tables
    turned, here, units = scratch
    p, q = rows.shape[1], 0
    while 1 << q < p:
        q += 1
    if end - first < least:
        return 0
    w, last = weights[first], first + 1
    while last < end and last < first + _FLUSH and weights[last] == w:
        last += 1
    groups = (last - first) // _LANES
    for i in range(groups):
        _turn(pointer(rows, (first + i * _LANES) * p), p, pointer(turned, i * _LANES * p), p)
    mixed = 0
    if groups == 0:
        mixed = min(_LANES, end - first)
        for lane in range(_LANES):
            for k in range(p):
                turned[0, k * _LANES + lane] = rows[first + lane, k] if lane < mixed else np.float32(0.0)
    c, s = pointer(units, 0), pointer(units, p * _LANES)
    shift = np.uint32(np.uint32(groups * _LANES) * _ZERO32)
    for b in range(diagonals.shape[0]):
        at = b * p
        for part in range(2):
            for j in range(p * _LANES):
                units[part, j] = 0
        for i in range(max(groups, 1)):
            _to_last(pointer(turned, i * _LANES * p), pointer(here, 0), pointer(diagonals, 3 * at), q)
            _summed(pointer(here, 0), pointer(radius, at), pointer(dither, at), c, s, p >> 3)
        for part in range(2):
            if mixed:
                for lane in range(mixed):
                    w = weights[first + lane]
                    for j in range(p):
                        unit = np.int32(np.uint32(units[part, j * _LANES + lane]) - _ZERO32)
                        sums[g, part, at + j] += w * np.int64(unit)
                continue
            for j in range(p):
                # the sums wrap modulo 2**32, the true ones stay below 2**30
                total = np.uint32(0)
                for lane in range(_LANES):
                    total = np.uint32(total + np.uint32(units[part, j * _LANES + lane]))
                sums[g, part, at + j] += w * np.int64(np.int32(np.uint32(total - shift)))
    return mixed + groups * _LANES


@compiled
def add_near(rows, weights, runs, tables, sums, scratch):
    """Add the float32 rows of each run to its sums (runs, 2, blocks * p)."""
    diagonals, _, radius, dither = tables
    for g in range(runs.shape[0] - 1):
        i = runs[g]
        while i < runs[g + 1]:
            i += take(rows, weights, i, runs[g + 1], 1, (diagonals, radius, dither), sums, g, scratch)


count_near, add_far, count_far = add_near, _plain.add_far, _plain.count_far
"""Signs instead of cosines and sines: what decides is the scratch; float64 rows are few."""
pack_sums = _plain.pack_sums


def scratch(far, signs_only, width):
    """Turned rows, one group of them at work, and integers for each lane."""
    if far:
        return _plain.scratch(far, signs_only, width)
    return (
        aligned((_FLUSH // LANES, width * LANES), np.float32),
        aligned((width * LANES,), np.float32),
        aligned((2, width * LANES), np.uint32 if signs_only else np.int32),
    )
