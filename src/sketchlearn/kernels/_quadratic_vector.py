"""First tier of the quadratic pass: projections in registers, squared and summed without leaving them.

Like the Fourier micro-kernel: ``mr`` rows times ``nv`` vectors of directions, fused multiply-adds in the order of
the coordinates.  A tile's squares are added in float32 (a handful of terms) and then to float64 sums, or each is
rounded to the grid and added to int64 sums.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from sketchlearn.kernels._staging import CACHE
from sketchlearn.kernels._vector import LANES, PANEL_VECTORS, TILE_ROWS, _at

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_TWO = 0x40000000  # bits of 2.0f: from there to 4 the spacing of float32 is 2**-22


def _micro_kernel(mr: int, nv: int, grid: bool):
    vec, ivec = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
    wide = ir.VectorType(_I64 if grid else ir.DoubleType(), LANES)
    nb_sum = types.int64 if grid else types.float64

    @intrinsic
    def kernel(typingctx, rows, stride, panel, panel_stride, depth, scales, sums):
        sig = types.void(
            types.CPointer(types.float32),
            types.intp,
            types.CPointer(types.float32),
            types.intp,
            types.intp,
            types.CPointer(types.float32),
            types.CPointer(nb_sum),
        )

        def codegen(context, b, sig, args):
            rows, stride, panel, panel_stride, depth, scales, sums = args

            def at(x):
                return ir.Constant(_I64, x)

            fma_ = cgutils.get_or_insert_function(b.module, ir.FunctionType(vec, [vec] * 3), f"llvm.fma.v{LANES}f32")
            undef = ir.Constant(vec, ir.Undefined)
            zeros = ir.Constant(ivec, [0] * LANES)

            def broadcast(scalar):
                one = b.insert_element(undef, scalar, ir.Constant(_I32, 0))
                return b.shuffle_vector(one, undef, zeros)

            acc = [[cgutils.alloca_once(b, vec) for _ in range(nv)] for _ in range(mr)]
            for row in acc:
                for cell in row:
                    b.store(ir.Constant(vec, [0.0] * LANES), cell)
            starts = [b.gep(rows, [b.mul(stride, at(i))]) for i in range(mr)]
            with cgutils.for_range(b, depth) as loop:
                line = b.gep(panel, [b.mul(loop.index, panel_stride)])
                w = [b.load(b.bitcast(b.gep(line, [at(v * LANES)]), vec.as_pointer()), align=4) for v in range(nv)]
                for i in range(mr):
                    x = broadcast(b.load(b.gep(starts[i], [loop.index])))
                    for v in range(nv):
                        b.store(b.call(fma_, [x, w[v], b.load(acc[i][v])]), acc[i][v])
            for v in range(nv):
                target = b.bitcast(b.gep(sums, [at(v * LANES)]), wide.as_pointer())
                if grid:
                    scale = b.load(b.bitcast(b.gep(scales, [at(v * LANES)]), vec.as_pointer()), align=4)
                    one, two = ir.Constant(vec, [1.0] * LANES), ir.Constant(vec, [2.0] * LANES)
                    total = ir.Constant(ivec, [0] * LANES)
                    for i in range(mr):
                        t = b.load(acc[i][v])
                        s = b.fmul(b.fmul(t, t), scale)
                        s = b.select(b.fcmp_ordered("<", s, one), s, one)
                        total = b.add(total, b.sub(b.bitcast(b.fadd(s, two), ivec), ir.Constant(ivec, [_TWO] * LANES)))
                    b.store(b.add(b.load(target, align=8), b.sext(total, wide)), target, align=8)
                else:
                    t = b.load(acc[0][v])
                    total = b.fmul(t, t)
                    for i in range(1, mr):
                        t = b.load(acc[i][v])
                        total = b.call(fma_, [t, t, total])
                    b.store(b.fadd(b.load(target, align=8), b.fpext(total, wide)), target, align=8)
            return context.get_dummy_value()

        return sig, codegen

    return kernel


_float_panel, _float_vector = _micro_kernel(TILE_ROWS, PANEL_VECTORS, False), _micro_kernel(TILE_ROWS, 1, False)
_grid_panel, _grid_vector = _micro_kernel(TILE_ROWS, PANEL_VECTORS, True), _micro_kernel(TILE_ROWS, 1, True)
_LANES, _PANEL, _ROWS = LANES, LANES * PANEL_VECTORS, TILE_ROWS
_OPTIONS = {"nogil": True, "cache": CACHE, "error_model": "numpy", "boundscheck": False}


@njit(**_OPTIONS)
def add_squares(rows, n, panels, scales, sums):
    """Add the squared projections of the first n staged rows to float64 ``sums``; rows are padded with zeros."""
    d, size = rows.shape[1], sums.shape[0]
    full = size - size % _PANEL
    for j in range(0, full, _PANEL):
        for i in range(0, n, _ROWS):
            _float_panel(_at(rows, i * d), d, _at(panels, j * d), _PANEL, d, _at(scales, j), _at(sums, j))
    for j in range(full, size, _LANES):
        for i in range(0, n, _ROWS):
            _float_vector(_at(rows, i * d), d, _at(panels, j * d), _LANES, d, _at(scales, j), _at(sums, j))


@njit(**_OPTIONS)
def _add_tiles(rows, n, panels, scales, sums):
    d, size = rows.shape[1], sums.shape[0]
    full = size - size % _PANEL
    for j in range(0, full, _PANEL):
        for i in range(0, n, _ROWS):
            _grid_panel(_at(rows, i * d), d, _at(panels, j * d), _PANEL, d, _at(scales, j), _at(sums, j))
    for j in range(full, size, _LANES):
        for i in range(0, n, _ROWS):
            _grid_vector(_at(rows, i * d), d, _at(panels, j * d), _LANES, d, _at(scales, j), _at(sums, j))


@njit(**_OPTIONS)
def add_rounded_squares(rows, n, weights, panels, scales, sums):
    """The same on the grid of 2**-22, into int64 ``sums``."""
    if weights.shape[0] == 0:
        _add_tiles(rows, n, panels, scales, sums)
        return
    tile, one = np.zeros((_ROWS, rows.shape[1]), np.float32), np.empty(sums.shape[0], np.int64)
    for i in range(n):
        tile[0] = rows[i]
        one[:] = 0
        _add_tiles(tile, 1, panels, scales, one)
        w = weights[i]
        for j in range(sums.shape[0]):
            sums[j] += w * one[j]


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

            def vector(pointer):
                return b.bitcast(pointer, vec.as_pointer())

            undef, zeros = ir.Constant(vec, ir.Undefined), ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)
            s = b.shuffle_vector(b.insert_element(undef, scale, ir.Constant(_I32, 0)), undef, zeros)
            c = b.load(vector(shift), align=item)
            accounts = [cgutils.alloca_once(b, vec) for _ in range(3)]
            for cell, pointer in zip(accounts, (lower, upper, linear), strict=True):
                b.store(b.load(vector(pointer), align=item), cell)
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
            for cell, pointer in zip(accounts, (lower, upper, linear), strict=True):
                b.store(b.load(cell), vector(pointer), align=item)
            return context.get_dummy_value()

        return sig, codegen

    return kernel


_copy_16, _copy_4, _copy_1 = (_column_kernel(lanes, True) for lanes in (16, 4, 1))
_scan_16, _scan_4, _scan_1 = (_column_kernel(lanes, False) for lanes in (16, 4, 1))


@njit(**_OPTIONS)
def stage_rows(X, i0, i1, shift, scale, out, lower, upper, linear):
    """Staging of contiguous rows of weight 1 in the precision of X, into a buffer of that precision or less."""
    d = X.shape[1]
    for first in range(i0, i1, 4):  # few rows at a time, so that memory is read in order
        n, x, o = min(4, i1 - first), first * d, (first - i0) * d
        k = 0
        while k + 16 <= d:
            accounts = _at(lower, k), _at(upper, k), _at(linear, k)
            _copy_16(_at(X, x + k), d, n, _at(shift, k), scale, _at(out, o + k), *accounts)
            k += 16
        while k + 4 <= d:
            accounts = _at(lower, k), _at(upper, k), _at(linear, k)
            _copy_4(_at(X, x + k), d, n, _at(shift, k), scale, _at(out, o + k), *accounts)
            k += 4
        while k < d:
            accounts = _at(lower, k), _at(upper, k), _at(linear, k)
            _copy_1(_at(X, x + k), d, n, _at(shift, k), scale, _at(out, o + k), *accounts)
            k += 1


@njit(**_OPTIONS)
def scan_rows(X, i0, i1, lower, upper, linear):
    """The same accounts of rows as they are, without a copy."""
    d = X.shape[1]
    one = X.dtype.type(1)
    for first in range(i0, i1, 4):
        n, x = min(4, i1 - first), first * d
        k = 0
        while k + 16 <= d:
            box = _at(lower, k), _at(upper, k), _at(linear, k)
            _scan_16(_at(X, x + k), d, n, box[2], one, box[2], *box)
            k += 16
        while k + 4 <= d:
            box = _at(lower, k), _at(upper, k), _at(linear, k)
            _scan_4(_at(X, x + k), d, n, box[2], one, box[2], *box)
            k += 4
        while k < d:
            box = _at(lower, k), _at(upper, k), _at(linear, k)
            _scan_1(_at(X, x + k), d, n, box[2], one, box[2], *box)
            k += 1


def pack(directions: np.ndarray) -> np.ndarray:
    """Directions in panels, coordinate by coordinate; what doesn't fill a panel goes into single vectors."""
    m, d = directions.shape
    padded = -(-m // LANES) * LANES
    full = padded - padded % _PANEL
    out = np.zeros(padded * d, np.float32)
    for j in range(0, full, _PANEL):
        block = directions[j : j + _PANEL]
        out[j * d : (j + _PANEL) * d].reshape(d, _PANEL)[:, : len(block)] = block.T
    for j in range(full, padded, LANES):
        block = directions[j : j + LANES]
        out[j * d : (j + LANES) * d].reshape(d, LANES)[:, : len(block)] = block.T
    return out
