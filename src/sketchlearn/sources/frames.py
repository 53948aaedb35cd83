"""Frames (pandas, polars, pyarrow, narwhals) and anything else that gives an Arrow stream."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from sketchlearn.sources.base import Batch, Source, library_of, open_source, register
from sketchlearn.sources.columns import Layout, arrow, first_line, stream_of
from sketchlearn.sources.ipc import of_reader
from sketchlearn.sources.rows import of_rows
from sketchlearn.sources.selection import Selection

_NOT_FRAMES = ("query", "dataset", "format")


@register(rank=0)
def open_narwhals(data: Any, selection: Selection) -> Source | None:
    """A narwhals frame: the frame inside it."""
    if library_of(data) != "narwhals" or not hasattr(data, "to_native"):
        return None
    return open_source(data.to_native(), selection)


@register(rank=0)
def open_pandas(data: Any, selection: Selection) -> Source | None:
    """A pandas frame, column by column; the index is not data."""
    if not (library_of(data) == "pandas" and hasattr(data, "iloc") and getattr(data, "ndim", 0) == 2):
        return None
    if importlib.util.find_spec("pyarrow") is None and not _names_matter(selection):
        return None  # the array protocol does for plain numbers
    pa = arrow("reading columns of a frame by name")
    selection.refuse("a frame", *_NOT_FRAMES)

    def tables(start: int, stop: int) -> Any:
        block = data.iloc[start:stop]
        try:
            return pa.Table.from_pandas(block, preserve_index=False)  # columns of Arrow may be in several pieces
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"the frame has a column of mixed values: {error}") from None

    return of_rows(tables, len(data), selection, "the frame", tables(0, 0).schema.names)


@register(rank=0)
def open_lazy(data: Any, selection: Selection) -> Source | None:
    """A polars lazy frame, batch by batch."""
    if not (library_of(data) == "polars" and hasattr(data, "collect_batches")):
        return None
    pa = arrow("reading a lazy frame")
    selection.refuse("a lazy frame", *_NOT_FRAMES, "sample_weight")
    layout = Layout(data.collect_schema().names(), selection, "the lazy frame")

    def batches(size: int) -> Iterator[Batch]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars calls the method unstable
            frames = data.select(layout.needed).collect_batches(chunk_size=size)
        for frame in frames:
            table = pa.table(frame)
            layout.check(table.schema)
            yield from stream_of(layout, table.to_batches())

    return Source(batches, names=layout.numbers, grouped=layout.group is not None)


@register(rank=2)
def open_arrow(data: Any, selection: Selection) -> Source | None:
    """Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``: polars, pyarrow, DuckDB relations, ..."""
    if library_of(data) == "pyarrow" and hasattr(data, "scanner"):  # a dataset, read in parts
        data = data.scanner(batch_readahead=2, fragment_readahead=1)
    if library_of(data) == "pyarrow" and type(data).__name__ == "Scanner":
        data = data.to_reader()
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        return None
    pa = arrow("reading Arrow data")
    selection.refuse("a frame", *_NOT_FRAMES)
    if hasattr(data, "num_rows") or library_of(data) == "polars":
        table = pa.table(data)  # in memory already, and shares it
        return of_rows(
            lambda start, stop: table.slice(start, stop - start), table.num_rows, selection, "the frame",
            table.schema.names,
        )  # fmt: skip
    selection.refuse("a stream; put the weights in a column and use weight_column", "sample_weight")
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return of_reader(pa.RecordBatchReader.from_stream(data), selection, "the Arrow stream")
        batch = pa.record_batch(data)
    except (pa.ArrowInvalid, TypeError) as error:
        raise ValueError(f"{type(data).__name__} is not a table with columns: {first_line(error)}") from None
    return of_reader(pa.RecordBatchReader.from_batches(batch.schema, [batch]), selection, "the Arrow stream")


def _names_matter(selection: Selection) -> bool:
    return bool(selection.columns or selection.weight_column or selection.group_by is not None or selection.where)
