"""Compiled loops of the decoders: damped exponentials of phases, and their products with a residual.

Arrays are (components, frequencies), so that every inner loop runs over the frequencies and is
vectorised by the compiler.  Everything is float32: phases are then good to 1e-6, far below the sampling
noise of any sketch.
"""

# mypy: ignore-errors
import math

import numpy as np

try:
    from llvmlite import ir
    from numba import njit, types
    from numba.extending import intrinsic

    from sketchlearn.kernels._staging import CACHE
except ImportError:  # no numba on this platform: the NumPy functions below do the same
    njit = None

from sketchlearn.kernels import _constants as K

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


def _numpy_atoms(phases, damping, weights, cosine, sine, model):
    """See :func:`atoms`."""
    envelope = np.exp(damping, dtype=np.float32)
    np.cos(phases, out=cosine)
    np.sin(phases, out=sine)
    cosine *= envelope
    sine *= envelope
    model[0] = weights @ cosine
    model[1] = weights @ sine


def _numpy_products(cosine, sine, residual, along):
    """See :func:`products`."""
    t = residual[0] * cosine + residual[1] * sine
    g = residual[1] * cosine - residual[0] * sine
    cosine[:] = t
    sine[:] = g
    along[:] = t.sum(1)


if njit is None:
    atoms, products = _numpy_atoms, _numpy_products
else:

    @intrinsic
    def _as_float(typingctx, bits):
        def codegen(context, b, sig, args):
            return b.bitcast(args[0], ir.FloatType())

        return types.float32(types.int32), codegen

    @njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False, fastmath={"contract", "nsz"})
    def atoms(phases, damping, weights, cosine, sine, model):
        """Real and imaginary parts of ``exp(i phase + damping)``, and their weighted sums over the components.

        ``damping`` is (components, frequencies), or (1, frequencies) if all components share it.
        """
        k, m = phases.shape
        shared = damping.shape[0] == 1
        model[:, :] = np.float32(0.0)
        for i in range(k):
            a = weights[i]
            row = 0 if shared else i
            for j in range(m):
                t = phases[i, j] * _INV_PI
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
                s = s * r
                x = max(damping[row, j] * _LOG2E, _TINY)
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
                e = e * np.float32(np.int32(1) - np.int32(2) * (np.int32(q) & np.int32(1)))
                c = c * e
                s = s * e
                cosine[i, j] = c
                sine[i, j] = s
                model[0, j] += a * c
                model[1, j] += a * s

    @njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False, fastmath=True)
    def products(cosine, sine, residual, along):
        """Overwrite the atoms by Re(conj(r) atom) and by Im(r) Re(atom) - Re(r) Im(atom); sum the former."""
        k, m = cosine.shape
        for i in range(k):
            total = np.float32(0.0)
            for j in range(m):
                c, s = cosine[i, j], sine[i, j]
                t = residual[0, j] * c + residual[1, j] * s
                cosine[i, j] = t
                sine[i, j] = residual[1, j] * c - residual[0, j] * s
                total += t
            along[i] = total
