"""Loops of Lloyd's iterations in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

TILE = 256
_Array = npt.NDArray[Any]


def assign(x: _Array, weights: _Array, centers: _Array, labels: _Array, distances: _Array, scratch: _Array) -> float:
    """See the compiled one."""
    for i in range(0, x.shape[1], 4096):
        part = x[:, i : i + 4096]
        d2 = (centers * centers).sum(1)[:, None] - 2.0 * (centers @ part)
        labels[i : i + 4096] = d2.argmin(0)
        distances[i : i + 4096] = np.maximum(d2.min(0) + (part * part).sum(0), 0.0)
    return float(weights @ distances)


def total(x: _Array, weights: _Array, labels: _Array, mass: _Array, sums: _Array) -> None:
    """See the compiled one."""
    mass += np.bincount(labels, weights, len(mass))
    for i in range(len(x)):
        sums[i] += np.bincount(labels, weights * x[i], len(mass))


def approach(x: _Array, weights: _Array, pick: int, nearest: _Array, trial: _Array) -> float:
    """See the compiled one."""
    np.minimum(((x - x[:, pick, None]) ** 2).sum(0), nearest, out=trial)
    return float(weights @ trial)
