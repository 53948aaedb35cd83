"""Second tier: plain loops that the compiler vectorises; the only intrinsic is a scalar multiply-add.

Same bits as the first tier: the phases are accumulated by fused multiply-adds in the order of the
coordinates, and everything after that is done once per feature.
"""

# mypy: ignore-errors
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._staging import CACHE, PLAIN_SIGNATURES, stage_block


@intrinsic
def _fma(typingctx, x, y, z):
    def codegen(context, b, sig, args):
        real = args[0].type
        bits = 32 if isinstance(real, ir.FloatType) else 64
        fn = cgutils.get_or_insert_function(b.module, ir.FunctionType(real, [real] * 3), f"llvm.fma.f{bits}")
        return b.call(fn, args)

    return (x(x, x, x), codegen) if x == y == z and isinstance(x, types.Float) else None


_TILE = 256
_C32 = tuple(np.float32(c) for c in K.COS32[::-1])
_S32 = tuple(np.float32(c) for c in K.SIN32[::-1])
_C64, _S64 = K.COS64[::-1], K.SIN64[::-1]
_ROUND32, _PARITY32 = np.float32(K.ROUND32), np.float32(K.PARITY32)
_ROUND64, _PARITY64 = K.ROUND64, K.PARITY64
_ZERO32 = np.int32(np.float32(K.ROUND32).view(np.int32))
_ZERO64 = np.int64(np.float64(K.ROUND64).view(np.int64))


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def _near_row(x, packed, j0, j1, w, phase, cosine, sine, sums):
    width = j1 - j0
    phase[:width] = np.float32(0.0)
    for k in range(x.shape[0]):
        xk = x[k]
        for j in range(width):
            phase[j] = _fma(xk, packed[k, j0 + j], phase[j])
    add_waves(phase, width, w, cosine, sine, sums, j0)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def add_waves(phase, width, w, cosine, sine, sums, j0):
    """Add w times the rounded cosines and sines of float32 phases (half-turns) to the sums from j0 on."""
    parity = cosine.view(np.int32)
    for j in range(width):
        cosine[j] = phase[j] + _PARITY32
    for j in range(width):
        sine[j] = np.float32(-1.0) if parity[j] & 1 else np.float32(1.0)
    for j in range(width):
        t = phase[j]
        r = t - np.rint(t)
        u = r * r
        c, s = _C32[0], _S32[0]
        for q in range(1, len(_C32)):
            c = _fma(c, u, _C32[q])
        for q in range(1, len(_S32)):
            s = _fma(s, u, _S32[q])
        s = s * r
        cosine[j] = c * sine[j] + _ROUND32
        sine[j] = s * sine[j] + _ROUND32
    cos_bits, sin_bits = cosine.view(np.int32), sine.view(np.int32)
    for j in range(width):
        sums[0, j0 + j] += w * np.int64(cos_bits[j] - _ZERO32)
        sums[1, j0 + j] += w * np.int64(sin_bits[j] - _ZERO32)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def _far_row(x, packed, w, sums):
    phase = np.empty(packed.shape[1], np.float64)
    for j in range(packed.shape[1]):
        t = 0.0
        for k in range(x.shape[0]):
            t = _fma(x[k], np.float64(packed[k, j]), t)
        phase[j] = t
    add_far_waves(phase, packed.shape[1], w, sums, 0)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def add_far_waves(phase, width, w, sums, j0):
    """The same for float64 phases."""
    bits = np.empty(3, np.float64)
    as_int = bits.view(np.int64)
    for j in range(width):
        t = phase[j]
        r = t - np.rint(t)
        u = r * r
        c, s = _C64[0], _S64[0]
        for q in range(1, len(_C64)):
            c = _fma(c, u, _C64[q])
        for q in range(1, len(_S64)):
            s = _fma(s, u, _S64[q])
        s = s * r
        bits[0] = t + _PARITY64
        sign = -1.0 if as_int[0] & 1 else 1.0
        bits[1] = c * sign + _ROUND64
        bits[2] = s * sign + _ROUND64
        sums[0, j0 + j] += w * (as_int[1] - _ZERO64)
        sums[1, j0 + j] += w * (as_int[2] - _ZERO64)


@njit(PLAIN_SIGNATURES, nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def sum_rows(X, weights, center, rms, packed, skip, block, sums, lower, upper, info):
    """The whole pass over the rows of X; see :func:`sketchlearn.kernels.fourier.sum_rows`."""
    n, d = X.shape
    weighted = weights.shape[0] > 0
    near, far = np.empty((block, d), np.float32), np.empty((block, d), np.float64)
    near_weight, far_weight = np.empty(block, np.int64), np.empty(block, np.int64)
    phase, cosine, sine = np.empty(_TILE, np.float32), np.empty(_TILE, np.float32), np.empty(_TILE, np.float32)
    counts = np.zeros(2, np.int64)
    size = packed.shape[1]
    for i0 in range(0, n, block):
        i1 = min(n, i0 + block)
        stage_block(
            X, i0, i1, weights, center, rms, skip, near, near_weight, far, far_weight,
            lower, upper, counts, info,
        )  # fmt: skip
        if info[1] >= 0 and not skip:
            return
        for j0 in range(0, size, _TILE):
            j1 = min(size, j0 + _TILE)
            for i in range(counts[0]):
                w = near_weight[i] if weighted else np.int64(1)
                _near_row(near[i], packed, j0, j1, w, phase, cosine, sine, sums)
        for i in range(counts[1]):
            w = far_weight[i] if weighted else np.int64(1)
            _far_row(far[i], packed, w, sums)


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def sum_runs(X, weights, starts, center, rms, packed, skip, block, sums, lower, upper, info):
    """One pass per run of rows, ``starts[g]`` to ``starts[g + 1]``, each into sums of its own."""
    weighted = weights.shape[0] > 0
    for g in range(starts.shape[0] - 1):
        a, b = starts[g], starts[g + 1]
        w = weights[a:b] if weighted else weights
        sum_rows(X[a:b], w, center, rms, packed, skip, block, sums[g], lower[g], upper[g], info[g])


def pack(half_turns: np.ndarray) -> np.ndarray:
    """Frequencies as columns, so that the inner loops are contiguous."""
    return np.ascontiguousarray(half_turns.T)


LANES = 1
