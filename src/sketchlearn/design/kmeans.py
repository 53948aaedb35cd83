"""Feature maps for k-means: multi-scale frequencies in the metric that k-means is asked in."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import MultiscaleLaw

_LOW, _HIGH, _DECAY = 0.7, 64.0, 2.0


def expected_separation(k: int, d: int) -> float:
    """Expected smallest distance of k standard normal points in d dimensions (Chatalic 2020, eq. 4.14)."""
    log = (1 + 1 / d) * math.log(2) + math.lgamma(1 + d / 2) / d + math.lgamma(1 + 1 / d) - 2 / d * math.log(k)
    return math.exp(log)


def resolution_radius(k: int, d: int) -> float:
    """Frequency radius (in units of 1/std) that resolves k random clusters in d dimensions."""
    return max(2.0, 2.0 * math.sqrt(d) / expected_separation(max(k, 2), d))


def multiscale_map(
    *, center: npt.ArrayLike, spread: float, k: int, size: int, seed: int, slack: float = 1.0
) -> FourierFeatures:
    """Map for data of standard deviation `spread` (or up to `slack` times less) around `center`."""
    center = np.asarray(center, np.float64)
    d = len(center)
    knee = min(resolution_radius(k, d), _HIGH / 2) * slack
    law = MultiscaleLaw(low=_LOW, knee=knee, high=_HIGH * slack, decay=_DECAY)
    scale = spread * math.sqrt(d / law.second_moment(d))
    return FourierFeatures.draw(dim=d, size=size, scale=scale, radial=law, seed=seed, center=center)
