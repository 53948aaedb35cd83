"""Kernel scales by the rules of the literature, for researchers; the default design needs none of them.

Each rule takes pilot rows and k and returns a scale sigma (``E|w|^2 = d / sigma^2``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features import portable
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import AdaptedLaw


def expected_separation(k: int, d: int) -> float:
    """Expected smallest distance of k standard normal points in d dimensions (Chatalic 2020, eq. 4.14)."""
    log = (1 + 1 / d) * math.log(2) + math.lgamma(1 + d / 2) / d + math.lgamma(1 + 1 / d) - 2 / d * math.log(k)
    return math.exp(log)


def spread_of(sample: Array) -> float:
    """Root mean square of the columns' standard deviations."""
    return float(np.sqrt(sample.var(axis=0).mean()))


def separation(sample: Array, k: int, seed: int = 0) -> float:
    """Smallest distance between the centres of k-means on the pilot: the best single rule of Chatalic (2020, §4.2)."""
    if k < 2:
        return math.sqrt(sample.shape[1]) * spread_of(sample)
    from scipy.spatial.distance import pdist
    from sklearn.cluster import KMeans

    centers = KMeans(k, n_init=3, random_state=seed % 2**32).fit(sample).cluster_centers_
    return float(pdist(centers).min())


def mean_separation(sample: Array, k: int, seed: int = 0) -> float:
    """Expected separation of k normal centres with the pilot's spread (Chatalic 2020, eq. 4.14)."""
    return expected_separation(max(k, 2), sample.shape[1]) * spread_of(sample)


def dimension(sample: Array, k: int, seed: int = 0) -> float:
    """sigma^2 = d times the variance per column (Chatalic 2020, §4.2): right scaling for d >= 10 only."""
    return math.sqrt(sample.shape[1]) * spread_of(sample)


def theory(sample: Array, k: int, seed: int = 0) -> float:
    """sigma^2 = separation^2 / (16 log(e k)), the scale of the guarantees as Chatalic (2020) quotes it.

    Gribonval et al. (2021, Table 1) ask for a quarter of that, separation^2 / (64 log(e k)).  Practice asks for
    neither.
    """
    return separation(sample, k, seed) / (4.0 * math.sqrt(math.log(math.e * k)))


def keriven(sample: Array, k: int, seed: int = 0) -> float:
    """Within-cluster scale by regression on the largest entry per block of radii (Keriven et al. 2017, EstimMeanSigma).

    The result is that of the adapted-radius law *not* normalised as here: frequencies R/sigma; it is
    converted to the library's convention.
    """
    rows = sample[:5000]
    d, m, blocks = rows.shape[1], 500, 30
    law = AdaptedLaw()
    sigma = 1.0
    directions = FourierFeatures.draw(dim=d, size=m, scale=1.0, seed=seed)
    unit = directions.frequencies / directions.norms[:, None]
    for _ in range(3):
        radius = np.sort(law.quantile(portable.Bits(seed, 17).uniforms(m), d)) / sigma
        z = np.abs(np.exp(1j * (rows @ (unit * radius[:, None]).T)).mean(0))
        peaks, at = [], []
        for block in np.array_split(np.arange(m), blocks):
            best = block[np.argmax(z[block])]
            peaks.append(z[best])
            at.append(radius[best])
        sigma = _fit_decay(np.array(at), np.array(peaks), sigma)
    return sigma * math.sqrt(d / law.second_moment(d))


def _fit_decay(radius: Array, height: Array, start: float) -> float:
    """Least-squares sigma in height = exp(-radius^2 sigma^2 / 2)."""
    candidates = start * np.geomspace(1e-3, 1e3, 601)
    misfit = ((np.exp(-0.5 * np.outer(candidates, radius) ** 2) - height) ** 2).sum(1)
    return float(candidates[np.argmin(misfit)])


RULES: dict[str, Callable[[Array, int, int], float]] = {
    "separation": separation,
    "mean-separation": mean_separation,
    "dimension": dimension,
    "theory": theory,
    "keriven": keriven,
}
