"""The rows a feature map is designed from, and the weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

PILOT_ROWS = 2000
_MOST_ROWS = 20_000


def checked_weights(sample_weight: Any, rows: int) -> Array | None:
    """Weights as an array, or None; ValueError if they can't be weights."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({rows},)")
    if not np.isfinite(weights).all() or (weights < 0).any():
        i = int(np.argmax(~(np.isfinite(weights) & (weights >= 0))))
        raise ValueError(f"sample_weight must be finite and non-negative, entry {i} is {weights[i]}")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row")
    return weights


def pilot(
    X: npt.NDArray[Any], weights: Array | None, random: np.random.RandomState
) -> tuple[npt.NDArray[Any], Array | None]:
    """At most a few thousand rows and their weights: a function of the weighted empirical measure only.

    All rows if there are few; otherwise a draw with probabilities proportional to the weights, so that a
    row of weight 2 counts like two rows.
    """
    total = float(len(X)) if weights is None else float(weights.sum())
    if total <= PILOT_ROWS and len(X) <= _MOST_ROWS:
        return X, weights
    p = None if weights is None else weights / weights.sum()
    return X[random.choice(len(X), PILOT_ROWS, p=p)], None


def enough_frequencies(wanted: int, total: float) -> int:
    """A sketch need not be much larger than the data: a few frequencies per row, if there are few rows."""
    return min(wanted, max(200, 4 * int(np.ceil(total))))
