"""What a release added to the averages of a sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sketchlearn.arrays import Array

if TYPE_CHECKING:
    from sketchlearn.sketches.value import Sketch


def released_variances(sketch: Sketch) -> Array:
    """Variance of each entry of the mean that a release added."""
    if sketch.privacy is None:
        return np.zeros(sketch.features.size)
    noise = np.asarray(sketch.privacy.variances_of_sums())
    noise = noise if noise.ndim == 0 else noise.reshape(sketch.sums.shape)
    unit = 4.0**sketch.weight_bits  # of the record: the grid of whole weights
    return sketch.features.release_variances(
        sketch.sums, float(sketch.weight), unit * noise, unit * sketch.privacy.weight_variance
    )


def noise_to_signal(sketch: Sketch) -> float:
    """Energy of the noise that a release added, over the energy of the averages without it; 0 of exact sums.

    Infinite where no average stands above the noise.  k-means in k clusters and d columns tolerates about
    ``0.004 m / (k d)`` of m features (:func:`sketchlearn.privacy.private_size`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0)
    >>> n = np.random.default_rng().integers(10_000, 1_000_000)
    >>> s = sl.sketch(np.zeros((n, 1)), phi)
    >>> s.nsr, bool(0 < sl.privatize(s, 1.0, public_map=True).nsr < 0.01)
    (0.0, True)
    """
    if sketch.privacy is None or not sketch.weight:
        return 0.0
    noise = float(released_variances(sketch).sum())
    signal = float((np.abs(sketch.mean) ** 2).sum()) - noise
    return noise / signal if signal > 0.0 else float("inf")
