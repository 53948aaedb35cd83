"""Loops of fits whose covariances are a diagonal plus factors, ``S = D + sum_c v_c v_c'``, in NumPy.

``w'Sw = D·w^2 + sum_c (v_c·w)^2``: products of the frequencies with the factors are all that is needed, and no table
of their d (d + 1)/2 products with each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]


def damp(projected: _Array, damping: _Array) -> None:
    """Subtract half the squares of the projections (k r, m), summed over the r factors of each, from damping (k, m)."""
    k, m = damping.shape
    y = projected.reshape(k, -1, m)
    damping -= np.float32(0.5) * np.einsum("irj,irj->ij", y, y)


def scale(projected: _Array, products: _Array) -> None:
    """Multiply the projections (k r, m) of each component by its products (k, m), in place."""
    k, m = products.shape
    view = projected.reshape(k, -1, m)
    view *= products[:, None, :]
