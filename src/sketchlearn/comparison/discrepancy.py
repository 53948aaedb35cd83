"""The distance of two laws under the kernel of a map, estimated from two sketches, with an error bar.

With d the difference of the averages (m cosines and m sines) and C its covariance, ``|d|**2 - tr C`` is an unbiased
estimate of the squared distance times m, of variance ``4 d' C d + 2 tr C**2`` where d is normal.  The first term is
estimated by ``4 (d' C d - tr C**2)``, or 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.comparison.two_sample import (
    CHOSEN,
    beyond_sampling,
    check_comparable,
    fewer_rows,
    sampling_noise,
    squared_distance,
    with_groups,
)
from sketchlearn.sketches.value import Sketch


@dataclass(frozen=True)
class Discrepancy:
    """The maximum mean discrepancy (MMD) of two distributions, estimated from two sketches.

    Attributes
    ----------
    squared : float
        Unbiased estimate of the squared MMD; it can be negative.
    error : float
        Its standard error, from sampling noise and noise added by a private release.
    counts : tuple
        Rows behind the two sketches.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=1, size=200, scale=1.0, radial="gaussian")
    >>> a, b = (sl.sketch(rng.normal(size=(3000, 1)) + shift, phi) for shift in (0.0, 0.5))
    >>> found = sl.mmd(a, b)
    >>> low, high = found.interval(0.95)
    >>> 0 < low < found.distance < high, found.counts
    (True, (3000, 3000))
    """

    squared: float
    error: float
    counts: tuple[int | float, int | float]

    @property
    def distance(self) -> float:
        """The MMD; 0 where noise explains all of the difference."""
        return float(np.sqrt(max(self.squared, 0.0)))

    def interval(self, coverage: float = 0.9) -> tuple[float, float]:
        """An interval that covers the MMD with this probability."""
        from scipy.special import ndtri

        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage}")
        half = float(ndtri(0.5 + coverage / 2)) * self.error
        low, high = (float(np.sqrt(max(self.squared + side * half, 0.0))) for side in (-1.0, 1.0))
        return low, high

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"Discrepancy({self.distance:.4g}, 90 % from {low:.4g} to {high:.4g})"


def mmd(a: Sketch, b: Sketch) -> Discrepancy:
    """Maximum mean discrepancy of two distributions under the kernel of the map, with its standard error.

    Parameters
    ----------
    a, b : Sketch
        Sketches of independent rows (no row in both), with the same Fourier feature map. At most the first 1000
        frequencies are used.

    Returns
    -------
    Discrepancy

    See Also
    --------
    sketchlearn.compare : a p-value of no difference.
    sketchlearn.distances : the distances of many sketches.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=300, scale=1.0, radial="laplace")
    >>> X, Y = rng.normal(size=(5000, 2)), rng.normal(size=(5000, 2)) + [0.5, 0]
    >>> found = sl.mmd(sl.sketch(X, phi), sl.sketch(Y, phi))
    >>> few = phi.kernel(X[:500]).mean() + phi.kernel(Y[:500]).mean() - 2 * phi.kernel(X[:500], Y[:500]).mean()
    >>> bool(abs(found.squared - few) < 0.02), found.error < 0.005
    (True, True)
    """
    check_comparable(a, b)
    total, added = np.zeros(()), (beyond_sampling(a) + beyond_sampling(b))[CHOSEN]
    for s in (a, b):
        noise = sampling_noise(s)
        total, added = total + noise.covariance / s.effective_count, added - noise.quantised / s.effective_count
    m = len(total) // 2
    factor = 1.0 / a.effective_count + 1.0 / b.effective_count
    if added.any():
        total, _ = with_groups(total, fewer_rows([a, b]) / factor, a.features, added)
    difference = np.where(fewer_rows([a, b]) > 0, a.mean[CHOSEN] - b.mean[CHOSEN], 0.0)
    d = np.concatenate([difference.real, difference.imag])
    own = float(np.sum(total * total))
    variance = 4.0 * max(float(d @ total @ d) - own, 0.0) + 2.0 * own
    squared = (squared_distance(a, b) - float(np.trace(total))) / m
    return Discrepancy(squared, float(np.sqrt(variance)) / m, (a.count, b.count))
