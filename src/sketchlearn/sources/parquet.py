"""Parquet: files, globs and partitioned folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sketchlearn.sources.base import Batch, Part, Source
from sketchlearn.sources.columns import Layout, arrow, first_line, stream_of
from sketchlearn.sources.conditions import columns_in
from sketchlearn.sources.paths import Files, identity, reading, register_format
from sketchlearn.sources.remote import is_remote, open_remote, place_of
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
        dataset = _dataset(files, ds.partitioning(flavor="hive"))
        inside = next(iter(dataset.get_fragments())).physical_schema.names
    keys = [n for n in dataset.schema.names if n not in inside]
    constants = [ds.get_partition_keys(f.partition_expression) for f in dataset.get_fragments()]
    return of_dataset(files, dataset, dataset.schema, constants, keys, selection)


def of_table(
    files: Files, schema: Any, constants: list[dict[str, Any]], keys: list[str], selection: Selection
) -> Source:
    """Files of a table whose catalogue knows the schema, and the columns that are the same for all rows of a file."""
    arrow("reading Parquet")
    selection.refuse("a table", "query", "dataset", "format", "sample_weight")
    with reading(files.paths[0], "Parquet"):
        dataset = _dataset(files, None)
    return of_dataset(files, dataset, schema, constants, keys, selection)


def of_dataset(
    files: Files,
    dataset: Any,
    schema: Any,
    constants: list[dict[str, Any]],
    keys: list[str],
    selection: Selection,
) -> Source:
    """Row groups of a pyarrow dataset with one fragment per file; `keys` are columns that are not in the files."""
    parts: list[Part] = []
    first: Layout | None = None
    for path, fragment, values in zip(files.paths, dataset.get_fragments(), constants, strict=True):
        known = {k: v for k, v in values.items() if k in keys}
        parts += _parts_of(files, path, fragment, schema, keys, known, selection, first)
        if first is None:
            first = Layout(schema.names, selection, path, keys)
    assert first is not None
    return Source.of_parts(parts, first.numbers, first.group is not None)


def _dataset(files: Files, partitioning: Any) -> Any:
    import pyarrow.dataset as ds

    system, paths, root = None, list(files.paths), files.root
    if is_remote(paths[0]):
        places = [place_of(path) for path in paths]
        system, paths = places[0].system, [place.path for place in places]
        root = None if root is None else place_of(root).path
    return ds.dataset(paths, format="parquet", partitioning=partitioning, partition_base_dir=root, filesystem=system)


def _refuse_double_names(files: Files) -> None:
    names = _file(files.paths[0]).schema_arrow.names
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ValueError(f"{files.paths[0]} has more than one column named {twice!r}: rename one of them")


def _parts_of(
    files: Files,
    path: str,
    fragment: Any,
    whole: Any,
    keys: list[str],
    constants: dict[str, Any],
    selection: Selection,
    first: Layout | None,
) -> list[Part]:
    import pyarrow as pa

    with reading(path, "Parquet"):
        schema = fragment.physical_schema
        metadata = fragment.metadata
    names = [*schema.names, *constants]
    layout = Layout(names, selection, path, keys)
    if first is not None:
        layout.agree_with(first)
    full = pa.schema([*schema, *(whole.field(k) for k in constants)])
    layout.check(full)
    expression = layout.expression(full)
    views = any(pa.types.is_string_view(full.field(name).type) for name in columns_in(selection.where))
    if expression is None or views:  # Arrow can't look for string views in its statistics
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


def _file(path: str) -> Any:
    import pyarrow.parquet as pq

    if is_remote(path):  # few large requests
        return pq.ParquetFile(open_remote(path), pre_buffer=True)
    # streams within a row group, page by page: memory stays small whatever the row groups are
    return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)


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

        with _file(self.path) as file:
            for table in file.iter_batches(size, list(self.groups), list(self.needed) or None, use_threads=True):
                for name, value in self.constants.items():
                    if name in self.layout.needed:
                        column = pa.repeat(pa.scalar(value, self.schema.field(name).type), table.num_rows)
                        table = table.append_column(name, column)
                yield table
