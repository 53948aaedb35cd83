"""Arrow IPC: files (also Feather version 2) and streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sketchlearn.sources.base import Batch, Part, Source
from sketchlearn.sources.columns import Layout, arrow, stream_of
from sketchlearn.sources.paths import Files, identity, reading, register_format, stream_name
from sketchlearn.sources.remote import is_remote, open_remote
from sketchlearn.sources.selection import Selection


def _slices(table: Any, size: int) -> Iterator[Any]:
    """Record batches may be as large as the file: hand out views of some rows."""
    for i in range(0, table.num_rows, size):
        yield table.slice(i, size)


def _open(path: str, fields: tuple[int, ...] = ()) -> tuple[Any, bool]:
    """A reader of some fields, or of all, and whether it knows its batches by number.

    Batches may be compressed: what isn't asked for is not unpacked.
    """
    import pyarrow as pa

    source = open_remote(path) if is_remote(path) else pa.memory_map(path, "r")
    options = pa.ipc.IpcReadOptions(included_fields=list(fields))
    try:
        return pa.ipc.open_file(source, options=options), True
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source, options=options), False


def _read_stream(file: Any, selection: Selection) -> Source:
    pa = arrow("reading Arrow IPC")
    place = stream_name(file)
    with reading(place, "an Arrow stream"):
        reader = pa.ipc.open_stream(file)
    return of_reader(reader, selection, place)


def of_reader(reader: Any, selection: Selection, place: str) -> Source:
    """A source from a pyarrow ``RecordBatchReader``, which can be read once."""
    layout = Layout(reader.schema.names, selection, place)
    layout.check(reader.schema)

    def batches(size: int) -> Iterator[Batch]:
        with reading(place, "an Arrow stream"):
            for table in reader:
                yield from stream_of(layout, _slices(table, size))

    return Source.of_stream(batches, layout.numbers, layout.group is not None)


@register_format("arrow", ".arrow", ".arrows", ".feather", ".ipc", stream=_read_stream)
def open_ipc(files: Files, selection: Selection) -> Source:
    """Memory-mapped; one record batch at a time."""
    arrow("reading Arrow IPC")
    selection.refuse("Arrow IPC", "query", "dataset")
    parts: list[Part] = []
    first: Layout | None = None
    for path in files.paths:
        with reading(path, "Arrow IPC"):
            reader, numbered = _open(path)
            schema = reader.schema
        layout = Layout(schema.names, selection, path)
        layout.check(schema)
        first = first or layout
        layout.agree_with(first)
        name, mark = files.short(path), identity(path)
        fields = tuple(schema.names.index(column) for column in layout.needed)
        if numbered:
            with reading(path, "Arrow IPC"):
                reader, _ = _open(path, fields[:1])
                rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
            known = not selection.where
            numbers = [n if known else None for n in rows]
            parts += [Part(name, _Batches(path, i, layout, fields), n, mark) for i, n in enumerate(numbers)]
        else:
            parts.append(Part(name, _Batches(path, None, layout, fields), None, mark))
    assert first is not None
    return Source.of_parts(parts, first.numbers, first.group is not None)


@dataclass(frozen=True)
class _Batches:
    """One record batch of a file, or all of them."""

    path: str
    number: int | None
    layout: Layout
    fields: tuple[int, ...]

    def __call__(self, size: int) -> Iterator[Batch]:
        with reading(self.path, "Arrow IPC"):
            reader, _ = _open(self.path, self.fields)
            for table in reader if self.number is None else [reader.get_batch(self.number)]:
                yield from stream_of(self.layout, _slices(table, size))
