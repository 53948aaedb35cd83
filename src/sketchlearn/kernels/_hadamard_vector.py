"""First tier of the structured pass: Walsh-Hadamard transforms in registers, written as explicit LLVM vectors.

A transform runs its levels from the widest stride to the narrowest.  Strided passes take two, four or eight parts
of a row at once (one, two or three levels between a load and a store); the last pass takes 64 neighbours and
finishes their six levels in registers, those within a vector by a shuffle and a multiply-add with plus or minus
one (exact, so the rounding is that of the sum).  The last pass of the last transform goes straight on to phases,
cosines and integer sums.  The order of additions is that of the textbook loop, so the bits are those of the other
tiers.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled, pointer
from sketchlearn.kernels._tile import I32, I64, LANES, Vectors
from sketchlearn.kernels._vector import _ZERO32, _ZERO64, signs, waves

_CHUNK = 6  # bits: the last pass takes 64 numbers
_COUNT = (1 << _CHUNK) // LANES
_CACHED = 12  # bits: parts of 2**12 numbers are finished one after another and stay in the first-level cache
_FLUSH = K.FLUSH_ROWS
SMALLEST = 1 << _CHUNK
"""Shorter transforms are left to the second tier."""


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

    def across(self, x):
        """Levels between vectors, the widest first."""
        h = len(x) // 2
        while h:
            for i in range(0, len(x), 2 * h):
                for j in range(i, i + h):
                    x[j], x[j + h] = self.b.fadd(x[j], x[j + h]), self.b.fsub(x[j], x[j + h])
            h //= 2
        return x

    def within(self, x):
        """Levels inside a vector."""
        undefined = ir.Constant(self.vec, ir.Undefined)
        h = LANES // 2
        while h:
            partner = ir.Constant(ir.VectorType(I32, LANES), [lane ^ h for lane in range(LANES)])
            sign = ir.Constant(self.vec, [-1.0 if lane & h else 1.0 for lane in range(LANES)])
            x = [self.call("fma", v, sign, self.b.shuffle_vector(v, undefined, partner)) for v in x]
            h //= 2
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
                for v, o in zip(code.across(x), offsets, strict=True):
                    code.store(v, dst, o)
            return context.get_dummy_value()

        return types.void(src, dst, factors, types.intp), codegen

    return kernel


_first_1, _first_2, _first_4, _first_8 = (_strided(radix, True) for radix in (1, 2, 4, 8))
_next_8 = _strided(8, False)


@intrinsic
def _last(typingctx, src, dst, chunks):
    """The last six levels of ``chunks`` times 64 neighbours, stored."""

    def codegen(context, b, sig, args):
        code = _Code(b, sig.args[0])
        with cgutils.for_range(b, args[2]) as loop:
            j = b.mul(loop.index, _whole(1 << _CHUNK))
            offsets = [b.add(j, _whole(k * LANES)) for k in range(_COUNT)]
            x = code.within(code.across([code.load(args[0], o) for o in offsets]))
            for v, o in zip(x, offsets, strict=True):
                code.store(v, args[1], o)
        return context.get_dummy_value()

    return types.void(src, dst, types.intp), codegen


@intrinsic
def _last_scaled(typingctx, src, dst, factors, chunks):
    """The same, times factors."""

    def codegen(context, b, sig, args):
        code = _Code(b, sig.args[0])
        with cgutils.for_range(b, args[3]) as loop:
            j = b.mul(loop.index, _whole(1 << _CHUNK))
            offsets = [b.add(j, _whole(k * LANES)) for k in range(_COUNT)]
            x = code.within(code.across([code.load(args[0], o) for o in offsets]))
            for v, o in zip(code.times(x, args[2], offsets), offsets, strict=True):
                code.store(v, args[1], o)
        return context.get_dummy_value()

    return types.void(src, dst, factors, types.intp), codegen


@intrinsic
def _last_summed(typingctx, src, factors, dither, cosines, sines, chunks):
    """The same as phases in half-turns: their cosines and sines are added to integers, the signs to unsigned ones."""
    units = waves if cosines.dtype.signed else signs

    def codegen(context, b, sig, args):
        src, factors, dither, cosines, sines, chunks = args
        code = _Code(b, sig.args[0])
        with cgutils.for_range(b, chunks) as loop:
            j = b.mul(loop.index, _whole(1 << _CHUNK))
            offsets = [b.add(j, _whole(k * LANES)) for k in range(_COUNT)]
            x = code.within(code.across([code.load(src, o) for o in offsets]))
            for t, o in zip(code.times(x, factors, offsets), offsets, strict=True):
                if units is signs:
                    t = b.fadd(t, code.load(dither, o))
                cosine, sine = units(code, t)
                code.add(cosine, cosines, o)
                code.add(sine, sines, o)
        return context.get_dummy_value()

    return types.void(src, factors, dither, cosines, sines, types.intp), codegen


@intrinsic
def _behind(typingctx, start, offset):
    """Pointer `offset` numbers behind another."""

    def codegen(context, b, sig, args):
        return b.gep(args[0], [args[1]])

    return start(start, types.intp), codegen


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
            part = _behind(dst, o)
            _next_8(part, part, factors, 1 << (left - 3))
        left -= 3
    for start in range(0, p, 1 << left):
        inner = left
        while inner > _CHUNK:
            for o in range(start, start + (1 << left), 1 << inner):
                part = _behind(dst, o)
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
    _last(here, here, chunks)
    if permutation.shape[0] > 0:
        for k in range(p):
            spare[k] = buffer[permutation[block, k]]
        _all_but_last(pointer(spare, 0), here, _behind(diagonal, p), q)
        return
    _all_but_last(here, here, _behind(diagonal, p), q)
    _last(here, here, chunks)
    _all_but_last(here, here, _behind(diagonal, 2 * p), q)


@compiled
def add_near(rows, weights, runs, tables, sums, scratch):
    """Add the float32 rows of each run to its sums (runs, 2, blocks * p)."""
    diagonals, permutation, radius, dither = tables
    numbers, units = scratch
    p, chunks = rows.shape[1], rows.shape[1] >> _CHUNK
    here, c, s = pointer(numbers, 0), pointer(units, 0), pointer(units, p)
    for g in range(runs.shape[0] - 1):
        first = runs[g]
        while first < runs[g + 1]:
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
                for i in range(first, last):
                    _to_last(rows, i * p, numbers[0], numbers[1], diagonals, permutation, b)
                    _last_summed(here, pointer(radius, at), pointer(dither, at), c, s, chunks)
                # the sums wrap modulo 2**32, the true ones stay below 2**30
                for j in range(p):
                    sums[g, 0, at + j] += w * np.int64(np.int32(np.uint32(units[0, j]) - shift))
                    sums[g, 1, at + j] += w * np.int64(np.int32(np.uint32(units[1, j]) - shift))
            first = last


@compiled
def add_far(rows, weights, runs, tables, sums, scratch):
    """Add the float64 rows of each run to its sums."""
    diagonals, permutation, radius, dither = tables
    numbers, units = scratch
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
                _last_summed(here, pointer(radius, at), pointer(dither, at), c, s, chunks)
                for j in range(p):
                    sums[g, 0, at + j] += w * (np.int64(units[0, j]) - _ZERO64)
                    sums[g, 1, at + j] += w * (np.int64(units[1, j]) - _ZERO64)


count_near, count_far = add_near, add_far
"""Signs instead of cosines and sines: what decides is the scratch."""


def scratch(far, signs_only, width):
    """Two rows of numbers and two of integers that a pass needs beside its sums."""
    if far:
        return np.empty((2, width)), np.empty((2, width), np.uint64 if signs_only else np.int64)
    return np.empty((2, width), np.float32), np.empty((2, width), np.uint32 if signs_only else np.int32)


@compiled
def forward(points, tables, out, scratch):
    """Products of the blocks with points (k, p), times `radius`, into out (k, blocks * p)."""
    diagonals, permutation, radius = tables
    p, chunks = points.shape[1], points.shape[1] >> _CHUNK
    for b in range(diagonals.shape[0]):
        for i in range(points.shape[0]):
            _to_last(points, i * p, scratch[0], scratch[1], diagonals, permutation, b)
            _last_scaled(
                pointer(scratch, 0), pointer(out, i * out.shape[1] + b * p), pointer(radius, b * p), chunks
            )


@compiled
def adjoint(values, tables, out, scratch):
    """Adjoint of :func:`forward`: values (k, blocks * p) are added to out (k, p)."""
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
            _last(here, here, chunks)
            if permutation.shape[0] > 0:
                for k in range(p):
                    scratch[1, permutation[b, k]] = scratch[0, k] * diagonals[b, 1, k]
                _all_but_last(pointer(scratch, p), here, pointer(scratch, 2 * p), q)
            else:
                _all_but_last(here, here, _behind(diagonal, 2 * p), q)
                _last(here, here, chunks)
                _all_but_last(here, here, _behind(diagonal, p), q)
            _last(here, here, chunks)
            for k in range(p):
                out[i, k] += scratch[0, k] * diagonals[b, 0, k]
