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


def shared(
    phases: _F32, envelope: _F32, squares: _F32, z: _F32, u: _F32, weights: _F32, cosine: _F32, weighted: _F32,
    along: _F32,
) -> tuple[float, float]:  # fmt: skip
    """See :func:`sketchlearn.kernels.atoms.shared`."""
    np.cos(phases, out=cosine)
    np.sin(phases, out=phases)
    model = envelope * np.stack([weights @ cosine, weights @ phases])
    residual = z - model
    value, spread = float((u * residual**2).sum()), float((u * squares * residual * model).sum())
    weighted[:] = u * envelope * residual
    products(cosine, phases, weighted, along)
    return value, spread


def correlate(phases: _F32, target: _F32, terms: _F32, along: _F32) -> None:
    """See :func:`sketchlearn.kernels.atoms.correlate`."""
    cosine = np.cos(phases)
    np.sin(phases, out=phases)
    products(cosine, phases, target, along)


def products(cosine: _F32, sine: _F32, residual: _F32, along: _F32) -> None:
    """See :func:`sketchlearn.kernels.atoms.products`."""
    t = residual[0] * cosine + residual[1] * sine
    g = residual[1] * cosine - residual[0] * sine
    cosine[:] = t
    sine[:] = g
    along[:] = t.sum(1)
