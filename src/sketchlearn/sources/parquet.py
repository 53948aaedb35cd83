"""Parquet: files, globs and partitioned folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sketchlearn.sources.base import Batch, Part, Source
from sketchlearn.sources.columns import Layout, arrow, first_line, stream_of
from sketchlearn.sources.paths import Files, identity, reading, register_format
from sketchlearn.sources.selection import Selection

_BUFFER = 2**20  # bytes read at a time per column: whole column chunks would be tens of megabytes each
_PART_ROWS = 2**18  # row groups are taken together up to this many rows


@register_format("parquet", ".parquet", ".pq", ".parq")
def open_parquet(files: Files, selection: Selection) -> Source:
    """Row groups one after the other; only the columns that are needed are decoded."""
    arrow("reading Parquet")
    import pyarrow.dataset as ds

    selection.refuse("Parquet", "query", "dataset")
    with reading(files.paths[0], "Parquet"):
        _refuse_double_names(files)
        partitioning = ds.partitioning(flavor="hive")
        dataset = ds.dataset(
            list(files.paths), format="parquet", partitioning=partitioning, partition_base_dir=files.root
        )
        keys = [n for n in dataset.schema.names if n not in next(iter(dataset.get_fragments())).physical_schema.names]
    parts: list[Part] = []
    first: Layout | None = None
    for fragment in dataset.get_fragments():
        parts += _parts_of(files, fragment, dataset, keys, selection, first)
        if first is None:
            first = Layout(dataset.schema.names, selection, fragment.path, keys)
    assert first is not None
    return Source.of_parts(parts, first.numbers, first.group is not None)


def _refuse_double_names(files: Files) -> None:
    import pyarrow.parquet as pq

    names = pq.read_schema(files.paths[0]).names
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ValueError(f"{files.paths[0]} has more than one column named {twice!r}: rename one of them")


def _parts_of(
    files: Files,
    fragment: Any,
    dataset: Any,
    keys: list[str],
    selection: Selection,
    first: Layout | None,
) -> list[Part]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    path = fragment.path
    with reading(path, "Parquet"):
        schema = fragment.physical_schema
        metadata = fragment.metadata
    constants = {k: v for k, v in ds.get_partition_keys(fragment.partition_expression).items() if k in keys}
    names = [*schema.names, *constants]
    layout = Layout(names, selection, path, keys)
    if first is not None:
        layout.agree_with(first)
    full = pa.schema([*schema, *(dataset.schema.field(k) for k in constants)])
    layout.check(full)
    expression = layout.expression(full)
    if expression is None:
        wanted = list(range(metadata.num_row_groups))
    else:
        try:
            pieces = fragment.split_by_row_group(expression, schema=full)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as error:
            raise ValueError(f"{path}: the condition can't be applied: {first_line(error)}") from None
        wanted = [group.id for piece in pieces for group in piece.row_groups]
    needed = [n for n in layout.needed if n not in constants]
    mark, parts, group, rows = identity(path), [], [], 0
    for i, number in enumerate(wanted):
        group.append(number)
        rows += metadata.row_group(number).num_rows
        if rows >= _PART_ROWS or i + 1 == len(wanted):
            read = _RowGroups(path, tuple(group), tuple(needed), constants, full, layout)
            parts.append(Part(files.short(path), read, rows if expression is None else None, mark))
            group, rows = [], 0
    return parts or [Part(files.short(path), _no_rows, 0, mark)]


def _no_rows(size: int) -> Iterator[Batch]:
    return iter(())


@dataclass(frozen=True)
class _RowGroups:
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]
    needed: tuple[str, ...]
    constants: dict[str, Any]
    schema: Any
    layout: Layout

    def __call__(self, size: int) -> Iterator[Batch]:
        with reading(self.path, "Parquet"):
            yield from stream_of(self.layout, self._tables(size))

    def _tables(self, size: int) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # streams within a row group, page by page: memory stays small whatever the row groups are
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=_BUFFER) as file:
            for table in file.iter_batches(size, list(self.groups), list(self.needed) or None, use_threads=True):
                for name, value in self.constants.items():
                    if name in self.layout.needed:
                        column = pa.repeat(pa.scalar(value, self.schema.field(name).type), table.num_rows)
                        table = table.append_column(name, column)
                yield table
