"""Loops of message passing: posterior mean and variance of every phase, given those of all others.

At one frequency the sketch is ``sum_l b_l exp(i t_l)`` plus noise, with phases ``t_l`` that are normal beforehand: mean
``p_l``, standard deviation ``g_l``.  Arrays are (components, frequencies), float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import tiers

_F32 = npt.NDArray[np.float32]


def interference(cosine: _F32, sine: _F32, spread: _F32, amplitude: _F32, sums: _F32) -> None:
    """Mean and covariance of the sum of all components, into `sums` (5, frequencies).

    `cosine` and `sine` are those of the mean phases, `spread` is ``exp(-g^2 / 2)``, `amplitude` is b.  The rows of
    `sums` are the real and the imaginary part of the mean, half the trace of the covariance, half the difference of
    the variances of imaginary and real part, and minus their covariance.
    """
    tiers.loops("amp").interference(cosine, sine, spread, amplitude, sums)


def moments(
    cosine: _F32,
    sine: _F32,
    spread: _F32,
    amplitude: _F32,
    sums: _F32,
    sketch: _F32,
    nugget: _F32,
    widths: _F32,
    reach: float,
    grid: _F32,
    shift: _F32,
    left: _F32,
) -> None:
    """Posterior mean and variance of every phase, in units of its standard deviation beforehand.

    The other components are taken as one normal variable (of `sums`, less the own part, and of variance `nugget`
    more), so the logarithm of the density is a trigonometric polynomial of degree 2 less half a square; it is summed
    over the equidistant points of `grid`, symmetric about 0, and again around its peak where that is narrow.

    `cosine`, `sine`, `spread`, `amplitude`, `sums`: as for :func:`interference`. `sketch`: real and imaginary parts,
    (2, frequencies). `nugget`: variance of the noise of either part, (frequencies,). `widths`: standard deviations g of
    the phases, (components, frequencies). `reach`: widths beyond this are phases of which nothing can be learned: they
    keep mean and variance. `grid`: points in units of the standard deviation, (points,). `shift`, `left`: results,
    (components, frequencies): mean less the mean beforehand, and variance.
    """
    loops: Any = tiers.loops("amp")
    logs = np.empty(len(grid), np.float32)
    loops.moments(
        cosine, sine, spread, amplitude, sums, sketch, nugget, widths, np.float32(reach), grid, logs, shift, left
    )
