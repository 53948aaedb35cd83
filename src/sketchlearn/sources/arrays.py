"""Arrays, memory maps and iterables of batches."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.sources.base import Batch, Labels, Selection, Source, as_real, as_rows, as_weights, register


@register(rank=3)
def open_array(data: Any, selection: Selection) -> Source | None:
    """A 2-D array, a memory map, or a list of rows."""
    if not (isinstance(data, np.ndarray) or _is_list_of_rows(data) or _is_array_like(data)):
        return None
    selection.refuse("an array", "weight_column", "where", "query", "dataset", "format")
    array = data if isinstance(data, np.ndarray) else np.asarray(data)
    if array.ndim != 2:
        as_rows(array)  # raises with the right words
    if array.dtype.kind not in "fiubO":
        as_real(array)
    array = pick(array, selection)
    rows = len(array)
    weights = as_weights(selection.sample_weight, rows)
    labels = groups = None
    if selection.group_by is not None:
        labels = Labels()
        groups = numbered(selection.group_by, rows, labels)

    def batches(size: int) -> Iterator[Batch]:
        for i in range(0, rows, size):
            block = as_real(array[i : i + size], dtype=selection.dtype)
            yield Batch(
                block,
                None if weights is None else weights[i : i + size],
                None if groups is None else groups[i : i + size],
            )

    in_memory = array.dtype in (np.float32, np.float64) and selection.dtype is None
    return Source(batches, rows, in_memory=in_memory, release=_page_releaser(array), labels=labels)


@register(rank=4)
def open_iterable(data: Any, selection: Selection) -> Source | None:
    """An iterable of 2-D batches, or of (batch, weights) pairs."""
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        return None
    if selection.sample_weight is not None:
        raise ValueError("with an iterable of batches give the weights as (batch, weights) pairs, not as sample_weight")
    selection.refuse("an iterable of batches", "weight_column", "where", "query", "dataset", "format", "group_by")

    def batches(size: int) -> Iterator[Batch]:
        for number, item in enumerate(data):
            what = f"batch {number}"
            values, weights = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            array = as_real(pick(as_rows(values, what), selection), dtype=selection.dtype)
            yield Batch(array, as_weights(weights, len(array), f"weights of {what}"))

    return Source(batches)


def pick(array: npt.NDArray[Any], selection: Selection) -> npt.NDArray[Any]:
    """The columns that were asked for, by number."""
    if selection.columns is None:
        return array
    numbers: list[int] = []
    for c in selection.columns:
        if not isinstance(c, int):
            raise ValueError(f"columns={c!r}: an array has no column names; use column numbers")
        if not -array.shape[1] <= c < array.shape[1]:
            raise ValueError(f"there is no column number {c} in an array with {array.shape[1]} columns")
        numbers.append(c)
    return array[:, numbers]


def numbered(group_by: Any, rows: int, labels: Labels) -> npt.NDArray[np.int64]:
    if isinstance(group_by, str):
        raise ValueError(f"group_by={group_by!r}: an array has no column names; give an array of labels")
    values = np.asarray(group_by)
    if values.shape != (rows,):
        raise ValueError(f"group_by must have one label per row, got shape {values.shape} for {rows} rows")
    if values.dtype.kind == "f":
        raise ValueError("group_by holds numbers with decimals; groups must be text, whole numbers, booleans or dates")
    if values.dtype.kind == "O":
        return labels.encode(values.tolist())
    if values.dtype.kind in "iub" and rows:
        kind = bool if values.dtype.kind == "b" else int
        low, high = int(values.min()), int(values.max())
        if high - low < max(rows, 2**16) and abs(low) < 2**62 > abs(high):  # count instead of sorting
            offsets = values.astype(np.int64) - low
            present = np.flatnonzero(np.bincount(offsets))
            code_of = np.zeros(high - low + 1, np.int64)
            code_of[present] = labels.encode(kind(v + low) for v in present.tolist())
            return code_of[offsets]
    distinct, codes = np.unique(values, return_inverse=True)
    return labels.encode(distinct.tolist())[codes]


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
