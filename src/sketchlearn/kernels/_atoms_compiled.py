"""Compiled loops over atoms: inner loops run over the frequencies and are vectorised by the compiler."""

# mypy: ignore-errors
import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled

_INV_PI = np.float32(1 / math.pi)
_COS = tuple(np.float32(c) for c in K.COS32[::-1])
_SIN = tuple(np.float32(c) for c in K.SIN32[::-1])
_LOG2E = np.float32(1.4426950408889634)
# 2**r on [-1/2, 1/2], relative error below 3e-8
_EXP2 = tuple(
    np.float32(c)
    for c in (1.5403530393381608e-4, 1.3333558146428443e-3, 9.618129107628477e-3, 5.550410866482158e-2,
              2.402265069591007e-1, 6.931471805599453e-1, 1.0)
)  # fmt: skip
_TINY = np.float32(-125.0)


@intrinsic
def _as_float(typingctx, bits):
    def codegen(context, b, sig, args):
        return b.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(inline="always", error_model="numpy")
def turned(phase):
    """Cosine and sine of a phase up to the sign that they share, and that sign."""
    t = phase * _INV_PI
    q = np.rint(t)
    r = t - q
    u = r * r
    c, s = _COS[0], _SIN[0]
    c = c * u + _COS[1]
    s = s * u + _SIN[1]
    c = c * u + _COS[2]
    s = s * u + _SIN[2]
    c = c * u + _COS[3]
    s = s * u + _SIN[3]
    c = c * u + _COS[4]
    s = s * u + _SIN[4]
    return c, s * r, np.float32(np.int32(1) - np.int32(2) * (np.int32(q) & np.int32(1)))


@compiled(fastmath={"contract", "nsz"})
def atoms(phases, damping, weights, cosine, sine, model):
    """See :func:`sketchlearn.kernels.atoms.atoms`."""
    k, m = phases.shape
    shared = damping.shape[0] == 1
    for j in range(m):
        model[0, j] = np.float32(0.0)
        model[1, j] = np.float32(0.0)
    for i in range(k):
        a = weights[i]
        row = 0 if shared else i
        for j in range(m):
            c, s, sign = turned(phases[i, j])
            x = damping[row, j] * _LOG2E
            x = x if x > _TINY else _TINY
            n = np.rint(x)
            x = x - n
            e = _EXP2[0]
            e = e * x + _EXP2[1]
            e = e * x + _EXP2[2]
            e = e * x + _EXP2[3]
            e = e * x + _EXP2[4]
            e = e * x + _EXP2[5]
            e = e * x + _EXP2[6]
            e = e * _as_float((np.int32(n) + np.int32(127)) << np.int32(23))
            e = e * sign
            c = c * e
            s = s * e
            cosine[i, j] = c
            sine[i, j] = s
            model[0, j] += a * c
            model[1, j] += a * s


@compiled(fastmath={"contract", "nsz", "reassoc"})
def shared(phases, envelope, squares, z, u, weights, cosine, weighted, along):
    """See :func:`sketchlearn.kernels.atoms.shared`."""
    k, m = phases.shape
    for j in range(m):
        weighted[0, j] = np.float32(0.0)
        weighted[1, j] = np.float32(0.0)
    for i in range(k):
        a = weights[i]
        for j in range(m):
            c, s, sign = turned(phases[i, j])
            c = c * sign
            s = s * sign
            cosine[i, j] = c
            phases[i, j] = s
            weighted[0, j] += a * c
            weighted[1, j] += a * s
    value, spread = 0.0, 0.0
    for j in range(m):
        e = envelope[j]
        c, s = weighted[0, j] * e, weighted[1, j] * e
        x, y = z[0, j] - c, z[1, j] - s
        value += np.float64(u[j] * (x * x + y * y))
        spread += np.float64(squares[j] * (u[j] * (x * c + y * s)))
    for j in range(m):
        e = envelope[j]
        weighted[0, j] = u[j] * e * (z[0, j] - weighted[0, j] * e)
        weighted[1, j] = u[j] * e * (z[1, j] - weighted[1, j] * e)
    for i in range(k):
        total = np.float32(0.0)
        for j in range(m):
            total += weighted[0, j] * cosine[i, j] + weighted[1, j] * phases[i, j]
        along[i] = total
        for j in range(m):
            phases[i, j] = weighted[1, j] * cosine[i, j] - weighted[0, j] * phases[i, j]
    return value, spread


@compiled(fastmath={"contract", "nsz", "reassoc"})
def correlate(phases, target, terms, along):
    """See :func:`sketchlearn.kernels.atoms.correlate`."""
    k, m = phases.shape
    for i in range(k):
        for j in range(m):
            c, s, sign = turned(phases[i, j])
            x, y = target[0, j] * sign, target[1, j] * sign
            terms[j] = x * c + y * s
            phases[i, j] = y * c - x * s
        total = np.float32(0.0)
        for j in range(m):
            total += terms[j]
        along[i] = total


@compiled(fastmath=True)
def products(cosine, sine, residual, along):
    """See :func:`sketchlearn.kernels.atoms.products`."""
    k, m = cosine.shape
    for i in range(k):
        for j in range(m):
            c, s = cosine[i, j], sine[i, j]
            cosine[i, j] = residual[0, j] * c + residual[1, j] * s
            sine[i, j] = residual[1, j] * c - residual[0, j] * s
        total = np.float32(0.0)
        for j in range(m):
            total += cosine[i, j]
        along[i] = total
