"""Loops over atoms in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_F32 = npt.NDArray[np.float32]


def atoms(phases: _F32, damping: _F32, weights: _F32, cosine: _F32, sine: _F32, model: _F32) -> None:
    """See :func:`sketchlearn.kernels.atoms.atoms`."""
    envelope = np.exp(damping, dtype=np.float32)
    np.cos(phases, out=cosine)
    np.sin(phases, out=sine)
    cosine *= envelope
    sine *= envelope
    model[0] = weights @ cosine
    model[1] = weights @ sine


def products(cosine: _F32, sine: _F32, residual: _F32, along: _F32) -> None:
    """See :func:`sketchlearn.kernels.atoms.products`."""
    t = residual[0] * cosine + residual[1] * sine
    g = residual[1] * cosine - residual[0] * sine
    cosine[:] = t
    sine[:] = g
    along[:] = t.sum(1)
