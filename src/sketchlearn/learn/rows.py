"""What estimators are fitted to: rows in memory or any source, with weights, names and a pilot sample."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.value import WEIGHT_BITS
from sketchlearn.sources import Source

Array = npt.NDArray[np.float64]

PILOT_ROWS = 2000
"""Rows that a feature map is designed from: they give the spread of the data to about two percent, and some tens of
rows for each of up to a hundred components; a design from more is not better, only slower."""

# read on demand, though they can be made arrays
_LAZY = frozenset(["h5py", "zarr", "pyarrow", "duckdb"])


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows.

    Attributes
    ----------
    data : array or Source
        What the engine reads.
    weights : ndarray (n,) or None
        Weights of an array's rows, on the grid of sketches.
    scale : float
        Power of two that the weights were multiplied by.
    names : tuple of str or None
        Names of the columns, if they have any.
    sample : ndarray or None
        Some rows of a source.
    """

    data: Any
    weights: Array | None = None
    scale: float = 1.0
    names: tuple[str, ...] | None = None
    sample: npt.NDArray[Any] | None = None

    @property
    def count(self) -> int | None:
        """Rows of positive weight, where they are known before the pass."""
        if isinstance(self.data, Source):
            return self.data.length
        return len(self.data) if self.weights is None else int(np.count_nonzero(self.weights))

    @property
    def total(self) -> float | None:
        """Rows that the weights stand for: whole weights are repetition, others are not."""
        if self.weights is None or not is_whole(self.weights):
            return self.count
        return float(self.weights.sum())

    def width(self, features: FeatureMap | None) -> int:
        """Number of columns: of the sample, or those that the map is for."""
        if self.sample is not None:
            return int(self.sample.shape[1])
        assert features is not None
        return features.inputs

    def pilot(self, random: np.random.RandomState) -> tuple[npt.NDArray[Any], Array | None]:
        """At most :data:`PILOT_ROWS` rows and their weights.

        Of an array all rows if there are few, and otherwise a draw with probabilities proportional to the weights:
        a function of the weighted empirical measure only, so that a row of weight 2 counts like two rows.  Sources
        that can be read twice were looked at in many places, streams in their first rows.
        """
        if self.sample is not None:
            return self.sample, None
        rows, weights = self.data, self.weights
        good = np.isfinite(rows).all(1)
        if not good.all():  # they are left out of the sketch too
            rows, weights = rows[good], None if weights is None else weights[good]
            if not len(rows):
                raise ValueError("there are no valid rows in the data: nothing to take a sample from")
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        if len(rows) <= PILOT_ROWS:
            return rows, weights
        if weights is None:
            return rows[np.sort(sample_without_replacement(len(rows), PILOT_ROWS, random_state=random))], None
        return rows[np.sort(random.choice(len(rows), PILOT_ROWS, p=weights / weights.sum()))], None


def as_random_state(random_state: Any) -> np.random.RandomState:
    """What scikit-learn understands, and generators, which draw a seed."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31 - 1))
    found = check_random_state(random_state)
    assert isinstance(found, np.random.RandomState)
    return found


def is_source(X: Any) -> bool:
    """Whether rows are read on demand (paths, streams, databases, memory maps), or in memory (arrays, frames)."""
    if isinstance(X, str | bytes | os.PathLike | Source | np.memmap):
        return True
    if type(X).__module__.partition(".")[0] in _LAZY:
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and getattr(X[0], "ndim", 0) == 2  # a list of batches
    in_memory = X is None or np.isscalar(X) or hasattr(X, "__array__") or hasattr(X, "tocsr") or hasattr(X, "shape")
    return not in_memory


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
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from")
    return weights


def weight_scale(weights: Array) -> float:
    """A power of two that lifts weights to the grid of sketches (multiples of 2**-16); 1 if they need none.

    Only ratios of weights matter to what is learned.
    """
    smallest, largest = float(weights[weights > 0].min()), float(weights.max())
    if smallest >= 2.0**-8 or is_whole(weights):
        return 1.0
    shift = min(np.ceil(-8 - np.log2(smallest)), np.floor(20 - np.log2(largest)))
    return float(2.0 ** max(shift, 0.0))


def on_grid(weights: Array, scale: float) -> Array:
    """Weights times a scale; those below the grid, beside heavy ones, count as its smallest step."""
    scaled = weights * scale
    return np.where((scaled > 0) & (scaled < 2.0**-WEIGHT_BITS), 2.0**-WEIGHT_BITS, scaled)


def is_whole(weights: Array) -> bool:
    """Whether all weights are whole numbers."""
    return bool(np.array_equal(np.rint(weights), weights))
