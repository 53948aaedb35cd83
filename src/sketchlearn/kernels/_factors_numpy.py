"""Loops over factors of covariances in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]


def damp(projected: _Array, damping: _Array) -> None:
    """See :func:`sketchlearn.kernels.factors.damp`."""
    k, m = damping.shape
    y = projected.reshape(k, -1, m)
    damping -= np.float32(0.5) * np.einsum("irj,irj->ij", y, y)


def scale(projected: _Array, products: _Array) -> None:
    """See :func:`sketchlearn.kernels.factors.scale`."""
    k, m = products.shape
    view = projected.reshape(k, -1, m)
    view *= products[:, None, :]
