"""Reference of the quartic pass."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reference.quadratic import project
from sketchlearn.kernels import _quartic_plain as plain
from sketchlearn.kernels._quadratic_plain import pack as pack

LANES, TILE_ROWS = 1, 1
_Array = npt.NDArray[Any]

add_powers = partial(plain.add_powers, project=project)
add_weighted_powers = partial(plain.add_weighted_powers, project=project)


def whiten(rows: _Array, at: int, end: int, center: _Array, matrix: _Array, out: _Array) -> None:
    """Rows about the centre times the rows of a matrix, in the order of the columns, into ``out``."""
    with np.errstate(all="ignore"):
        out[: end - at] = 0.0
        for k in range(rows.shape[1]):
            out[: end - at] += (rows[at:end, k].astype(np.float64) - center[k])[:, None] * matrix[:, k]
