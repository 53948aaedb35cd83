"""A number for each row that follows from its content alone; NumPy version."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels._constants import MIX

_I64: TypeAlias = npt.NDArray[np.int64]


def pick(X: npt.NDArray[np.floating], seed: int, groups: int, out: npt.NDArray[np.int64]) -> None:
    """See ``sketchlearn.kernels._hash_compiled.pick``."""
    one, two, three = (np.uint64(c) for c in MIX)
    chains = [np.full(len(X), np.uint64(seed) + np.uint64(k), np.uint64) for k in range(4)]
    with np.errstate(over="ignore"):
        for k in range(X.shape[1]):
            h = (chains[k % 4] ^ (X[:, k].astype(np.float64) + 0.0).view(np.uint64)) * one
            chains[k % 4] = h ^ (h >> np.uint64(32))
        h = chains[0]
        for chain in chains[1:]:
            h = (h ^ chain) * two
            h = h ^ (h >> np.uint64(29))
        h = h * three
        h = h ^ (h >> np.uint64(32))
    out[:] = ((h >> np.uint64(32)) * np.uint64(groups)) >> np.uint64(32)


def gather(X: npt.NDArray[Any], weights: _I64, group: _I64, ends: _I64, rows: npt.NDArray[Any], kept: _I64) -> None:
    """See ``sketchlearn.kernels._hash_compiled.gather``."""
    order = np.argsort(group, kind="stable")
    np.take(X, order, axis=0, out=rows)
    if len(weights):
        np.take(weights, order, out=kept)
    ends[:] = np.cumsum(np.bincount(group, minlength=len(ends)))
