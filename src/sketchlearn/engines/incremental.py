"""Sketches that follow a table: what was added is added, what was removed is subtracted."""

from __future__ import annotations

from typing import Any, TypeVar, Unpack

from sketchlearn import engines
from sketchlearn.engines.append import without
from sketchlearn.engines.progress import Report
from sketchlearn.exceptions import SourceError
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sources import ReadOptions, Selection
from sketchlearn.sources.lakes import is_lake, snapshot_of

_Either = TypeVar("_Either", Sketch, SketchTable)


def update(
    sketch: _Either,
    table: Any,
    since: int,
    *,
    group_by: str | None = None,
    engine: Any = "auto",
    workers: int | None = None,
    progress: bool | Report | None = None,
    on_invalid: str = "raise",
    **reading: Unpack[ReadOptions],
) -> _Either:
    """Bring the sketch of an earlier version of a Delta Lake or Iceberg table up to date.

    Only files that came or went since are read.  The sums, the count and the number of skipped rows are exactly those
    of a pass over the whole table; the box is that of all rows there ever were, because which rows touched it is not
    known.

    Parameters
    ----------
    sketch : Sketch or SketchTable
        Of the table at version `since`, made with the same options.
    table : deltalake.DeltaTable or pyiceberg table
        The table as it is now.
    since : int
        Version (Delta Lake) or identifier of the snapshot (Iceberg) that `sketch` was made of.
    group_by : str, optional
        Column with the groups, for a table of sketches.
    engine, workers, progress, on_invalid, columns, weight_column, where, dtype
        See :func:`sketchlearn.sketch`.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, tempfile, sketchlearn as sl
    >>> from sketchlearn.engines.incremental import update
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> from deltalake import DeltaTable, write_deltalake  # doctest: +SKIP
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     write_deltalake(folder, pa.table({"x": [1.0, 2.0]}))
    ...     before = sl.sketch(DeltaTable(folder), phi)
    ...     write_deltalake(folder, pa.table({"x": [3.0]}), mode="append")
    ...     update(before, DeltaTable(folder), since=0).count
    3
    """
    if not is_lake(table):
        raise TypeError(f"a Delta Lake or Iceberg table is needed, got {type(table).__name__}")
    if (group_by is not None) != isinstance(sketch, SketchTable):
        raise ValueError("a table of sketches needs group_by, and one sketch must not have it")
    now, before = snapshot_of(table), snapshot_of(table, since)
    added, removed = now.files.keys() - before.files.keys(), before.files.keys() - now.files.keys()
    features = sketch.features
    selection = Selection.for_map(features, group_by=group_by, **reading)

    def of(snapshot: Any, files: set[str]) -> Any:
        return engines.run(
            snapshot.source(selection, files), features, engine, workers=workers, progress=progress,
            on_invalid=on_invalid,
        )  # fmt: skip

    result: Any = sketch
    if added:
        result = result + of(now, added)
    if removed:
        try:
            gone = of(before, removed)
        except FileNotFoundError as error:
            raise SourceError(f"removed files no longer exist: sketch the whole table ({error})") from None
        result = without(result, gone)
    return result  # type: ignore[no-any-return]
