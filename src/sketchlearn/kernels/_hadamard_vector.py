"""First tier of the structured pass: Walsh-Hadamard transforms in registers, written as explicit LLVM vectors.

A transform runs its levels from the widest stride to the narrowest.  Strided passes take two, four or eight parts
of a row at once (one, two or three levels between a load and a store); the last pass takes 64 neighbours and
finishes their six levels in registers, those within a vector by a shuffle and a multiply-add with plus or minus
one (exact, so the rounding is that of the sum).  The last pass of the last transform goes straight on to phases,
cosines and integer sums.  The order of additions is that of the textbook loop, so the bits are those of the other
tiers.

The intrinsics look at the types of what they are given: float32 or float64 numbers, a diagonal or None, and so on.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._staging import CACHE, stage_block
from sketchlearn.kernels._vector import LANES, signs, waves

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_CHUNK = 6  # bits: the last pass takes 64 numbers
_VECTORS = (1 << _CHUNK) // LANES
_CACHED = 12  # bits: parts of 2**12 numbers are finished one after another and stay in the first-level cache
SMALLEST = 1 << _CHUNK
"""Shorter transforms are left to the second tier."""
_ZERO32 = np.uint32(np.float32(K.ROUND32).view(np.uint32))
_ZERO64 = np.int64(np.float64(K.ROUND64).view(np.int64))


class _Code:
    """Vectors of the precision of `like`, and the few things this file does with them."""

    def __init__(self, context, b, like):
        self.context, self.b = context, b
        self.bits = like.dtype.bitwidth
        self.vec = ir.VectorType(ir.FloatType() if self.bits == 32 else ir.DoubleType(), LANES)

    def pointer(self, kind, array, offset):
        return self.b.gep(arrayobj.make_array(kind)(self.context, self.b, array).data, [offset])

    def load(self, pointer, offset):
        """LANES numbers, widened to the precision of this code if need be."""
        narrow = isinstance(pointer.type.pointee, ir.FloatType)
        vec = ir.VectorType(ir.FloatType(), LANES) if narrow else ir.VectorType(ir.DoubleType(), LANES)
        v = self.b.load(self.b.bitcast(self.b.gep(pointer, [offset]), vec.as_pointer()), align=4)
        return self.b.fpext(v, self.vec) if narrow and self.bits == 64 else v

    def store(self, value, pointer, offset):
        self.b.store(value, self.b.bitcast(self.b.gep(pointer, [offset]), value.type.as_pointer()), align=4)

    def add(self, units, pointer, offset):
        p = self.b.bitcast(self.b.gep(pointer, [offset]), units.type.as_pointer())
        self.b.store(self.b.add(self.b.load(p, align=4), units), p, align=4)

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
        name = f"llvm.fma.v{LANES}f{self.bits}"
        fma = cgutils.get_or_insert_function(self.b.module, ir.FunctionType(self.vec, [self.vec] * 3), name)
        undefined = ir.Constant(self.vec, ir.Undefined)
        h = LANES // 2
        while h:
            partner = ir.Constant(ir.VectorType(_I32, LANES), [lane ^ h for lane in range(LANES)])
            sign = ir.Constant(self.vec, [-1.0 if lane & h else 1.0 for lane in range(LANES)])
            x = [self.b.call(fma, [v, sign, self.b.shuffle_vector(v, undefined, partner)]) for v in x]
            h //= 2
        return x


def _number(x):
    return ir.Constant(_I64, x)


def _strided(radix):
    """One, two or three levels of ``radix * stride`` numbers from src to dst; times `diagonal` first, unless None."""

    @intrinsic
    def kernel(typingctx, src, src_at, dst, dst_at, diagonal, diagonal_at, stride):
        def codegen(context, b, sig, args):
            code = _Code(context, b, sig.args[0])
            source, target = code.pointer(sig.args[0], *args[:2]), code.pointer(sig.args[2], *args[2:4])
            scaled = sig.args[4] != types.none
            factors = code.pointer(sig.args[4], *args[4:6]) if scaled else None
            with cgutils.for_range(b, b.sdiv(args[6], _number(LANES))) as loop:
                j = b.mul(loop.index, _number(LANES))
                offsets = [b.add(j, b.mul(args[6], _number(k))) for k in range(radix)]
                x = [code.load(source, o) for o in offsets]
                if scaled:
                    x = [b.fmul(v, code.load(factors, o)) for v, o in zip(x, offsets, strict=True)]
                for v, o in zip(code.across(x), offsets, strict=True):
                    code.store(v, target, o)
            return context.get_dummy_value()

        at = types.intp
        return types.void(src, at, dst, at, diagonal, at, at), codegen

    return kernel


_by_2, _by_4, _by_8 = _strided(2), _strided(4), _strided(8)


@intrinsic
def _last(typingctx, src, src_at, diagonal, diagonal_at, radius, dither, radius_at, first, second, first_at, chunks):
    """The last six levels of ``chunks`` times 64 neighbours, and what becomes of them.

    Without `radius` they are stored in `first`, with it their products are.  With `second` the products are phases in
    half-turns, and cosines and sines are added to the integers `first` and `second`; with `dither`, which is added to
    the phases, their signs are.
    """

    def codegen(context, b, sig, args):
        code = _Code(context, b, sig.args[0])
        source = code.pointer(sig.args[0], *args[:2])
        scaled, has_radius, has_dither, summed = (sig.args[i] != types.none for i in (2, 4, 5, 8))
        factors = code.pointer(sig.args[2], *args[2:4]) if scaled else None
        radii = code.pointer(sig.args[4], args[4], args[6]) if has_radius else None
        shifts = code.pointer(sig.args[5], args[5], args[6]) if has_dither else None
        one = code.pointer(sig.args[7], args[7], args[9])
        two = code.pointer(sig.args[8], args[8], args[9]) if summed else None
        with cgutils.for_range(b, args[10]) as loop:
            j = b.mul(loop.index, _number(1 << _CHUNK))
            offsets = [b.add(j, _number(k * LANES)) for k in range(_VECTORS)]
            x = [code.load(source, o) for o in offsets]
            if scaled:
                x = [b.fmul(v, code.load(factors, o)) for v, o in zip(x, offsets, strict=True)]
            for v, o in zip(code.within(code.across(x)), offsets, strict=True):
                t = b.fmul(v, code.load(radii, o)) if has_radius else v
                if not summed:
                    code.store(t, one, o)
                    continue
                if has_dither:
                    cosine, sine = signs(b, b.fadd(t, code.load(shifts, o)), code.bits)
                else:
                    cosine, sine = waves(b, t, code.bits)
                code.add(cosine, one, o)
                code.add(sine, two, o)
        return context.get_dummy_value()

    at = types.intp
    sig = types.void(src, at, diagonal, at, radius, dither, at, first, second, at, at)
    return sig, codegen


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def transform(src, src_at, buffer, q, diagonal, diagonal_at, radius, dither, radius_at, first, second, first_at):
    """Walsh-Hadamard transform of the 2**q numbers of ``diagonal * src``; see ``_last`` for where it goes."""
    p = 1 << q
    if q == _CHUNK:
        _last(src, src_at, diagonal, diagonal_at, radius, dither, radius_at, first, second, first_at, 1)
        return
    r = (q - _CHUNK) % 3
    if r == 1:
        left = q - 1
        _by_2(src, src_at, buffer, 0, diagonal, diagonal_at, 1 << left)
    elif r == 2:
        left = q - 2
        _by_4(src, src_at, buffer, 0, diagonal, diagonal_at, 1 << left)
    else:
        left = q - 3
        _by_8(src, src_at, buffer, 0, diagonal, diagonal_at, 1 << left)
    while left > _CACHED:
        for o in range(0, p, 1 << left):
            _by_8(buffer, o, buffer, o, None, 0, 1 << (left - 3))
        left -= 3
    for part in range(0, p, 1 << left):
        inner = left
        while inner > _CHUNK:
            for o in range(part, part + (1 << left), 1 << inner):
                _by_8(buffer, o, buffer, o, None, 0, 1 << (inner - 3))
            inner -= 3
        chunks = 1 << (left - _CHUNK)
        _last(buffer, part, None, 0, radius, dither, radius_at + part, first, second, first_at + part, chunks)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def project(src, src_at, buffer, spare, q, diagonals, block, permutation, radius, dither, first, second, first_at):
    """One block applied to one row: two or three transforms, each of a diagonal times what the one before left."""
    p = 1 << q
    stages = diagonals.shape[1]
    at = block * stages * p
    transform(src, src_at, buffer, q, diagonals, at, None, None, 0, buffer, None, 0)
    if permutation.shape[0] > 0:
        for k in range(p):
            spare[k] = buffer[permutation[block, k]]
        transform(spare, 0, buffer, q, diagonals, at + p, radius, dither, block * p, first, second, first_at)
        return
    transform(buffer, 0, buffer, q, diagonals, at + p, None, None, 0, buffer, None, 0)
    transform(buffer, 0, buffer, q, diagonals, at + 2 * p, radius, dither, block * p, first, second, first_at)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def _flush(first, second, p, shift, w, sums, at):
    for j in range(p):
        sums[0, at + j] += w * np.int64(np.int32(np.uint32(first[j]) - shift))
        sums[1, at + j] += w * np.int64(np.int32(np.uint32(second[j]) - shift))
        first[j] = 0
        second[j] = 0


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def sum_rows(
    X, weights, center, rms, stretch, q, diagonals, permutation, radius, dither, skip, block_rows, sums, lower, upper,
    info,
):  # fmt: skip
    """The whole pass over the rows of X; see :func:`sketchlearn.kernels.hadamard.sum_rows`."""
    n, d = X.shape
    p = 1 << q
    weighted = weights.shape[0] > 0
    near, far = np.zeros((block_rows, p), np.float32), np.zeros((block_rows, p), np.float64)
    near_weight, far_weight = np.empty(block_rows, np.int64), np.empty(block_rows, np.int64)
    buffer, spare = np.empty(p, np.float32), np.empty(p, np.float32)
    buffer64, spare64 = np.empty(p, np.float64), np.empty(p, np.float64)
    cosine, sine = np.zeros(p, np.int32), np.zeros(p, np.int32)
    cosine64, sine64 = np.zeros(p, np.int64), np.zeros(p, np.int64)
    zero32 = _ZERO32 if dither is None else np.uint32(0)
    zero64 = _ZERO64 if dither is None else np.int64(0)
    counts = np.zeros(2, np.int64)
    one = np.int64(1)
    for i0 in range(0, n, block_rows):
        i1 = min(n, i0 + block_rows)
        stage_block(
            X, i0, i1, weights, center, rms, skip, near, near_weight, far, far_weight,
            lower, upper, counts, info,
        )  # fmt: skip
        if info[1] >= 0 and not skip:
            return
        for i in range(counts[0]):
            for k in range(d):
                near[i, k] *= stretch[k]
        for i in range(counts[1]):
            for k in range(d):
                far[i, k] *= np.float64(stretch[k])
        for b in range(diagonals.shape[0]):
            for i in range(counts[0]):
                project(near, i * p, buffer, spare, q, diagonals, b, permutation, radius, dither, cosine, sine, 0)
                if weighted:
                    _flush(cosine, sine, p, zero32, near_weight[i], sums, b * p)
            if not weighted and counts[0] > 0:
                # the sums wrap modulo 2**32, the true ones stay below 2**30
                _flush(cosine, sine, p, np.uint32(np.uint32(counts[0]) * zero32), one, sums, b * p)
            for i in range(counts[1]):
                w = far_weight[i] if weighted else one
                project(
                    far, i * p, buffer64, spare64, q, diagonals, b, permutation, radius, dither, cosine64, sine64, 0
                )
                for j in range(p):
                    sums[0, b * p + j] += w * (cosine64[j] - zero64)
                    sums[1, b * p + j] += w * (sine64[j] - zero64)
                    cosine64[j] = 0
                    sine64[j] = 0


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def forward(points, q, diagonals, permutation, radius, out):
    """Products of the blocks with points (k, 2**q), times `radius`, into out (k, blocks * 2**q)."""
    p = 1 << q
    buffer, spare = np.empty(p, points.dtype), np.empty(p, points.dtype)
    for b in range(diagonals.shape[0]):
        for i in range(points.shape[0]):
            at = i * out.shape[1] + b * p
            project(points, i * p, buffer, spare, q, diagonals, b, permutation, radius, None, out, None, at)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def adjoint(values, q, diagonals, permutation, radius, out):
    """Adjoint of :func:`forward`: values (k, size) to out (k, 2**q), which is added to."""
    p = 1 << q
    size = values.shape[1]
    stages = diagonals.shape[1]
    start, buffer, spare = (np.zeros(p, out.dtype), np.empty(p, out.dtype), np.empty(p, out.dtype))
    for b in range(diagonals.shape[0]):
        count = min(p, size - b * p)
        start[count:] = 0
        at = b * stages * p
        for i in range(values.shape[0]):
            for j in range(count):
                start[j] = values[i, b * p + j]
            transform(start, 0, buffer, q, radius, b * p, None, None, 0, buffer, None, 0)
            if permutation.shape[0] > 0:
                for k in range(p):
                    spare[permutation[b, k]] = buffer[k] * diagonals[b, 1, k]
                transform(spare, 0, buffer, q, None, 0, None, None, 0, buffer, None, 0)
            else:
                transform(buffer, 0, buffer, q, diagonals, at + 2 * p, None, None, 0, buffer, None, 0)
                transform(buffer, 0, buffer, q, diagonals, at + p, None, None, 0, buffer, None, 0)
            for k in range(p):
                out[i, k] += buffer[k] * diagonals[b, 0, k]
