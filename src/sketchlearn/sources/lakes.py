"""Tables of Delta Lake and Iceberg: the Parquet files of a snapshot, and what changed between two snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote
from urllib.request import url2pathname

from sketchlearn.exceptions import SourceError
from sketchlearn.sources.base import Source, library_of, register
from sketchlearn.sources.columns import arrow
from sketchlearn.sources.parquet import of_table
from sketchlearn.sources.paths import Files
from sketchlearn.sources.selection import Selection


class Snapshot(NamedTuple):
    """The files of a table at one time.

    `files`: from paths or addresses to the columns that have one value in the whole file. `schema`: all columns.
    `keys`: columns that are not in the files.
    """

    files: dict[str, dict[str, Any]]
    schema: Any
    keys: list[str]

    def source(self, selection: Selection, only: Iterable[str] | None = None) -> Source:
        """The rows of all files, or of some."""
        paths = sorted(self.files if only is None else only)
        if not paths:
            raise ValueError("there are no files in the table: nothing to read")
        return of_table(Files(tuple(paths)), self.schema, [self.files[p] for p in paths], self.keys, selection)


@register(rank=0)
def open_lake(data: Any, selection: Selection) -> Source | None:
    """A ``deltalake.DeltaTable`` or a table of ``pyiceberg``: the snapshot that it stands at."""
    return snapshot_of(data).source(selection) if is_lake(data) else None


def is_lake(data: Any) -> bool:
    """True for tables with snapshots."""
    return (library_of(data) == "deltalake" and hasattr(data, "get_add_actions")) or (
        library_of(data) == "pyiceberg" and hasattr(data, "scan") and hasattr(data, "snapshots")
    )


def snapshot_of(table: Any, version: int | None = None) -> Snapshot:
    """The files of a table, now or at an earlier version (Delta Lake) or snapshot (Iceberg)."""
    arrow("reading a table")
    return _delta(table, version) if library_of(table) == "deltalake" else _iceberg(table, version)


def _delta(table: Any, version: int | None) -> Snapshot:
    import pyarrow as pa

    if version is not None and version != table.version():
        options = getattr(table, "_storage_options", None)
        table = type(table)(table.table_uri, version=version, storage_options=options)
    if "deletionVectors" in (table.protocol().reader_features or ()) and _has_rows(table.deletion_vectors()):
        raise SourceError(f"{table.table_uri}: it has deletion vectors; rewrite its files (optimize or purge) first")
    keys = list(table.metadata().partition_columns)
    root = _plain(table.table_uri.rstrip("/"))
    files = {}
    for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        path = unquote(action["path"])
        whole = _plain(path) if "://" in path else f"{root}/{path}"
        files[whole] = {k: action[f"partition.{k}"] for k in keys}
    return Snapshot(files, pa.schema(table.schema().to_arrow()), keys)


def _has_rows(batches: Any) -> bool:
    import pyarrow as pa

    return bool(pa.table(batches).num_rows)


def _iceberg(table: Any, version: int | None) -> Snapshot:
    schema = table.schema() if version is None else table.scan(snapshot_id=version).projection()
    files: dict[str, dict[str, Any]] = {}
    for task in table.scan(snapshot_id=version).plan_files():
        if task.delete_files:
            raise SourceError(f"{task.file.file_path}: some of its rows are deleted elsewhere; rewrite the table first")
        files[_plain(task.file.file_path)] = {}
    return Snapshot(files, schema.as_arrow(), [])


def _plain(address: str) -> str:
    """A path of this machine for an address that is one."""
    return url2pathname(address.removeprefix("file://")) if address.startswith("file://") else address
