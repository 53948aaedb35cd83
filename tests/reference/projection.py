"""Projections of rows on signs, NumPy alone, the same bits: products with signs are exact, so only order counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]


def project(rows: _Array, center: _Array, spread: _Array, signs: _Array, out: _Array) -> None:
    """Add standardised rows times ``signs`` (columns, projections) to ``out``."""
    with np.errstate(all="ignore"):
        for k in range(rows.shape[1]):
            out += ((rows[:, k].astype(np.float64) - center[k]) / spread[k])[:, None] * signs[k]
