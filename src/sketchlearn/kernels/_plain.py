"""Second tier of the Fourier pass: plain loops that the compiler vectorises; the only intrinsic is a scalar fma.

Same bits as the first tier: the phases are accumulated by fused multiply-adds in the order of the
coordinates, and everything after that is done once per feature.
"""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled, fma
from sketchlearn.kernels._staging import stage as stage

LANES = 1
_TILE = 256
_C32 = tuple(np.float32(c) for c in K.COS32[::-1])
_S32 = tuple(np.float32(c) for c in K.SIN32[::-1])
_C64, _S64 = K.COS64[::-1], K.SIN64[::-1]
_ROUND32, _PARITY32 = np.float32(K.ROUND32), np.float32(K.PARITY32)
_ROUND64, _PARITY64 = K.ROUND64, K.PARITY64
_ZERO32 = np.int32(np.float32(K.ROUND32).view(np.int32))
_ZERO64 = np.int64(np.float64(K.ROUND64).view(np.int64))


@compiled
def waves_near(scratch, width, w, sums, g, at):
    """Add w times the waves of the phases in the first row of float32 scratch to the sums of a run, from `at` on."""
    bits = scratch.view(np.int32)
    for j in range(width):
        scratch[1, j] = scratch[0, j] + _PARITY32
    for j in range(width):
        scratch[2, j] = np.float32(-1.0) if bits[1, j] & 1 else np.float32(1.0)
    for j in range(width):
        t = scratch[0, j]
        r = t - np.rint(t)
        u = r * r
        c, s = _C32[0], _S32[0]
        for q in range(1, len(_C32)):
            c = fma(c, u, _C32[q])
        for q in range(1, len(_S32)):
            s = fma(s, u, _S32[q])
        s = s * r
        scratch[1, j] = c * scratch[2, j] + _ROUND32
        scratch[2, j] = s * scratch[2, j] + _ROUND32
    for j in range(width):
        sums[g, 0, at + j] += w * np.int64(bits[1, j] - _ZERO32)
        sums[g, 1, at + j] += w * np.int64(bits[2, j] - _ZERO32)


@compiled
def waves_far(t, w, scratch, sums, g, j):
    """Add w times the waves of one float64 phase; three numbers behind the first row of scratch are overwritten."""
    bits = scratch.view(np.int64)
    r = t - np.rint(t)
    u = r * r
    c, s = _C64[0], _S64[0]
    for q in range(1, len(_C64)):
        c = fma(c, u, _C64[q])
    for q in range(1, len(_S64)):
        s = fma(s, u, _S64[q])
    s = s * r
    scratch[1, 0] = t + _PARITY64
    sign = -1.0 if bits[1, 0] & 1 else 1.0
    scratch[2, 0] = c * sign + _ROUND64
    scratch[3, 0] = s * sign + _ROUND64
    sums[g, 0, j] += w * (bits[2, 0] - _ZERO64)
    sums[g, 1, j] += w * (bits[3, 0] - _ZERO64)


@compiled
def signs_near(scratch, width, w, sums, g, at):
    """Like `waves_near`, but w is added where a cosine or sine is negative."""
    bits = scratch.view(np.int32)
    for j in range(width):
        scratch[1, j] = scratch[0, j] + _PARITY32
        scratch[2, j] = (scratch[0, j] - np.float32(0.5)) + _PARITY32
    for j in range(width):
        sums[g, 0, at + j] += w * np.int64(bits[1, j] & 1)
        sums[g, 1, at + j] += w * np.int64(bits[2, j] & 1)


@compiled
def signs_far(t, w, scratch, sums, g, j):
    """Like `waves_far`, but w is added where a cosine or sine is negative."""
    bits = scratch.view(np.int64)
    scratch[1, 0] = t + _PARITY64
    scratch[2, 0] = (t - 0.5) + _PARITY64
    sums[g, 0, j] += w * (bits[1, 0] & 1)
    sums[g, 1, j] += w * (bits[2, 0] & 1)


@compiled
def _phases(rows, i, panels, j0, width, scratch):
    """Phases of a row, some frequencies, in the first row of scratch."""
    for j in range(width):
        scratch[0, j] = np.float32(0.0)
    for k in range(panels.shape[0]):
        x = rows[i, k]
        for j in range(width):
            scratch[0, j] = fma(x, panels[k, j0 + j], scratch[0, j])


@compiled
def add_near(rows, weights, runs, panels, sums, scratch):
    """Add the float32 rows of each run to its sums (runs, 2, size); ``scratch`` is float32 (3, 256)."""
    size = panels.shape[1]
    for g in range(runs.shape[0] - 1):
        for j0 in range(0, size, _TILE):
            width = min(_TILE, size - j0)
            for i in range(runs[g], runs[g + 1]):
                _phases(rows, i, panels, j0, width, scratch)
                waves_near(scratch, width, weights[i], sums, g, j0)


@compiled
def add_far(rows, weights, runs, panels, sums, scratch):
    """Add the float64 rows of each run to its sums; ``scratch`` is float64 (4, 1)."""
    d, size = panels.shape
    for g in range(runs.shape[0] - 1):
        for i in range(runs[g], runs[g + 1]):
            for j in range(size):
                t = 0.0
                for k in range(d):
                    t = fma(rows[i, k], np.float64(panels[k, j]), t)
                waves_far(t, weights[i], scratch, sums, g, j)


@compiled
def count_near(rows, weights, runs, panels, sums, scratch):
    """Add one where a cosine or sine is negative."""
    size = panels.shape[1]
    for g in range(runs.shape[0] - 1):
        for j0 in range(0, size, _TILE):
            width = min(_TILE, size - j0)
            for i in range(runs[g], runs[g + 1]):
                _phases(rows, i, panels, j0, width, scratch)
                signs_near(scratch, width, weights[i], sums, g, j0)


@compiled
def count_far(rows, weights, runs, panels, sums, scratch):
    """Add one where a cosine or sine of a float64 row is negative."""
    d, size = panels.shape
    for g in range(runs.shape[0] - 1):
        for i in range(runs[g], runs[g + 1]):
            for j in range(size):
                t = 0.0
                for k in range(d):
                    t = fma(rows[i, k], np.float64(panels[k, j]), t)
                signs_far(t, weights[i], scratch, sums, g, j)


def scratch(far, signs_only=False):
    """Numbers that a pass needs beside its sums."""
    return np.empty((4, 1)) if far else np.empty((3, _TILE), np.float32)


def pack(rows: np.ndarray) -> np.ndarray:
    """Frequencies as columns, so that the inner loops are contiguous."""
    return np.array(rows.T, np.float32, order="C")
