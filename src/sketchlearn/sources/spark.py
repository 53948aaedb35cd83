"""Frames of Spark, classic or Connect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.sources.base import Batch, Source, library_of, register
from sketchlearn.sources.columns import Layout, arrow, stream_of
from sketchlearn.sources.selection import Selection

NUMBER = "__part__"


@register(rank=0)
def open_spark(data: Any, selection: Selection) -> Source | None:
    """A Spark frame: summed where its partitions are."""
    if library_of(data) != "pyspark" or not hasattr(data, "mapInArrow"):
        return None
    pa = arrow("reading a Spark frame")
    selection.refuse("a Spark frame", "query", "dataset", "format", "sample_weight")
    if selection.user is not None and not isinstance(selection.user, str | int):
        selection.refuse("a Spark frame; name a column of users", "user")
    if selection.group_by is not None and not isinstance(selection.group_by, str | int):
        selection.refuse("a Spark frame; group by a column", "group_by")
    layout = Layout(data.columns, selection, "the frame")
    frame = data.select(*map(_quoted, layout.needed))
    layout.check(pa.schema(frame.limit(0).toArrow().schema))
    layout = Layout(layout.needed, replace(layout.selection, columns=layout.numbers, expected=None), "the frame")
    return Source(SparkRows(frame, layout), names=layout.numbers, grouped=layout.group is not None, home="spark")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class SparkRows:
    """The rows of a frame; called, they are brought here, partition by partition."""

    frame: Any
    layout: Layout

    def numbered(self, by_user: bool = False) -> Any:
        """The frame with the number of its partition in each row; columns are called c0, c1, ...

        Spark can't hand over columns whose names have dots or backticks.  With `by_user` all rows of a user are
        shuffled into one partition.
        """
        from pyspark.sql import functions as F

        columns = [F.col(_quoted(name)).alias(f"c{i}") for i, name in enumerate(self.layout.needed)]
        frame = self.frame
        if by_user and self.layout.user is not None:
            key = F.col(_quoted(self.layout.user))
            if dict(frame.dtypes)[self.layout.user] in ("float", "double"):  # -0 and 0 are one user, NaN and null too
                key = F.when(~F.isnan(key), key + 0.0)
            frame = frame.repartition(key)
        return frame.select(*columns, F.spark_partition_id().alias(NUMBER))

    def __call__(self, size: int) -> Iterator[Batch]:
        import pyarrow as pa

        rows: list[Any] = []
        for row in self.frame.toLocalIterator():
            rows.append(row.asDict())
            if len(rows) == size:
                yield from stream_of(self.layout, [pa.RecordBatch.from_pylist(rows)])
                rows = []
        if rows:
            yield from stream_of(self.layout, [pa.RecordBatch.from_pylist(rows)])
