"""First tier: a register-tiled micro-kernel written as explicit LLVM vectors.

One call of a micro-kernel takes ``mr`` rows and ``nv`` vectors of frequencies, accumulates the
phases in registers with fused multiply-adds (in the order of the coordinates, so the bits do not
depend on vector width or processor), reduces, evaluates both polynomials, rounds to the grid and
adds the integers to the sums of the panel.  Nothing of size rows x frequencies leaves the registers.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._staging import CACHE, SIGNATURES, stage_block

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _tile_shape() -> tuple[int, int, int]:
    """Lanes of a float32 vector, vectors per panel, rows per tile, from the processor numba targets."""
    name = (config.CPU_NAME or "").lower()
    if config.CPU_FEATURES is not None:
        features = {f[1:] for f in config.CPU_FEATURES.split(",") if f.startswith("+")}
    else:
        try:
            features = {k for k, on in binding.get_host_cpu_features().items() if on}
        except RuntimeError:
            features = set()
        if name and not any(tag in name for tag in ("avx512", "znver4", "znver5", "rapids", "icelake")):
            features -= {"avx512f"}
    if "avx512f" in features:
        return 16, 3, 5
    if "avx2" in features and "fma" in features:
        return 8, 2, 6
    if "neon" in features or "asimd" in features:
        return 4, 4, 4
    return 4, 2, 4


LANES, PANEL_VECTORS, TILE_ROWS = _tile_shape()


def waves(b, t, bits: int):
    """Code for the grid units of cosine and sine of a vector of phases (half-turns), both plus the bits of ROUND."""
    real, integer = (ir.FloatType(), _I32) if bits == 32 else (ir.DoubleType(), _I64)
    vec, ivec = ir.VectorType(real, LANES), ir.VectorType(integer, LANES)
    to_real = (lambda x: float(np.float32(x))) if bits == 32 else float

    def const(x):
        return ir.Constant(vec, [to_real(x)] * LANES)

    def call(name, *arguments):
        fn = ir.FunctionType(vec, [vec] * len(arguments))
        return b.call(cgutils.get_or_insert_function(b.module, fn, f"llvm.{name}.v{LANES}f{bits}"), arguments)

    cos_poly, sin_poly = (K.COS32, K.SIN32) if bits == 32 else (K.COS64, K.SIN64)
    parity, rounder = (K.PARITY32, K.ROUND32) if bits == 32 else (K.PARITY64, K.ROUND64)
    sign = b.shl(b.bitcast(b.fadd(t, const(parity)), ivec), ir.Constant(ivec, [bits - 1] * LANES))
    r = b.fsub(t, call("rint", t))
    u = b.fmul(r, r)
    c, s = const(cos_poly[-1]), const(sin_poly[-1])
    for coefficient in cos_poly[-2::-1]:
        c = call("fma", c, u, const(coefficient))
    for coefficient in sin_poly[-2::-1]:
        s = call("fma", s, u, const(coefficient))
    s = b.fmul(s, r)
    return tuple(
        b.bitcast(b.fadd(b.bitcast(b.xor(b.bitcast(v, ivec), sign), vec), const(rounder)), ivec) for v in (c, s)
    )


def signs(b, t, bits: int):
    """Code for which cosines and sines of a vector of phases (half-turns) are negative: one or zero each."""
    real, integer = (ir.FloatType(), _I32) if bits == 32 else (ir.DoubleType(), _I64)
    vec, ivec = ir.VectorType(real, LANES), ir.VectorType(integer, LANES)
    parity = ir.Constant(vec, [K.PARITY32 if bits == 32 else K.PARITY64] * LANES)
    quarter = b.fsub(t, ir.Constant(vec, [0.5] * LANES))
    one = ir.Constant(ivec, [1] * LANES)
    return tuple(b.and_(b.bitcast(b.fadd(v, parity), ivec), one) for v in (t, quarter))


def _micro_kernel(bits: int, mr: int, nv: int):
    """Micro-kernel for ``mr`` rows and ``nv`` vectors; ``bits`` is the precision of the phases."""
    real, integer = (ir.FloatType(), _I32) if bits == 32 else (ir.DoubleType(), _I64)
    nb_real = types.float32 if bits == 32 else types.float64
    nb_int = types.int32 if bits == 32 else types.int64
    item = bits // 8
    vec, ivec = ir.VectorType(real, LANES), ir.VectorType(integer, LANES)
    wvec = ir.VectorType(ir.FloatType(), LANES)

    @intrinsic
    def kernel(typingctx, rows, stride, panel, panel_stride, depth, cos_sums, sin_sums):
        sig = types.void(
            types.CPointer(nb_real),
            types.intp,
            types.CPointer(types.float32),
            types.intp,
            types.intp,
            types.CPointer(nb_int),
            types.CPointer(nb_int),
        )

        def codegen(context, b, sig, args):
            rows, stride, panel, panel_stride, depth, cos_sums, sin_sums = args

            def const(x):
                return ir.Constant(vec, [x] * LANES)

            def at(x):
                return ir.Constant(_I64, x)

            def declare(name, arity):
                fn = ir.FunctionType(vec, [vec] * arity)
                return cgutils.get_or_insert_function(b.module, fn, f"llvm.{name}.v{LANES}f{bits}")

            fma_ = declare("fma", 3)

            def fma(x, y, z):
                return b.call(fma_, [x, y, z])

            undef = ir.Constant(vec, ir.Undefined)
            zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)

            def broadcast(scalar):
                one = b.insert_element(undef, scalar, ir.Constant(_I32, 0))
                return b.shuffle_vector(one, undef, zeros)

            acc = [[cgutils.alloca_once(b, vec) for _ in range(nv)] for _ in range(mr)]
            for row in acc:
                for cell in row:
                    b.store(const(0.0), cell)
            starts = [b.gep(rows, [b.mul(stride, at(i))]) for i in range(mr)]
            with cgutils.for_range(b, depth) as loop:
                line = b.gep(panel, [b.mul(loop.index, panel_stride)])
                w = []
                for v in range(nv):
                    p = b.bitcast(b.gep(line, [at(v * LANES)]), wvec.as_pointer())
                    x = b.load(p, align=4)
                    w.append(x if bits == 32 else b.fpext(x, vec))
                for i in range(mr):
                    x = broadcast(b.load(b.gep(starts[i], [loop.index])))
                    for v in range(nv):
                        b.store(fma(x, w[v], b.load(acc[i][v])), acc[i][v])
            for v in range(nv):
                cp = b.bitcast(b.gep(cos_sums, [at(v * LANES)]), ivec.as_pointer())
                sp = b.bitcast(b.gep(sin_sums, [at(v * LANES)]), ivec.as_pointer())
                cos_sum, sin_sum = b.load(cp, align=item), b.load(sp, align=item)
                for i in range(mr):
                    cosine, sine = waves(b, b.load(acc[i][v]), bits)
                    cos_sum = b.add(cos_sum, cosine)
                    sin_sum = b.add(sin_sum, sine)
                b.store(cos_sum, cp, align=item)
                b.store(sin_sum, sp, align=item)
            return context.get_dummy_value()

        return sig, codegen

    return kernel


# panels narrower than four vectors exist only at the end of the frequencies
_tile_1, _tile_2, _tile_3, _tile_4 = (_micro_kernel(32, TILE_ROWS, min(nv, PANEL_VECTORS)) for nv in (1, 2, 3, 4))
_row_1, _row_2, _row_3, _row_4 = (_micro_kernel(32, 1, min(nv, PANEL_VECTORS)) for nv in (1, 2, 3, 4))
_far_row = _micro_kernel(64, 1, 1)
_LANES, _PANEL, _ROWS = LANES, LANES * PANEL_VECTORS, TILE_ROWS
_MAX_VECTORS = PANEL_VECTORS
_ZERO32 = np.uint32(np.float32(K.ROUND32).view(np.uint32))
_ZERO64 = np.int64(np.float64(K.ROUND64).view(np.int64))


@intrinsic
def _at(typingctx, array, offset):
    """Pointer to a flat offset of a C-contiguous array."""

    def codegen(context, b, sig, args):
        data = arrayobj.make_array(sig.args[0])(context, b, args[0]).data
        return b.gep(data, [args[1]])

    return types.CPointer(array.dtype)(array, offset), codegen


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def _panel_rows(near, first, last, d, packed, start, nv, cos_sums, sin_sums):
    """Add the rows first..last of the staged block to the int32 sums of one panel."""
    width = nv * _LANES
    i = first
    w, c, s = _at(packed, start), _at(cos_sums, 0), _at(sin_sums, 0)
    if nv == 1:
        while i + _ROWS <= last:
            _tile_1(_at(near, i * d), d, w, width, d, c, s)
            i += _ROWS
        while i < last:
            _row_1(_at(near, i * d), d, w, width, d, c, s)
            i += 1
    elif nv == 2:
        while i + _ROWS <= last:
            _tile_2(_at(near, i * d), d, w, width, d, c, s)
            i += _ROWS
        while i < last:
            _row_2(_at(near, i * d), d, w, width, d, c, s)
            i += 1
    elif _MAX_VECTORS >= 3 and nv == 3:
        while i + _ROWS <= last:
            _tile_3(_at(near, i * d), d, w, width, d, c, s)
            i += _ROWS
        while i < last:
            _row_3(_at(near, i * d), d, w, width, d, c, s)
            i += 1
    elif _MAX_VECTORS == 4:
        while i + _ROWS <= last:
            _tile_4(_at(near, i * d), d, w, width, d, c, s)
            i += _ROWS
        while i < last:
            _row_4(_at(near, i * d), d, w, width, d, c, s)
            i += 1


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def sum_block(near, n_near, near_weight, far, n_far, far_weight, weighted, packed, d, sums):
    """Add one staged block to ``sums`` (2, padded size), int64."""
    size = sums.shape[1]
    cos32, sin32 = np.empty(_PANEL, np.int32), np.empty(_PANEL, np.int32)
    cos64, sin64 = np.empty(_LANES, np.int64), np.empty(_LANES, np.int64)
    for j0 in range(0, size, _PANEL):
        nv = min(_PANEL, size - j0) // _LANES
        width = nv * _LANES
        if weighted:
            for i in range(n_near):
                cos32[:] = 0
                sin32[:] = 0
                _panel_rows(near, i, i + 1, d, packed, j0 * d, nv, cos32, sin32)
                w = near_weight[i]
                for j in range(width):
                    sums[0, j0 + j] += w * np.int64(np.int32(np.uint32(cos32[j]) - _ZERO32))
                    sums[1, j0 + j] += w * np.int64(np.int32(np.uint32(sin32[j]) - _ZERO32))
        elif n_near > 0:
            cos32[:] = 0
            sin32[:] = 0
            _panel_rows(near, 0, n_near, d, packed, j0 * d, nv, cos32, sin32)
            # the sums wrap modulo 2**32, the true ones stay below 2**30
            shift = np.uint32(np.uint32(n_near) * _ZERO32)
            for j in range(width):
                sums[0, j0 + j] += np.int64(np.int32(np.uint32(cos32[j]) - shift))
                sums[1, j0 + j] += np.int64(np.int32(np.uint32(sin32[j]) - shift))
        for i in range(n_far):
            w = far_weight[i] if weighted else np.int64(1)
            for v in range(nv):
                cos64[:] = 0
                sin64[:] = 0
                panel = _at(packed, j0 * d + v * _LANES)
                _far_row(_at(far, i * d), d, panel, width, d, _at(cos64, 0), _at(sin64, 0))
                for j in range(_LANES):
                    sums[0, j0 + v * _LANES + j] += w * (cos64[j] - _ZERO64)
                    sums[1, j0 + v * _LANES + j] += w * (sin64[j] - _ZERO64)


@njit(SIGNATURES, nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def sum_rows(X, weights, center, rms, packed, skip, block, sums, lower, upper, info):
    """The whole pass over the rows of X; see :func:`sketchlearn.kernels.fourier.sum_rows`."""
    n, d = X.shape
    weighted = weights.shape[0] > 0
    near, far = np.empty((block, d), np.float32), np.empty((block, d), np.float64)
    near_weight, far_weight = np.empty(block, np.int64), np.empty(block, np.int64)
    counts = np.zeros(2, np.int64)
    for i0 in range(0, n, block):
        i1 = min(n, i0 + block)
        stage_block(
            X, i0, i1, weights, center, rms, skip, near, near_weight, far, far_weight,
            lower, upper, counts, info,
        )  # fmt: skip
        if info[1] >= 0 and not skip:
            return
        sum_block(
            near, counts[0], near_weight, far, counts[1], far_weight, weighted, packed, d, sums
        )  # fmt: skip


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def sum_runs(X, weights, starts, center, rms, packed, skip, block, sums, lower, upper, info):
    """One pass per run of rows, ``starts[g]`` to ``starts[g + 1]``, each into sums of its own."""
    weighted = weights.shape[0] > 0
    for g in range(starts.shape[0] - 1):
        a, b = starts[g], starts[g + 1]
        w = weights[a:b] if weighted else weights
        sum_rows(X[a:b], w, center, rms, packed, skip, block, sums[g], lower[g], upper[g], info[g])


def pack(half_turns: np.ndarray) -> np.ndarray:
    """Frequencies in panels of ``PANEL_VECTORS`` vectors, coordinate by coordinate; the last is narrower."""
    m, d = half_turns.shape
    padded = -(-m // LANES) * LANES
    full = np.zeros((padded, d), np.float32)
    full[:m] = half_turns
    panels = [full[j : j + _PANEL].T.ravel() for j in range(0, padded, _PANEL)]
    return np.concatenate(panels)
