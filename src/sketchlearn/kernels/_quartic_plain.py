"""Second tier of the quartic pass: projections by plain loops, the rest in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray
from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._quadratic_plain import pack as pack
from sketchlearn.kernels._quadratic_plain import project as project

LANES, TILE_ROWS = 1, 1
_Array = AnyArray


def add_powers(rows: _Array, n: int, panels: _Array, scales: _Array, sums: _Array, *, project: Any = project) -> None:
    """Add the second, third and fourth powers of the projections of the first n staged rows to int64 ``sums``."""
    for _, units in _units(rows, n, panels, scales, project):
        sums += units.sum(0).reshape(-1)


def add_weighted_powers(
    rows: _Array, n: int, weights: _Array, panels: _Array, scales: _Array, sums: _Array, one: _Array, *,
    project: Any = project,
) -> None:  # fmt: skip
    """Add rounded powers times the weights of the rows; ``one`` is scratch that only the first tier needs."""
    for at, units in _units(rows, n, panels, scales, project):
        sums += np.tensordot(weights[at], units, 1).reshape(-1)


def _units(rows: _Array, n: int, panels: _Array, scales: _Array, project: Any) -> Iterator[tuple[slice, _Array]]:
    """Integers of some rows, (rows, directions, 3)."""
    three = np.float32(3.0)
    for i in range(0, n, 64):
        at = slice(i, min(n, i + 64))
        t = np.empty((at.stop - i, panels.shape[1]), np.float32)
        project(rows[at], panels, t)
        s = np.clip(t * scales, np.float32(-1.0), np.float32(1.0))
        square = s * s
        powers = np.stack([square, square * s, square * square], axis=2)
        yield at, (((powers + three).astype(np.float64) - 3.0) * 2.0**K.GRID_BITS).astype(np.int64)
