"""What estimators are fitted to: rows in memory or any source, with weights, names and a pilot sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from sketchlearn.arrays import AnyArray, Array, Ints
from sketchlearn.exceptions import InputError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.accumulator import invalid
from sketchlearn.sketches.value import WEIGHT_BITS
from sketchlearn.sources import Source
from sketchlearn.sources.pilot import PILOT_ROWS, Pilot, choose, is_source

__all__ = [
    "PILOT_ROWS",
    "Pilot",
    "Rows",
    "as_random_state",
    "checked",
    "checked_weights",
    "is_source",
    "on_grid",
    "refuse_gaps",
    "weight_scale",
]


def checked(estimator: Any, X: Any, *given: Any, **options: Any) -> Any:
    """Rows as scikit-learn checks them; an error about text names the column, and the remedy."""
    try:
        return validate_data(estimator, X, *given, **options)
    except ValueError:
        for name in getattr(X, "columns", ()):
            try:
                np.asarray(X[name], np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    f"column {name!r} holds text, not numbers: leave it out, or make numbers of categories, with a map "
                    "from sl.design(X, encoder=sl.Encoder.fit(X)) as features="
                ) from None
        raise


def refuse_gaps(rows: AnyArray, names: tuple[str, ...] | None) -> None:
    """Refuse new rows that miss a value, for which a model has no answer."""
    valid = np.isfinite(rows).all(axis=1)
    if not valid.all():
        number = int(np.argmin(valid))
        where = None if names is None else lambda k, _: f"column {names[k]!r}"
        wrong = invalid(rows[number], number, where)
        raise InputError(
            f"row {number} (counting from 0) {wrong.text}; leave such rows out. 'sketchlearn predict' keeps them in "
            "their place, without an answer"
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows.

    `data`: what the engine reads. `weights`: weights of an array's rows, on the grid of sketches, (n,). `scale`: power
    of two that the weights were multiplied by. `names`: names of the columns, if they have any. `sample`: some rows of
    a source. `groups`: numbers of the groups that an array's rows are in, (n,), and their labels.
    """

    data: Any
    weights: Array | None = None
    scale: float = 1.0
    names: tuple[str, ...] | None = None
    sample: Pilot | None = None
    groups: tuple[Ints, tuple[Any, ...]] | None = None

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
            return int(self.sample.rows.shape[1])
        assert features is not None
        return features.inputs

    def pilot(self, seed: int, missing: str | None = None) -> Pilot:
        """The rows that a map is designed from, chosen as for every design."""
        if self.sample is not None:
            return self.sample
        if self.weights is None and len(self.data) <= PILOT_ROWS and np.isfinite(self.data).all():
            return Pilot(self.data)
        return choose(self.data, self.weights, seed, missing)


def as_random_state(random_state: Any) -> np.random.RandomState:
    """What scikit-learn understands, and generators, which draw a seed."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31 - 1))
    found = check_random_state(random_state)
    assert isinstance(found, np.random.RandomState)
    return found


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
