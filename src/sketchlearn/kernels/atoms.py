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


def shared(
    phases: _F32, envelope: _F32, squares: _F32, z: _F32, u: _F32, weights: _F32, cosine: _F32, weighted: _F32,
    along: _F32,
) -> tuple[float, float]:  # fmt: skip
    """Misfit of components that share a width, with all that its gradient needs, in one go.

    `phases`, `cosine`: phases, overwritten by Im(r) Re(atom) - Re(r) Im(atom) (of which the gradient in the means is
    made), (components, frequencies); a buffer. `envelope`, `squares`, `u`: the damping that all share, squared lengths
    of the frequencies, and their weights, (frequencies,). `z`, `weighted`: the sketch, (2, frequencies); a buffer.
    `weights`, `along`: weights, and products of the atoms with the weighted residual, (components,).

    Returns the misfit, and its derivative in the variance.
    """
    made: tuple[float, float] = tiers.loops("atoms").shared(
        phases, envelope, squares, z, u, weights, cosine, weighted, along
    )
    return made


def correlate(phases: _F32, target: _F32, terms: _F32, along: _F32) -> None:
    """Products of undamped exponentials with a target (2, frequencies), summed to `along` (components,).

    `terms` (frequencies,) is a buffer.

    The phases are overwritten by Im(target) cos - Re(target) sin, of which the gradient is made.
    """
    tiers.loops("atoms").correlate(phases, target, terms, along)


def products(cosine: _F32, sine: _F32, residual: _F32, along: _F32) -> None:
    """Overwrite the atoms by Re(conj(r) atom) and by Im(r) Re(atom) - Re(r) Im(atom); sum the former.

    `residual` is (2, frequencies), the sums go to `along` (components,).
    """
    tiers.loops("atoms").products(cosine, sine, residual, along)
