"""Staging of whole rows of the quadratic pass as explicit vectors: the accounts of some columns stay in registers."""

# mypy: ignore-errors
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sketchlearn.kernels._compile import compiled, pointer
from sketchlearn.kernels._tile import I32


def _column_kernel(lanes: int, copy: bool):
    """Shift, scale, copy (or not) and keep account of ``lanes`` columns of some rows, the accounts in registers."""

    @intrinsic
    def kernel(typingctx, rows, stride, n, shift, scale, out, lower, upper, linear):
        bits, out_bits = rows.dtype.bitwidth, out.dtype.bitwidth
        real, narrow = (ir.FloatType() if b == 32 else ir.DoubleType() for b in (bits, out_bits))
        vec, out_vec = ir.VectorType(real, lanes), ir.VectorType(narrow, lanes)
        item, out_item = bits // 8, out_bits // 8
        sig = types.void(rows, types.intp, types.intp, shift, rows.dtype, out, lower, upper, linear)

        def codegen(context, b, sig, args):
            rows, stride, n, shift, scale, out, lower, upper, linear = args

            def vector(place):
                return b.bitcast(place, vec.as_pointer())

            undef, zeros = ir.Constant(vec, ir.Undefined), ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
            s = b.shuffle_vector(b.insert_element(undef, scale, ir.Constant(I32, 0)), undef, zeros)
            c = b.load(vector(shift), align=item)
            accounts = [cgutils.alloca_once(b, vec) for _ in range(3)]
            for cell, place in zip(accounts, (lower, upper, linear), strict=True):
                b.store(b.load(vector(place), align=item), cell)
            with cgutils.for_range(b, n) as loop:
                offset = b.mul(loop.index, stride)
                v = b.load(vector(b.gep(rows, [offset])), align=item)
                u = b.fmul(b.fsub(v, c), s) if copy else v
                if copy:
                    stored = u if bits == out_bits else b.fptrunc(u, out_vec)
                    b.store(stored, b.bitcast(b.gep(out, [offset]), out_vec.as_pointer()), align=out_item)
                low, high, total = (b.load(cell) for cell in accounts)
                b.store(b.select(b.fcmp_ordered("<", v, low), v, low), accounts[0])
                b.store(b.select(b.fcmp_ordered(">", v, high), v, high), accounts[1])
                b.store(b.fadd(total, u), accounts[2])
            for cell, place in zip(accounts, (lower, upper, linear), strict=True):
                b.store(b.load(cell), vector(place), align=item)
            return context.get_dummy_value()

        return sig, codegen

    return kernel


_copy_16, _copy_4, _copy_1 = (_column_kernel(lanes, True) for lanes in (16, 4, 1))
_scan_16, _scan_4, _scan_1 = (_column_kernel(lanes, False) for lanes in (16, 4, 1))


@compiled
def stage_rows(X, i0, i1, shift, scale, out, lower, upper, linear):
    """Staging of contiguous rows of weight 1 in the precision of X, into a buffer of that precision or less."""
    d = X.shape[1]
    for first in range(i0, i1, 4):  # few rows at a time, so that memory is read in order
        n, x, o = min(4, i1 - first), first * d, (first - i0) * d
        k = 0
        while k + 16 <= d:
            accounts = pointer(lower, k), pointer(upper, k), pointer(linear, k)
            _copy_16(pointer(X, x + k), d, n, pointer(shift, k), scale, pointer(out, o + k), *accounts)
            k += 16
        while k + 4 <= d:
            accounts = pointer(lower, k), pointer(upper, k), pointer(linear, k)
            _copy_4(pointer(X, x + k), d, n, pointer(shift, k), scale, pointer(out, o + k), *accounts)
            k += 4
        while k < d:
            accounts = pointer(lower, k), pointer(upper, k), pointer(linear, k)
            _copy_1(pointer(X, x + k), d, n, pointer(shift, k), scale, pointer(out, o + k), *accounts)
            k += 1


@compiled
def scan_rows(X, i0, i1, lower, upper, linear):
    """Box and sums of the columns of rows as they are, without a copy."""
    d = X.shape[1]
    one = X.dtype.type(1)
    for first in range(i0, i1, 4):
        n, x = min(4, i1 - first), first * d
        k = 0
        while k + 16 <= d:
            box = pointer(lower, k), pointer(upper, k), pointer(linear, k)
            _scan_16(pointer(X, x + k), d, n, box[2], one, box[2], *box)
            k += 16
        while k + 4 <= d:
            box = pointer(lower, k), pointer(upper, k), pointer(linear, k)
            _scan_4(pointer(X, x + k), d, n, box[2], one, box[2], *box)
            k += 4
        while k < d:
            box = pointer(lower, k), pointer(upper, k), pointer(linear, k)
            _scan_1(pointer(X, x + k), d, n, box[2], one, box[2], *box)
            k += 1
