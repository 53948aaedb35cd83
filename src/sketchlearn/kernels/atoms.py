"""Loops of the decoders: damped exponentials of phases, and their products with a residual.

Arrays are (components, frequencies), float32: phases are then good to 1e-6, far below the sampling noise of any
sketch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_F32 = npt.NDArray[np.float32]


def atoms(phases: _F32, damping: _F32, weights: _F32, cosine: _F32, sine: _F32, model: _F32) -> None:
    """Real and imaginary parts of ``exp(i phase + damping)``, and their weighted sums over the components.

    ``damping`` is (components, frequencies), or (1, frequencies) if all components share it; the results go to
    `cosine`, `sine` (components, frequencies) and `model` (2, frequencies).
    """
    tiers.loops("atoms").atoms(phases, damping, weights, cosine, sine, model)


def products(cosine: _F32, sine: _F32, residual: _F32, along: _F32) -> None:
    """Overwrite the atoms by Re(conj(r) atom) and by Im(r) Re(atom) - Re(r) Im(atom); sum the former.

    `residual` is (2, frequencies), the sums go to `along` (components,).
    """
    tiers.loops("atoms").products(cosine, sine, residual, along)
