"""Arrays, memory maps and iterables of batches."""

from __future__ import annotations

import mmap
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import as_array, as_real, as_rows, as_weights
from sketchlearn.kernels.cuda.rows import on_device
from sketchlearn.sources.base import Batch, Source, library_of, open_source, register
from sketchlearn.sources.conditions import renamed
from sketchlearn.sources.device import device_batch
from sketchlearn.sources.rows import Beside, of_rows, record_batch
from sketchlearn.sources.selection import Selection


@register(rank=0)
def open_sparse(data: Any, selection: Selection) -> Source | None:
    """A sparse matrix of SciPy, made dense block by block."""
    if library_of(data) != "scipy" or not hasattr(data, "tocsr"):
        return None
    selection.refuse("a sparse matrix", "query", "dataset", "format", "where", "weight_column")
    matrix = data.tocsr()
    plain = open_array(np.empty((matrix.shape[0], 0)), replace(selection, columns=None))
    assert plain is not None
    return Source(_Sparse(matrix, plain, selection), matrix.shape[0], grouped=plain.grouped)


@dataclass(frozen=True)
class _Sparse:
    """Batches of a sparse matrix; weights and groups are those of an array without columns."""

    matrix: Any
    plain: Source
    selection: Selection

    def __call__(self, size: int) -> Iterator[Batch]:
        at = 0
        for batch in self.plain.batches(size):
            block = self.matrix[at : at + len(batch.rows)].toarray()
            yield batch._replace(rows=as_real(pick(block, self.selection), dtype=self.selection.dtype))
            at += len(block)


@register(rank=3)
def open_array(data: Any, selection: Selection) -> Source | None:
    """A 2-D array, a memory map, a structured array, or a list of rows."""
    if not (isinstance(data, np.ndarray) or _is_list_of_rows(data) or _is_array_like(data)):
        return None
    selection.refuse("an array", "query", "dataset", "format")
    array = data if isinstance(data, np.ndarray) else as_array(data)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(as_real(array), np.nan)  # what is masked is not there
    if array.dtype.names:
        return replace(_structured(array, selection), release=_page_releaser(array))
    if array.ndim != 2:
        as_rows(array)  # raises with the right words
    if array.dtype.kind not in "fiubO":
        as_real(array)
    if by_column(selection):
        return replace(_by_column(array, selection), release=_page_releaser(array))
    array = pick(array, selection)
    in_memory = array.dtype in (np.float32, np.float64) and array.dtype.isnative and selection.dtype is None
    batches, grouped = _Blocks(array, Beside.of(selection, len(array)), selection.dtype), selection.group_by is not None
    return Source(batches, len(array), in_memory=in_memory, release=_page_releaser(array), grouped=grouped)


@dataclass(frozen=True)
class _Blocks:
    """Batches of a 2-D array."""

    array: npt.NDArray[Any]
    beside: Beside
    dtype: str | None

    def __call__(self, size: int) -> Iterator[Batch]:
        for i in range(0, len(self.array), size):
            yield self.beside.joined(Batch(as_real(self.array[i : i + size], dtype=self.dtype)), i)


def _structured(array: npt.NDArray[Any], selection: Selection) -> Source:
    """Fields are columns."""
    names = list(array.dtype.names or ())
    if array.ndim != 1:
        raise ValueError(f"a structured array must have one dimension, got shape {array.shape}")

    def tables(start: int, stop: int) -> Any:
        return record_batch({n: array[start:stop][n] for n in names}, group_name(selection))

    return of_rows(tables, len(array), selection, "the array", names)


def _by_column(array: npt.NDArray[Any], selection: Selection) -> Source:
    """A 2-D array with a column of weights or groups, or a condition: the columns are named by their numbers."""
    names = [str(i) for i in range(array.shape[1])]
    for option in ("weight_column", "group_by", "user"):
        value = getattr(selection, option)
        if isinstance(value, str) and not _is_number(value):
            raise ValueError(
                f"{option}={value!r} doesn't apply to an array, which has no column names: use the number of a column "
                "(the first is 0)" + ("" if option == "weight_column" else " or an array of labels")
            )
    chosen = numbers_as_names(selection, len(names))

    def tables(start: int, stop: int) -> Any:
        return record_batch(dict(zip(names, array[start:stop].T, strict=True)), group_name(chosen))

    return replace(of_rows(tables, len(array), chosen, "the array", names), names=None)


