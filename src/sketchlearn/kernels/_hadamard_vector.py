"""First tier of the structured pass: Walsh-Hadamard transforms in registers, written as explicit LLVM vectors.

A transform runs its levels from the widest stride to the narrowest.  Strided passes take two, four or eight parts
of a row at once (one, two or three levels between a load and a store); the last pass takes 64 neighbours and
finishes their six levels in registers.  The last pass of the last transform goes straight on to phases, cosines and
integer sums.  The order of levels is the one of ``hadamard.levels``, so the bits are those of the other tiers.

A level between numbers of the same vector needs a shuffle.  With eight lanes two vectors are shuffled into two others
such that the level runs between these, which leaves the 64 numbers, a square of 8 by 8, transposed, "turned"; the next
transform, which has its levels in the order made for it, turns them back.  Tables that meet turned numbers are turned
too.  A third transform keeps the order; its multiply-adds are busy where the additions of the others are.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels import _hadamard_lanes as lanes
from sketchlearn.kernels._compile import aligned, aligned_copy, compiled, pointer
from sketchlearn.kernels._hadamard_lanes import behind, take
from sketchlearn.kernels._tile import I32, I64, LANES, Vectors
from sketchlearn.kernels._vector import _ZERO32, _ZERO64, signs, waves

_CHUNK = 6  # bits: the last pass takes 64 numbers
_COUNT = (1 << _CHUNK) // LANES
_CACHED = 12  # bits: parts of 2**12 numbers are finished one after another and stay in the first-level cache
_FLUSH, _UNITS = K.FLUSH_ROWS, np.float32(1 << K.GRID_BITS)
_FEW = 4  # rows that are worth a pass of all lanes
SMALLEST = 1 << _CHUNK
"""Shorter transforms are left to the second tier."""


# lanes of two vectors, 0 to 7 and 8 to 15, that go into the first and into the second: those with bit 2 or 1 unset.
# The second way moves bit 0 to bit 1, so that it serves the level of bit 0 as well, and is one instruction a vector
# (what is natural for bit 0 becomes horizontal additions, which are slow).
_HALVES = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
_MIXED = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]


class _Code(Vectors):
    """Vectors of the precision that a pointer points to, and transforms of them."""

    def __init__(self, builder, kind):
        super().__init__(builder, kind.dtype.bitwidth)

    def load(self, pointer, offset):
        """Numbers behind a pointer, widened to the precision of this code if need be."""
        narrow = isinstance(pointer.type.pointee, ir.FloatType)
        vec = ir.VectorType(pointer.type.pointee, LANES)
        v = self.b.load(self.b.bitcast(self.b.gep(pointer, [offset]), vec.as_pointer()), align=4)
        return self.b.fpext(v, self.vec) if narrow and self.bits == 64 else v

    def store(self, value, pointer, offset):
        """Numbers to where a pointer points."""
        self.b.store(value, self.b.bitcast(self.b.gep(pointer, [offset]), value.type.as_pointer()), align=4)

    def add(self, units, pointer, offset):
        """Integers added to those behind a pointer."""
        place = self.b.bitcast(self.b.gep(pointer, [offset]), units.type.as_pointer())
        self.b.store(self.b.add(self.b.load(place, align=4), units), place, align=4)

    def across(self, x, h):
        """The level between vectors whose numbers differ in bit h, in place."""
        for j in range(len(x)):
            if not j & h:
                x[j], x[j + h] = self.b.fadd(x[j], x[j + h]), self.b.fsub(x[j], x[j + h])

    def within(self, x, h):
        """The level between lanes that differ in bit h: a multiply-add with plus or minus one rounds like a sum."""
        undefined = ir.Constant(self.vec, ir.Undefined)
        partner = ir.Constant(ir.VectorType(I32, LANES), [lane ^ h for lane in range(LANES)])
        sign = ir.Constant(self.vec, [-1.0 if lane & h else 1.0 for lane in range(LANES)])
        x[:] = [self.call("fma", v, sign, self.b.shuffle_vector(v, undefined, partner)) for v in x]

    def paired(self, x, h, lanes):
        """The level between some lanes, brought into two vectors that differ in bit h: (those of the sum, the rest)."""
        masks = [ir.Constant(ir.VectorType(I32, LANES), half) for half in lanes]
        for j in range(len(x)):
            if not j & h:
                u, v = (self.b.shuffle_vector(x[j], x[j + h], mask) for mask in masks)
                x[j], x[j + h] = self.b.fadd(u, v), self.b.fsub(u, v)

    def six(self, x, way):
        """The last six levels of 64 numbers: "straight" keeps their order, "turn" and "back" belong together."""
        if LANES != 8 or way == "straight":
            for bit in (2, 1, 0, 5, 4, 3) if way == "back" else (5, 4, 3, 2, 1, 0):
                if 1 << bit >= LANES:
                    self.across(x, (1 << bit) // LANES)
                else:
                    self.within(x, 1 << bit)
        else:  # from one order into the other
            for h in (4, 2, 1):
                self.across(x, h)
            for h, lanes in ((4, _HALVES), (2, _MIXED), (1, _MIXED)):
                self.paired(x, h, lanes)
        return x

    def times(self, x, factors, offsets):
        """Vectors times those behind a pointer."""
        return [self.b.fmul(v, self.load(factors, o)) for v, o in zip(x, offsets, strict=True)]


def _whole(x):
    return ir.Constant(I64, x)


def _strided(radix, scaled):
    """One, two or three levels (none for a radix of 1) of ``radix * stride`` numbers, times factors first if scaled."""

    @intrinsic
    def kernel(typingctx, src, dst, factors, stride):
        def codegen(context, b, sig, args):
            src, dst, factors, stride = args
            code = _Code(b, sig.args[0])
            with cgutils.for_range(b, b.sdiv(stride, _whole(LANES))) as loop:
                j = b.mul(loop.index, _whole(LANES))
                offsets = [b.add(j, b.mul(stride, _whole(k))) for k in range(radix)]
                x = [code.load(src, o) for o in offsets]
                x = code.times(x, factors, offsets) if scaled else x
                h = radix // 2
                while h:
                    code.across(x, h)
                    h //= 2
                for v, o in zip(x, offsets, strict=True):
                    code.store(v, dst, o)
            return context.get_dummy_value()

        return types.void(src, dst, factors, types.intp), codegen

    return kernel


_first_1, _first_2, _first_4, _first_8 = (_strided(radix, True) for radix in (1, 2, 4, 8))
_next_8 = _strided(8, False)


def _last(way):
    """The last six levels of ``chunks`` times 64 neighbours, stored; times factors, unless they are None."""

    @intrinsic
    def kernel(typingctx, src, dst, factors, chunks):
        def codegen(context, b, sig, args):
            src, dst, factors, chunks = args
            code = _Code(b, sig.args[0])
            with cgutils.for_range(b, chunks) as loop:
                j = b.mul(loop.index, _whole(1 << _CHUNK))
                offsets = [b.add(j, _whole(k * LANES)) for k in range(_COUNT)]
                x = code.six([code.load(src, o) for o in offsets], way)
                x = x if sig.args[2] == types.none else code.times(x, factors, offsets)
                for v, o in zip(x, offsets, strict=True):
                    code.store(v, dst, o)
            return context.get_dummy_value()

        return types.void(src, dst, factors, types.intp), codegen

    return kernel


def _last_summed(way):
    """Products as phases in half-turns: cosines and sines are added to integers, signs to unsigned ones."""

    @intrinsic
    def kernel(typingctx, src, factors, dither, cosines, sines, chunks):
        units = waves if cosines.dtype.signed else signs

        def codegen(context, b, sig, args):
            src, factors, dither, cosines, sines, chunks = args
            code = _Code(b, sig.args[0])
            with cgutils.for_range(b, chunks) as loop:
                j = b.mul(loop.index, _whole(1 << _CHUNK))
                offsets = [b.add(j, _whole(k * LANES)) for k in range(_COUNT)]
                x = code.six([code.load(src, o) for o in offsets], way)
                for t, o in zip(code.times(x, factors, offsets), offsets, strict=True):
                    if units is signs:
                        t = b.fadd(t, code.load(dither, o))
                    cosine, sine = units(code, t)
                    code.add(cosine, cosines, o)
                    code.add(sine, sines, o)
            return context.get_dummy_value()

        return types.void(src, factors, dither, cosines, sines, types.intp), codegen

    return kernel


_turn, _back, _straight = _last("turn"), _last("back"), _last("straight")
_straight_summed, _back_summed = _last_summed("straight"), _last_summed("back")


@compiled
def _all_but_last(src, dst, factors, q):
    """``factors * src`` transformed down to parts of 64 neighbours."""
    r = (q - _CHUNK) % 3
    if q == _CHUNK:
        _first_1(src, dst, factors, 1 << q)
        return
    if r == 1:
        left = q - 1
        _first_2(src, dst, factors, 1 << left)
    elif r == 2:
        left = q - 2
        _first_4(src, dst, factors, 1 << left)
    else:
        left = q - 3
        _first_8(src, dst, factors, 1 << left)
    p = 1 << q
    while left > _CACHED:
        for o in range(0, p, 1 << left):
            part = behind(dst, o)
            _next_8(part, part, factors, 1 << (left - 3))
        left -= 3
    for start in range(0, p, 1 << left):
        inner = left
        while inner > _CHUNK:
            for o in range(start, start + (1 << left), 1 << inner):
                part = behind(dst, o)
                _next_8(part, part, factors, 1 << (inner - 3))
            inner -= 3


@compiled
def _to_last(rows, at, buffer, spare, diagonals, permutation, block):
    """One block applied to a row: all transforms, the last one down to parts of 64 neighbours, in the buffer."""
    stages, p = diagonals.shape[1], diagonals.shape[2]
    q, chunks = 0, p >> _CHUNK
    while 1 << q < p:
        q += 1
    here, diagonal = pointer(buffer, 0), pointer(diagonals, block * stages * p)
    _all_but_last(pointer(rows, at), here, diagonal, q)
    _turn(here, here, None, chunks)
    if permutation.shape[0] > 0:
        for k in range(p):
            spare[k] = buffer[permutation[block, k]]
        _all_but_last(pointer(spare, 0), here, behind(diagonal, p), q)
        return
    _all_but_last(here, here, behind(diagonal, p), q)
    _back(here, here, None, chunks)
    _all_but_last(here, here, behind(diagonal, 2 * p), q)


@compiled
def add_near(rows, weights, runs, tables, sums, scratch):
    """Add the float32 rows of each run to its sums (runs, 2, blocks * p)."""
    diagonals, permutation, radius, dither, plain = tables
    numbers, units, columns = scratch
    p, chunks = rows.shape[1], rows.shape[1] >> _CHUNK
    three = diagonals.shape[1] == 3
    least = _FEW if three and columns[0].shape[1] > 0 else np.iinfo(np.int64).max  # no buffer for groups: none
    here, c, s = pointer(numbers, 0), pointer(units, 0), pointer(units, p)
    for g in range(runs.shape[0] - 1):
        first = runs[g]
        while first < runs[g + 1]:
            taken = take(rows, weights, first, runs[g + 1], least, (plain, radius, dither), sums, g, columns)
            if taken > 0:
                first += taken
                continue
            # rows of one weight are added up in int32, as many as that holds
            w, last = weights[first], first + 1
            while last < runs[g + 1] and last < first + _FLUSH and weights[last] == w:
                last += 1
            shift = np.uint32(np.uint32(last - first) * _ZERO32)
            for b in range(diagonals.shape[0]):
                at = b * p
                for j in range(p):
                    units[0, j] = 0
                    units[1, j] = 0
                r, u = pointer(radius, at), pointer(dither, at)
                for i in range(first, last):
                    _to_last(rows, i * p, numbers[0], numbers[1], diagonals, permutation, b)
                    if three:
                        _straight_summed(here, r, u, c, s, chunks)
                    else:
                        _back_summed(here, r, u, c, s, chunks)
                # the sums wrap modulo 2**32, the true ones stay below 2**30
                for part in range(2):
                    if w == 1:
                        for j in range(p):
                            sums[g, part, at + j] += np.int64(np.int32(np.uint32(units[part, j]) - shift))
                    else:
                        for j in range(p):
                            sums[g, part, at + j] += w * np.int64(np.int32(np.uint32(units[part, j]) - shift))
            first = last


@compiled
def add_far(rows, weights, runs, tables, sums, scratch):
    """Add the float64 rows of each run to its sums."""
    diagonals, permutation, radius, dither, _ = tables
    numbers, units, _ = scratch
    p, chunks = rows.shape[1], rows.shape[1] >> _CHUNK
    here, c, s = pointer(numbers, 0), pointer(units, 0), pointer(units, p)
    for g in range(runs.shape[0] - 1):
        for i in range(runs[g], runs[g + 1]):
            w = weights[i]
            for b in range(diagonals.shape[0]):
                at = b * p
                for j in range(p):
                    units[0, j] = 0
                    units[1, j] = 0
                _to_last(rows, i * p, numbers[0], numbers[1], diagonals, permutation, b)
                if diagonals.shape[1] == 3:
                    _straight_summed(here, pointer(radius, at), pointer(dither, at), c, s, chunks)
                else:
                    _back_summed(here, pointer(radius, at), pointer(dither, at), c, s, chunks)
                for part in range(2):
                    for j in range(p):
                        sums[g, part, at + j] += w * (np.int64(units[part, j]) - _ZERO64)


count_near, count_far = add_near, add_far
"""Signs instead of cosines and sines: what decides is the scratch."""


def scratch(far, signs_only, width):
    """Two rows of numbers and two of integers that a pass needs beside its sums, and what whole groups of rows need."""
    columns = lanes.scratch(False, signs_only, width if width <= lanes.LONGEST and not far else 0)
    if far:
        return aligned((2, width), np.float64), aligned((2, width), np.uint64 if signs_only else np.int64), columns
    return aligned((2, width), np.float32), aligned((2, width), np.uint32 if signs_only else np.int32), columns


_SQUARE = np.arange(1 << _CHUNK).reshape(8, 8)
_TURNED = (_SQUARE.T if LANES == 8 else _SQUARE).ravel()
"""Which of 64 numbers stands where after a turn."""


def _turn_table(table):
    """Rows of a table in the order of turned numbers."""
    chunks = table.reshape(*table.shape[:-1], -1, 1 << _CHUNK)
    return np.ascontiguousarray(chunks[..., _TURNED].reshape(table.shape))


def pack(diagonals, permutation):
    """Tables for these loops: what meets turned numbers is turned."""
    diagonals = diagonals.copy()
    diagonals[:, 1] = _turn_table(diagonals[:, 1])
    if permutation.size:
        permutation = _turn_table(permutation)
        permutation = (permutation & ~63) + _TURNED[permutation & 63].astype(permutation.dtype)
    return diagonals, permutation


def pack_sums(diagonals, permutation, radius, dither):
    """Tables for sums, and the diagonals as they were."""
    turned, moved = pack(diagonals, permutation)
    return aligned_copy(turned), moved, aligned_copy(radius), dither, diagonals


@compiled
def forward(points, tables, out, scratch):
    """Products of the blocks with points (k, p), times `radius`, into out (k, blocks * p)."""
    diagonals, permutation, radius = tables
    p, chunks = points.shape[1], points.shape[1] >> _CHUNK
    here = pointer(scratch, 0)
    for b in range(diagonals.shape[0]):
        factors = pointer(radius, b * p)
        for i in range(points.shape[0]):
            there = pointer(out, i * out.shape[1] + b * p)
            _to_last(points, i * p, scratch[0], scratch[1], diagonals, permutation, b)
            if diagonals.shape[1] == 3:
                _straight(here, there, factors, chunks)
            else:
                _back(here, there, factors, chunks)


@compiled
def adjoint(values, tables, out, scratch):
    """Adjoint of :func:`forward`: values (k, blocks * p) are added to out (k, p); the third row of scratch is ones."""
    diagonals, permutation, radius = tables
    stages, p = diagonals.shape[1], diagonals.shape[2]
    q, chunks = 0, p >> _CHUNK
    while 1 << q < p:
        q += 1
    here = pointer(scratch, 0)
    for b in range(diagonals.shape[0]):
        diagonal = pointer(diagonals, b * stages * p)
        for i in range(values.shape[0]):
            _all_but_last(pointer(values, i * values.shape[1] + b * p), here, pointer(radius, b * p), q)
            if permutation.shape[0] > 0:
                _turn(here, here, None, chunks)
                for k in range(p):
                    scratch[1, permutation[b, k]] = scratch[0, k] * diagonals[b, 1, k]
                _all_but_last(pointer(scratch, p), here, pointer(scratch, 2 * p), q)
            else:
                _straight(here, here, None, chunks)
                _all_but_last(here, here, behind(diagonal, 2 * p), q)
                _turn(here, here, None, chunks)
                _all_but_last(here, here, behind(diagonal, p), q)
            _back(here, here, None, chunks)
            for k in range(p):
                out[i, k] += scratch[0, k] * diagonals[b, 0, k]


@compiled
def add_squares(rows, count, tables, sums, scratch):
    """Add the squares of the products of the blocks with some rows (n, p) to float64 sums (blocks * p,)."""
    diagonals, permutation, radius = tables
    p, chunks = rows.shape[1], rows.shape[1] >> _CHUNK
    here = pointer(scratch, 0)
    for b in range(diagonals.shape[0]):
        for i in range(count):
            _to_last(rows, i * p, scratch[0], scratch[1], diagonals, permutation, b)
            if diagonals.shape[1] == 3:
                _straight(here, here, pointer(radius, b * p), chunks)
            else:
                _back(here, here, pointer(radius, b * p), chunks)
            for j in range(p):
                t = np.float64(scratch[0, j])
                sums[b * p + j] += t * t


@compiled
def add_rounded_squares(rows, count, weights, tables, sums, scratch):
    """Add squares in units of 2**-22, times weights, to int64 sums."""
    diagonals, permutation, radius = tables
    p, chunks = rows.shape[1], rows.shape[1] >> _CHUNK
    here = pointer(scratch, 0)
    for b in range(diagonals.shape[0]):
        for i in range(count):
            w = weights[i]
            _to_last(rows, i * p, scratch[0], scratch[1], diagonals, permutation, b)
            if diagonals.shape[1] == 3:
                _straight(here, here, pointer(radius, b * p), chunks)
            else:
                _back(here, here, pointer(radius, b * p), chunks)
            for j in range(p):
                t = scratch[0, j]
                sums[b * p + j] += w * np.int64(np.rint(t * t * _UNITS))
