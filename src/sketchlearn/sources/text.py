"""CSV, TSV and JSON lines, compressed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from sketchlearn.exceptions import SourceError
from sketchlearn.sources.base import Batch, Labels, Part, Selection, Source
from sketchlearn.sources.columns import Layout, arrow, stream_of
from sketchlearn.sources.paths import Files, identity, reading, register_format

_BLOCK = 2**22  # bytes of text parsed at a time
_TEXT = "delimited text"


def _tables(file: Any, layout: Layout, delimiter: str) -> Iterator[Any]:
    """A stream of record batches with pinned types: the first block never decides what the last must be.

    Only columns that filter and do nothing else keep the type that the text suggests.
    """
    import pyarrow as pa
    import pyarrow.csv as csv

    selection = layout.selection
    real = pa.float32() if selection.dtype == "float32" else pa.float64()
    pinned = dict.fromkeys(layout.numbers, real)
    if selection.weight_column is not None:
        pinned[selection.weight_column] = pa.float64()
    if selection.group_by is not None:
        pinned[selection.group_by] = pa.string()
    yield from csv.open_csv(
        file,
        read_options=csv.ReadOptions(block_size=_BLOCK),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            include_columns=layout.needed, column_types=pinned, strings_can_be_null=True
        ),
    )


def _suggested(path: str, delimiter: str) -> Any:
    """The schema that the first block suggests: for the names, and to refuse columns of text."""
    import pyarrow as pa
    import pyarrow.csv as csv

    with reading(path, _TEXT), pa.input_stream(path, compression="detect") as file:
        options = csv.ReadOptions(block_size=2**20)
        return csv.open_csv(file, options, csv.ParseOptions(delimiter=delimiter)).schema


def _csv_files(delimiter: str) -> Callable[[Files, Selection], Source]:
    def read(files: Files, selection: Selection) -> Source:
        arrow("reading delimited text")
        selection.refuse("delimited text", "query", "dataset")
        labels = Labels() if selection.group_by is not None else None
        parts: list[Part] = []
        first: Layout | None = None
        for path in files.paths:
            schema = _suggested(path, delimiter)
            layout = Layout(schema.names, selection, path, labels=labels)
            layout.check(schema)
            first = first or layout
            layout.agree_with(first)
            parts.append(Part(Path(path).name, _csv_reader(path, layout, delimiter), None, identity(path)))
        assert first is not None
        return Source.of_parts(parts, first.numbers, labels)

    return read


def _csv_reader(path: str, layout: Layout, delimiter: str) -> Callable[[int], Iterator[Batch]]:
    def batches(size: int) -> Iterator[Batch]:
        import pyarrow as pa

        with reading(path, _TEXT), pa.input_stream(path, compression="detect") as file:
            yield from stream_of(layout, _tables(file, layout, delimiter))

    return batches


def _csv_stream(delimiter: str) -> Callable[[Any, Selection], Source]:
    def read(file: Any, selection: Selection) -> Source:
        pa = arrow("reading delimited text")
        import pyarrow.csv as csv

        place = "the stream"
        labels = Labels() if selection.group_by is not None else None
        # the header line must be read to know the columns, and can't be read twice
        header = file.readline()
        if not header.strip():
            raise SourceError(f"{place} is empty: there is no header line")
        with reading(place, _TEXT):
            options = csv.ParseOptions(delimiter=delimiter)
            names = csv.read_csv(pa.BufferReader(header), parse_options=options).column_names
        layout = Layout(names, selection, place, labels=labels)

        def batches(size: int) -> Iterator[Batch]:
            with reading(place, _TEXT):
                source = pa.PythonFile(_Joined(header, file), mode="r")
                yield from stream_of(layout, _tables(source, layout, delimiter))

        return Source(batches, names=layout.numbers, labels=labels)

    return read


class _Joined:
    """Some bytes that were read already, then the rest of a file."""

    closed = False

    def __init__(self, start: bytes, file: Any) -> None:
        self._start, self._file = start, file

    def read(self, size: int = -1) -> bytes:
        if self._start:
            out, self._start = self._start, b""
            if size >= 0 and len(out) > size:
                out, self._start = out[:size], out[size:]
            return out
        return self._file.read(size)

    def close(self) -> None:
        self.closed = True


register_format("csv", ".csv", stream=_csv_stream(","))(_csv_files(","))
register_format("tsv", ".tsv", ".tab", stream=_csv_stream("\t"))(_csv_files("\t"))


# -- JSON lines ------------------------------------------------------------------------------------


def _json_tables(file: Any, place: str) -> Iterator[Any]:
    import pyarrow.json as json

    with reading(place, "JSON lines"):
        yield from json.open_json(file, read_options=json.ReadOptions(block_size=_BLOCK))


def _json_batches(tables: Iterator[Any], selection: Selection, place: str, labels: Labels | None) -> Iterator[Batch]:
    layout = None
    for table in tables:
        if layout is None:
            layout = Layout(table.schema.names, selection, place, labels=labels)
            layout.check(table.schema)
        with reading(place, "JSON lines"):
            yield from stream_of(layout, [table])


def _json_stream(file: Any, selection: Selection) -> Source:
    pa = arrow("reading JSON lines")
    labels = Labels() if selection.group_by is not None else None
    tables = _json_tables(pa.PythonFile(_Joined(b"", file), mode="r"), "the stream")
    start = next(tables, None)
    if start is None:
        raise SourceError("the stream is empty: there are no JSON lines")
    names = Layout(start.schema.names, selection, "the stream").numbers
    return Source(
        lambda size: _json_batches(chain([start], tables), selection, "the stream", labels), names=names, labels=labels
    )


@register_format("jsonl", ".jsonl", ".ndjson", stream=_json_stream)
def open_json(files: Files, selection: Selection) -> Source:
    """One JSON object a line; a field of lists can be the rows themselves."""
    pa = arrow("reading JSON lines")
    selection.refuse("JSON lines", "query", "dataset")
    labels = Labels() if selection.group_by is not None else None

    def tables(path: str) -> Iterator[Any]:
        with reading(path, "JSON lines"), pa.input_stream(path, compression="detect") as file:
            yield from _json_tables(file, path)

    def reader(path: str, fixed: Selection) -> Callable[[int], Iterator[Batch]]:
        return lambda size: _json_batches(tables(path), fixed, path, labels)

    with closing(tables(files.paths[0])) as opened:  # type: ignore[type-var]
        start = next(opened, None)
    if start is None:
        raise SourceError(f"{files.paths[0]}: empty, there are no JSON lines")
    first = Layout(start.schema.names, selection, files.paths[0])
    first.check(start.schema)
    # fields may come in another order in other files: read them by name
    fixed = Selection(**{**vars(selection), "columns": first.numbers})
    parts = [Part(Path(p).name, reader(p, fixed), None, identity(p)) for p in files.paths]
    return Source.of_parts(parts, first.numbers, labels)