@register(rank=4)
def open_iterable(data: Any, selection: Selection) -> Source | None:
    """An iterable of 2-D batches, of (batch, weights) pairs, or of frames."""
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        return None
    if selection.sample_weight is not None:
        raise ValueError("with an iterable of batches give the weights as (batch, weights) pairs, not as sample_weight")
    selection.refuse("an iterable of batches", "query", "dataset", "format")
    if selection.group_by is not None and not isinstance(selection.group_by, str | int):
        selection.refuse("an iterable of batches: put the labels into a column of each batch", "group_by")
    if selection.user is not None and not isinstance(selection.user, str | int):
        selection.refuse("an iterable of batches: put the users into a column of each batch", "user")

    def batches(size: int) -> Iterator[Batch]:
        for number, item in enumerate(data):
            what = f"batch {number}"
            values, weights = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            if on_device(values):
                yield device_batch(values, weights, selection, what)
                continue
            if _has_columns(values) or by_column(selection):
                yield from open_source(values, replace(selection, sample_weight=weights)).batches(size)
                continue
            array = as_real(pick(as_rows(values, what), selection), dtype=selection.dtype)
            yield Batch(array, as_weights(weights, len(array), f"weights of {what}"))

    grouped = selection.group_by is not None
    return Source.of_stream(batches, grouped=grouped) if iter(data) is data else Source(batches, grouped=grouped)


def _has_columns(values: Any) -> bool:
    """A frame, whose columns have names."""
    return hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__") or hasattr(values, "columns")


# -- columns of arrays -----------------------------------------------------------------------------


def by_column(selection: Selection) -> bool:
    """True if a column has to be looked at as a column: weights, groups or a condition."""
    named = isinstance(selection.group_by, str | int) or isinstance(selection.user, str | int)
    return bool(selection.weight_column is not None or selection.where or named)


def group_name(selection: Selection) -> str | None:
    """The column of groups, if groups are a column."""
    return selection.group_by if isinstance(selection.group_by, str) else None


def numbers_as_names(selection: Selection, width: int) -> Selection:
    """The selection for a 2-D array, whose columns are called '0', '1', ...; names of a feature map mean nothing."""

    def name(value: Any) -> Any:
        return str(column_number(value, width)) if _is_number(value) else value

    return replace(
        selection,
        columns=None if selection.columns is None else tuple(map(name, selection.columns)),
        weight_column=name(selection.weight_column),
        group_by=name(selection.group_by),
        user=name(selection.user),
        where=tuple(renamed(c, name) for c in selection.where),
        expected=None,
    )


def pick(array: npt.NDArray[Any], selection: Selection) -> npt.NDArray[Any]:
    """The columns that were asked for, by number."""
    if selection.columns is None:
        return array
    return array[:, [column_number(c, array.shape[1]) for c in selection.columns]]


def column_number(value: Any, width: int) -> int:
    """A column of a 2-D array from its number, which may be text."""
    if not _is_number(value):
        raise ValueError(f"columns={value!r}: an array has no column names; use column numbers, the first is 0")
    number = int(value)
    if not -width <= number < width:
        raise ValueError(f"there is no column number {number} in an array with {width} columns")
    return number % width


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(r"-?\d+", value))
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


# -- what is an array ------------------------------------------------------------------------------


def _is_list_of_rows(data: Any) -> bool:
    """A list or tuple whose items are rows (not batches)."""
    if not isinstance(data, list | tuple):
        return False
    return len(data) == 0 or (np.ndim(data[0]) <= 1 and not _has_columns(data[0]))


def _is_array_like(data: Any) -> bool:
    return hasattr(data, "shape") and (hasattr(data, "__array__") or hasattr(data, "__dlpack__"))


def _page_releaser(array: Any) -> Any:
    """For memory-mapped files: drop the pages already read from this process (they stay in the system's cache)."""
    mapping = getattr(array, "_mmap", None)
    if not isinstance(mapping, mmap.mmap) or getattr(array, "mode", None) == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return None

    def release() -> None:
        mapping.madvise(mmap.MADV_DONTNEED)

    return release
