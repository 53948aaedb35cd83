"""The pilot: which rows a feature map is designed from, decided here for every entry point.

At most :data:`PILOT_ROWS` rows (:data:`GAP_ROWS` where gaps are filled as the pilot says), by priority sampling
(Duffield, Lund & Thorup 2007): row i of weight w gets the key ``u / w`` with u uniform, the rows with the smallest
keys are kept, and each stands for the weight ``max(w, 1 / t)`` with t the smallest key that was not kept.  Rows of
equal weight are then a uniform sample without weights.  Keys depend on the seed and on the place of a row alone, so
the same rows in the same order give the same pilot, whatever they are stored in, as long as all of them are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import FARTHEST, AnyArray, Array, Flags

PILOT_ROWS = 2000
"""Rows that a feature map is designed from: they give the spread of the data to about two percent, and some tens of
rows for each of up to a hundred components; a design from more is not better, only slower."""

GAP_ROWS = 20_000
"""Rows that a map with ``missing="em"`` is designed from: they say how near its models come to those of an EM on all
rows.  Coefficients from 200 000 normal rows of ten columns with gaps at random are off EM's by 0.20 % with a pilot of
2000 rows and by 0.08 % with this one, with gaps given a column by 1.0 and 0.4 % (``benchmarks/missing.py pilot``).  The
design for thirty columns takes about two seconds."""

LOOKED_AT = 2**20
"""Rows that are looked at to choose the pilot, at most."""

_BLOCK = 65_536  # rows at a time
_STREAM = 0x70696C6F  # data is often made with default_rng(0): keys come from another stream

# read on demand, though they can be made arrays
_LAZY = frozenset(["h5py", "zarr", "pyarrow", "duckdb"])


class Pilot(NamedTuple):
    """Some rows, and what each stands for.

    `rows`: in the order of the data, (n, d). `weights`: their weights, if they differ, (n,). `box`: smallest and
    largest values of all rows that were looked at, (d,); None for those of the pilot itself.
    """

    rows: AnyArray
    weights: Array | None = None
    box: tuple[Array, Array] | None = None


class NoValidRowsError(ValueError):
    """There is nothing to take a sample from.

    `columns`: those that hold no valid value at all.
    """

    def __init__(self, columns: list[int] | None = None, names: Sequence[str] | None = None) -> None:
        self.columns = columns or []
        told = [repr(names[k]) if names else str(k) for k in self.columns[:5]] + ["..."] * (len(self.columns) > 5)
        why = f"column {', '.join(told)} holds no value: leave it out"
        if not told:
            why = "it is empty, a condition leaves none, or each holds NaN, infinity or a null"
        super().__init__(f"there are no valid rows in the data: {why}")


class Reservoir:
    """A pilot in the making: blocks of rows are added in order, and `count` rows at most are kept.

    Rows that hold NaN, infinity or values beyond 1e30, and rows of weight zero, are left out; with `missing`, NaN is an
    entry that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.sources.pilot import Reservoir
    >>> reservoir = Reservoir(3, seed=0)
    >>> reservoir.add(np.arange(10.0)[:, None])
    >>> reservoir.pilot().rows.shape
    (3, 1)
    """

    def __init__(self, count: int, seed: int, missing: bool = False) -> None:
        self._count, self._missing = count, missing
        self._random = np.random.default_rng([seed, _STREAM])
        self._rows: AnyArray | None = None
        self._weights: Array = np.empty(0)
        self._keys: Array = np.empty(0)
        self._box: tuple[Array, Array] | None = None
        self._alive: Flags | None = None  # columns with a valid value so far

    def add(self, rows: AnyArray, weights: npt.ArrayLike | None = None) -> None:
        """Look at the next rows."""
        own = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
        keys = self._random.random(len(rows))
        valid = (np.abs(rows) <= FARTHEST) | (np.isnan(rows) & self._missing)
        good = valid.all(axis=1) & (own > 0)
        if not len(self._keys) and not good.any():
            some = np.asarray(valid.any(axis=0))
            self._alive = some if self._alive is None else self._alive | some
        keys, own = keys[good] / own[good], own[good]
        if len(own):
            self._look(rows if good.all() else rows[good])
        if len(self._keys) > self._count:  # copy only the rows that can be kept
            near = keys < self._keys.max()
            keys, own = keys[near], own[near]
            good[good] = near
        block = rows[good]
        self._rows = np.array(block) if self._rows is None else np.concatenate([self._rows, block])
        self._keys, self._weights = np.concatenate([self._keys, keys]), np.concatenate([self._weights, own])
        most = self._count + 1  # one more than is kept: its key says what the others stand for
        if len(self._keys) > most:
            kept = np.sort(np.argpartition(self._keys, most - 1)[:most])
            self._rows, self._keys, self._weights = self._rows[kept], self._keys[kept], self._weights[kept]

    def _look(self, rows: AnyArray) -> None:
        lower, upper = (f.reduce(rows, axis=0).astype(np.float64) for f in (np.fmin, np.fmax))
        if self._box is not None:
            lower, upper = np.fmin(lower, self._box[0]), np.fmax(upper, self._box[1])
        self._box = lower, upper

    def pilot(self) -> Pilot:
        """The rows that were kept; ValueError if there are none."""
        if self._rows is None or not len(self._rows):
            raise NoValidRowsError(None if self._alive is None else np.flatnonzero(~self._alive).tolist())
        rows, weights = self._rows, self._weights
        if len(rows) > self._count:
            last = int(np.argmax(self._keys))
            weights = np.delete(np.maximum(weights, 1.0 / self._keys[last]), last)
            rows = np.delete(rows, last, axis=0)
        return Pilot(rows, None if (weights == weights[0]).all() else weights, self._box)


def pilot_rows(missing: str | None) -> int:
    """How many rows a map is designed from, at most.

    Examples
    --------
    >>> from sketchlearn.sources.pilot import pilot_rows
    >>> pilot_rows(None), pilot_rows("em")
    (2000, 20000)
    """
    return GAP_ROWS if missing == "em" else PILOT_ROWS


def choose(rows: AnyArray, weights: npt.ArrayLike | None = None, seed: int = 0, missing: str | None = None) -> Pilot:
    """The pilot of rows in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.sources.pilot import choose
    >>> choose(np.arange(5000.0)[:, None]).rows.shape
    (2000, 1)
    """
    reservoir, step = Reservoir(pilot_rows(missing), seed, missing is not None), stride(len(rows))
    own = None if weights is None else np.asarray(weights, np.float64)[::step]
    looked = rows[::step]
    for start in range(0, len(looked), _BLOCK):
        at = slice(start, start + _BLOCK)
        reservoir.add(looked[at], None if own is None else own[at])
    return reservoir.pilot()


def stride(length: int) -> int:
    """Step between the rows in memory that are looked at: they are spread evenly, because sorted data is common."""
    return max(1, length // LOOKED_AT)


def is_source(data: Any) -> bool:
    """Whether rows are read on demand (paths, streams, databases, memory maps), or in memory (arrays, frames)."""
    from sketchlearn.sources.base import Source

    if isinstance(data, str | bytes | os.PathLike | Source | np.memmap):
        return True
    if type(data).__module__.partition(".")[0] in _LAZY:
        return True
    if isinstance(data, list | tuple):
        return len(data) > 0 and getattr(data[0], "ndim", 0) == 2  # a list of batches
    held = data is None or np.isscalar(data)
    return not held and not any(hasattr(data, name) for name in ("__array__", "tocsr", "shape"))
