"""Noise of a sketch, in one place: what sampling rows leaves, what was added to it, and floors made of both.

The features of one row have modulus 1, so their average over n rows has variance ``(1 - |z|^2) / n``: the sampling
part.  Whatever :attr:`sketchlearn.Sketch.variances` says beyond that was added, by a release or by coarser features,
independently at each frequency.  A model explains some of the sampling part: within a component that was fitted, only
``1 - exp(-q)(1 + q + h)`` of the variance is left (q = w'Sw; see :func:`left_by_component`).  It explains nothing of
what was added but for the degrees of freedom that it uses up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.features.characteristic import CharacteristicMap
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]

LEAST_VARIANCE = 0.05
"""Frequencies with |z| near 1 are not weighted more than this variance of a row allows."""
_LEAST_FREEDOM = 0.1
_TINY = 1e-14  # a floor is never zero


def sampling_variance(z: npt.NDArray[Any]) -> Array:
    """Variance of ``exp(i w·x)`` over rows with these averages, (m,)."""
    return np.maximum(1.0 - np.abs(z) ** 2, 0.0)


def added_variance(sketch: Sketch) -> Array:
    """Variance of each average beyond that of sampling rows with ideal features, (m,)."""
    if isinstance(sketch.features, CharacteristicMap):
        ideal = sampling_variance(sketch.mean)
    else:
        ideal = sketch.features.feature_variances(sketch.sums, float(sketch.weight))
    return np.maximum(sketch.variances - ideal / sketch.effective_count, 0.0)
