"""One contract for everything that rows can come from: a stream of batches with an optional length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Batch(NamedTuple):
    """Some rows, float32 or float64, with their weights if there are any."""

    rows: npt.NDArray[np.floating]
    weights: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Source:
    """Rows as a stream.

    Attributes
    ----------
    batches : callable
        Given a number of rows, an iterator over batches of about that size.
    length : int or None
        Number of rows, where it is known beforehand.
    in_memory : bool
        Batches are views of memory that stays valid: they need neither copying nor read-ahead.
    release : callable
        Called now and then during the pass to give memory back to the system (memory-mapped files).
    """

    batches: Callable[[int], Iterator[Batch]]
    length: int | None = None
    in_memory: bool = False
    release: Callable[[], None] | None = None


Opener = Callable[[Any, Any], "Source | None"]
_OPENERS: list[Opener] = []


def register(opener: Opener) -> Opener:
    """Add a kind of source: a function of (data, sample_weight) that returns None if it is not its kind."""
    _OPENERS.append(opener)
    return opener


def open_source(data: Any, sample_weight: Any = None) -> Source:
    """The stream behind `data`: the first registered kind that knows it."""
    for opener in _OPENERS:
        source = opener(data, sample_weight)
        if source is not None:
            return source
    raise TypeError(
        f"can't read rows from {type(data).__name__}: give a 2-D array, a memory map, or an iterable of 2-D batches"
    )


def as_rows(values: Any, what: str = "data") -> npt.NDArray[np.floating]:
    """A 2-D array of float32 or float64, without copying those that already are."""
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != 2:
        hint = "; for a single column use data.reshape(-1, 1)" if array.ndim == 1 else ""
        raise ValueError(f"{what} must have two dimensions (rows, columns), got shape {array.shape}{hint}")
    return as_real(array, what)


def as_real(array: npt.NDArray[Any], what: str = "data") -> npt.NDArray[np.floating]:
    """The same array as float32 or float64 in native byte order."""
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64 if array.dtype.itemsize != 4 or array.dtype.kind != "f" else np.float32)
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{what} has values that are not numbers: {error}") from None
    raise ValueError(f"{what} must be real numbers, got dtype {array.dtype}")


def as_weights(values: Any, rows: int, what: str = "sample_weight") -> npt.NDArray[np.float64] | None:
    """Weights as float64, one per row."""
    if values is None:
        return None
    weights = np.asarray(values, np.float64)
    if weights.ndim == 0:
        return np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ValueError(f"{what} must have one number per row, got shape {weights.shape} for {rows} rows")
    return weights
