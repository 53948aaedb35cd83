"""Frames and arrays of Dask, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sketchlearn.sources.base import Part, Source, library_of, open_source, register
from sketchlearn.sources.columns import Layout
from sketchlearn.sources.partitions import Partition
from sketchlearn.sources.selection import Selection


@register(rank=0)
def open_dask(data: Any, selection: Selection) -> Source | None:
    """A Dask frame or a two-dimensional Dask array; summed on its cluster if there is a client."""
    if library_of(data) != "dask" or not hasattr(data, "to_delayed") or not hasattr(data, "ndim"):
        return None
    selection.refuse("a Dask collection", "query", "dataset", "format")
    if data.ndim != 2:
        raise ValueError(f"a Dask collection must have two dimensions (rows, columns), this one has {data.ndim}")
    return _frame(data, selection) if hasattr(data, "columns") else _array(data, selection)


def _frame(data: Any, selection: Selection) -> Source:
    own = selection.group_by if isinstance(selection.group_by, str | int) else None
    plain = replace(selection, sample_weight=None, group_by=own)
    layout = Layout([str(name) for name in data.columns], plain, "the frame")
    if layout.user is not None:  # all rows of a user in one partition
        data = data.shuffle(on=[next(name for name in data.columns if str(name) == layout.user)])
    open_source(data._meta, plain)  # complains about columns before anything is computed
    needed = [name for name in data.columns if str(name) in layout.needed]
    chosen = replace(layout.selection, columns=layout.numbers, expected=None)
    frames = list(data[needed].to_delayed())
    made = _source(frames, [None] * len(frames), chosen, selection, layout.numbers)
    return replace(made, users_together=layout.user is not None)


def _array(data: Any, selection: Selection) -> Source:
    selection.refuse("a Dask array: make a Dask frame with a column of users", "user")
    if len(data.chunks[1]) > 1:
        data = data.rechunk({1: -1})
    lengths = [None if np.isnan(n) else int(n) for n in data.chunks[0]]
    own = selection.group_by if isinstance(selection.group_by, str | int) else None
    plain = replace(selection, sample_weight=None, group_by=own)
    names = open_source(np.empty((0, data.shape[1]), data.dtype), plain).names
    return _source(list(data.to_delayed().ravel()), lengths, plain, selection, names)


def _source(
    pieces: list[Any], lengths: list[int | None], chosen: Selection, given: Selection, names: tuple[str, ...] | None
) -> Source:
    groups = None if isinstance(given.group_by, str | int) else given.group_by
    beside = [
        _beside(given.sample_weight, lengths, "sample_weight", "weight_column"),
        _beside(groups, lengths, "group_by", "group_by with the name of a column"),
    ]
    parts = [
        Part(f"partition {i}", Partition(chosen, (piece, *more), _fetch), None if chosen.where else lengths[i])
        for i, (piece, *more) in enumerate(zip(pieces, *beside, strict=True))
    ]
    source = Source.of_parts(parts, names, given.group_by is not None)
    return replace(source, home="dask" if _has_client() else None)


def _beside(values: Any, lengths: Sequence[int | None], option: str, instead: str) -> list[Any]:
    """Weights or labels, cut as the rows are."""
    if values is None:
        return [None] * len(lengths)
    if library_of(values) == "dask":
        known = None not in lengths and hasattr(values, "rechunk") and not np.isnan(values.shape[0])
        if known and values.shape[0] == sum(n for n in lengths if n is not None):
            values = values.rechunk((tuple(lengths),))
        pieces = np.asarray(values.to_delayed(), object).ravel().tolist()
        if len(pieces) != len(lengths):
            raise ValueError(f"{option} has {len(pieces)} partitions, the rows have {len(lengths)}")
        return pieces
    if None in lengths:
        raise ValueError(
            f"{option}: how many rows a partition has is not known; give a Dask collection with the same partitions, "
            f"or use {instead}"
        )
    array = np.asarray(values)
    ends = np.cumsum([0, *(n for n in lengths if n is not None)]).tolist()
    if array.shape == ():
        return [array] * len(lengths)
    if array.shape != (ends[-1],):
        raise ValueError(f"{option} must have one value per row, got shape {array.shape} for {ends[-1]} rows")
    return [array[a:b] for a, b in pairwise(ends)]


def _has_client() -> bool:
    """True if somebody has connected to a cluster."""
    try:
        from distributed import default_client

        default_client()
    except (ImportError, ValueError):
        return False
    return True


def _fetch(values: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    import dask

    computed: tuple[Any, Any, Any] = dask.compute(*values)
    return computed
