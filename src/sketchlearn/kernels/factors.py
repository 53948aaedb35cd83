"""Loops of fits whose covariances are a diagonal plus some factors: ``S = D + sum_c v_c v_c'``.

Then ``w'Sw = D·w^2 + sum_c (v_c·w)^2``: products of the frequencies with the factors are all that is needed, and no
table of their d (d + 1)/2 products with each other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_F32 = npt.NDArray[np.float32]


def damp(projected: _F32, damping: _F32) -> None:
    """Subtract half the squares of the projections (k r, m), summed over the r factors of each, from damping (k, m)."""
    tiers.loops("factors").damp(projected, damping)


def scale(projected: _F32, products: _F32) -> None:
    """Multiply the projections (k r, m) of each component by its products (k, m), in place."""
    tiers.loops("factors").scale(projected, products)
