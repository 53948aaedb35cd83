"""Arrays, memory maps and iterables of batches."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sketchlearn.sources.base import Batch, Source, as_real, as_rows, as_weights, register


@register
def open_array(data: Any, sample_weight: Any) -> Source | None:
    """A 2-D array, a memory map, or a list of rows."""
    if not (isinstance(data, np.ndarray) or _is_list_of_rows(data) or _is_array_like(data)):
        return None
    array = data if isinstance(data, np.ndarray) else np.asarray(data)
    if array.ndim != 2:
        as_rows(array)  # raises with the right words
    if array.dtype.kind not in "fiubO":
        as_real(array)
    rows = len(array)
    weights = as_weights(sample_weight, rows)

    def batches(size: int) -> Iterator[Batch]:
        for i in range(0, rows, size):
            block = as_real(array[i : i + size])
            yield Batch(block, None if weights is None else weights[i : i + size])

    in_memory = array.dtype in (np.float32, np.float64)
    return Source(batches, rows, in_memory=in_memory, release=_page_releaser(array))


@register
def open_iterable(data: Any, sample_weight: Any) -> Source | None:
    """An iterable of 2-D batches, or of (batch, weights) pairs."""
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        return None
    if sample_weight is not None:
        raise ValueError("with an iterable of batches give the weights as (batch, weights) pairs, not as sample_weight")

    def batches(size: int) -> Iterator[Batch]:
        for number, item in enumerate(data):
            what = f"batch {number}"
            values, weights = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            array = as_rows(values, what)
            yield Batch(array, as_weights(weights, len(array), f"weights of {what}"))

    return Source(batches)


def _is_list_of_rows(data: Any) -> bool:
    """A list or tuple whose items are rows (not batches)."""
    if not isinstance(data, list | tuple):
        return False
    return len(data) == 0 or np.ndim(data[0]) <= 1


def _is_array_like(data: Any) -> bool:
    return hasattr(data, "__array__") and hasattr(data, "shape")


def _page_releaser(array: Any) -> Any:
    """For memory-mapped files: drop the pages already read from this process (they stay in the system's cache)."""
    mapping = getattr(array, "_mmap", None)
    if not isinstance(mapping, mmap.mmap) or getattr(array, "mode", None) == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return None

    def release() -> None:
        mapping.madvise(mmap.MADV_DONTNEED)

    return release
