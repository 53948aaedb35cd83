"""The loop of the nearest centre in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]


def nearest(
    x: _Array, inverse: _Array, centers: _Array, labels: _Array, tile: _Array, best: _Array, distances: _Array
) -> None:
    """See ``sketchlearn.kernels._nearest_compiled.nearest``."""
    width = len(best)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, x.shape[1], width):
            some = x[:, start : start + width] * inverse[:, None]
            t = some.shape[1]
            best[:t], labels[start : start + t] = np.inf, -1
            for c, center in enumerate(centers):
                distances[:t] = ((some - center[:, None]) ** 2).sum(0)
                closer = distances[:t] < best[:t]
                labels[start : start + t][closer] = c
                best[:t][closer] = distances[:t][closer]
