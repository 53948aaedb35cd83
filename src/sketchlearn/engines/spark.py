"""Spark: ``mapInArrow`` over the partitions of a frame, or over a frame of parts; sums are merged before they come.

Everything goes through data frames, so that classic sessions and Spark Connect behave alike.  Spark takes the result
of one attempt of a task and drops those of others; that no part counts twice is checked once more when sums are merged.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sketchlearn.arrays import RowError
from sketchlearn.engines.base import Engine, Job, register_engine
from sketchlearn.engines.cluster import FAN
from sketchlearn.engines.partial import Outcome, Task, count_rows, merged, parts_from, placed_fault, sum_part
from sketchlearn.engines.threads import Pass
from sketchlearn.optional import optional
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Batch, Part, Source, library_of, placed
from sketchlearn.sources.columns import Layout, stream_of
from sketchlearn.sources.spark import NUMBER, SparkRows
from sketchlearn.sources.users import within

_SCHEMA = f"{NUMBER} int, outcome binary"
_LEVEL = "__level__"


def _recognised(engine: Any) -> Engine | None:
    return SparkEngine(engine) if library_of(engine) == "pyspark" and hasattr(engine, "createDataFrame") else None


@register_engine("spark", _recognised)
class SparkEngine(Engine):
    """Executors of a Spark session.

    `session`: by default the active one.
    """

    def __init__(self, session: Any = None) -> None:
        self._session = session

    def bounds_users(self, source: Source) -> bool:
        """The rows of a user in a Spark frame are chosen where they are."""
        return isinstance(source.batches, SparkRows)

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum partitions, or parts, on the executors."""
        sql = optional("pyspark.sql", "spark", "a pass on a Spark cluster")
        rows = job.source.batches
        session = rows.frame.sparkSession if isinstance(rows, SparkRows) else self._session
        session = session or sql.SparkSession.getActiveSession()
        if session is None:
            raise ValueError("engine='spark': there is no session; make one with SparkSession.builder.getOrCreate()")
        return SparkPass(job, session).run()


class SparkPass(Pass):
    """One pass on Spark.

    `job`: what to do; a checkpoint is gone on from, and saved at the end. `session`: who does it.
    """

    def __init__(self, job: Job, session: Any) -> None:
        super().__init__(job, 1)
        self._session = session
        self._trail: list[tuple[int, str]] = []

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        return placed(self._trail, row, "where" in self.source.settings)

    def accumulate(self) -> None:
        """One job, with a tag by which it can be interrupted."""
        names: Sequence[str] = ()
        task = Task.of(self.job).to_bytes()
        rows = self.source.batches
        if isinstance(rows, SparkRows):
            most = self.source.max_rows_per_user
            frame = rows.numbered(most is not None).mapInArrow(_SumRows(task, rows.layout, most), _SCHEMA)
            partitions = None
        else:
            if not self.source.parts:
                raise ValueError("engine='spark' reads files and Spark frames; other rows are read here: engine='auto'")
            parts = list(parts_from(self.source.parts, self._start, count_rows, self._trail))
            if not parts:
                return
            names = [part.name for part in parts]
            pickled = [(i, pickle.dumps(part)) for i, part in enumerate(parts)]
            frame = self._session.createDataFrame(pickled, f"{NUMBER} int, part binary").repartition(len(pickled))
            frame, partitions = frame.mapInArrow(_SumParts(task), _SCHEMA), len(pickled)
        tag = f"sketchlearn-{uuid.uuid4().hex[:12]}"
        self._session.addTag(tag)
        try:
            outcome = _reduced(frame, partitions)
        except BaseException:
            self._session.interruptTag(tag)
            raise
        finally:
            self._session.removeTag(tag)
        if outcome is not None:
            self._take(outcome, names)

    def _take(self, outcome: Outcome, names: Sequence[str]) -> None:
        numbers, rows = outcome.numbers.tolist(), outcome.rows.tolist()
        if outcome.fault is not None:
            called = {number: names[number] if names else f"partition {number}" for number in numbers}
            raise placed_fault(outcome.fault, dict(zip(numbers, rows, strict=True)), called, self._start, self._trail)
        for label, sums in outcome.sums.items():
            self.tally.at(label).merge(sums)
        self.rows_seen += sum(rows)
        self.advance(sum(rows))


@dataclass(frozen=True)
class _SumRows:
    """Sums the rows of a partition, at most so many of each user; its number is a column."""

    task: bytes
    layout: Layout
    most: int | None = None

    def __call__(self, tables: Iterator[Any]) -> Iterator[Any]:
        names = [*self.layout.needed, NUMBER]
        tables = (table.rename_columns(names) for table in tables)
        first = next((table for table in tables if table.num_rows), None)
        if first is None:
            return
        number = first.column(NUMBER)[0].as_py()
        rows = _Stream(self.layout, first, tables)
        part = Part(f"partition {number}", rows if self.most is None else within(rows, self.most))
        yield _row(sum_part(self.task, number, part))


@dataclass(frozen=True)
class _Stream:
    layout: Layout
    first: Any
    others: Iterator[Any]

    def __call__(self, size: int) -> Iterator[Batch]:
        def tables() -> Iterator[Any]:
            yield self.first
            yield from self.others

        return stream_of(self.layout, tables())


@dataclass(frozen=True)
class _SumParts:
    """Opens and sums parts."""

    task: bytes

    def __call__(self, tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            for number, part in zip(*(table.column(name).to_pylist() for name in (NUMBER, "part")), strict=True):
                yield _row(sum_part(self.task, number, pickle.loads(part)))


def _row(outcome: Outcome) -> Any:
    import pyarrow as pa

    columns = [pa.array([int(outcome.numbers[0])], pa.int32()), pa.array([pickle.dumps(outcome)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, [NUMBER, "outcome"])


def _reduced(frame: Any, partitions: int | None) -> Outcome | None:
    """All outcomes merged: on the executors in groups until a few are left, and those here."""
    from pyspark.sql import functions as F

    if partitions is None:
        partitions = FAN**2  # how many there are is not known under Connect: one level of merging
    while partitions > FAN:
        partitions = -(-partitions // FAN)
        groups = frame.withColumn(_LEVEL, F.col(NUMBER) % partitions)
        frame = groups.groupBy(_LEVEL).applyInArrow(_merge_table, _SCHEMA)
    found = [pickle.loads(data) for data in frame.toArrow().column("outcome").to_pylist()]
    return merged(*found) if found else None


def _merge_table(table: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([_row(merged(*map(pickle.loads, table.column("outcome").to_pylist())))])


# -- sketches as a column ---------------------------------------------------------------------------


def sketch_groups(frame: Any, features: Any, group_by: str, **options: Any) -> Any:
    """A Spark frame of sketches, one for each group, which never leaves the cluster.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Rows.
    features : FeatureMap
        What is summed.
    group_by : str
        Column with the groups.
    **options
        ``columns``, ``weight_column``, ``where``, ``dtype``, ``on_invalid``; see :func:`sketchlearn.sketch`.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns ``group``, ``count`` (float) and ``sketch`` (bytes of the .sketch format).
    """
    from pyspark.sql import functions as F

    from sketchlearn.sources import Selection, open_source

    skip = options.pop("on_invalid", "raise") == "skip"
    source = open_source(frame, Selection.for_map(features, group_by=group_by, **options))
    rows = source.batches
    if not isinstance(rows, SparkRows):
        raise TypeError(f"sketch_groups takes a Spark frame, got {type(frame).__name__}")
    label = rows.frame.schema[rows.layout.group].dataType.simpleString()
    task = Task.of(Job(source, features, skip)).to_bytes()
    partial = rows.numbered().mapInArrow(_SumGroups(task, rows.layout, label), f"`group` {label}, sketch binary")
    merge = merge_aggregate()
    table = partial.groupBy("group").agg(merge(F.col("sketch")).alias("sketch"))
    return table.select("group", count_function()(F.col("sketch")).alias("count"), "sketch")


@dataclass(frozen=True)
class _SumGroups:
    """Sketches of the groups of a partition, a row each."""

    task: bytes
    layout: Layout
    label: str

    def __call__(self, tables: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for table in _SumRows(self.task, self.layout)(tables):
            outcome = pickle.loads(table.column("outcome")[0].as_py())
            if outcome.fault is not None:
                fault = outcome.fault[1]
                raise fault.placed(lambda row: f", row {row} of a partition") if isinstance(fault, RowError) else fault
            made = {label: sums.sketch().to_bytes() for label, sums in outcome.sums.items()}
            columns = [pa.array(list(made)), pa.array(list(made.values()), pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["group", "sketch"])


def merge_aggregate() -> Callable[[Any], Any]:
    """An aggregate that merges a column of sketches: ``groupBy("year").agg(merge_aggregate()("sketch"))``."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    def sketch_merge(sketches: pd.Series) -> bytes:
        from sketchlearn.sketches import merge

        return merge(Sketch.from_bytes(data) for data in sketches if data is not None).to_bytes()

    sketch_merge.__annotations__ = {"sketches": pd.Series, "return": bytes}
    return pandas_udf(sketch_merge, "binary")


def count_function() -> Callable[[Any], Any]:
    """The number of rows of each sketch of a column."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    def sketch_count(sketches: pd.Series) -> pd.Series:
        return sketches.map(lambda data: None if data is None else float(Sketch.from_bytes(data).count))

    sketch_count.__annotations__ = {"sketches": pd.Series, "return": pd.Series}
    return pandas_udf(sketch_count, "double")


def register_functions(session: Any) -> None:
    """Make ``sketch_merge`` (an aggregate) and ``sketch_count`` known to the SQL of a session.

    ``SELECT year, sketch_merge(sketch) AS sketch FROM days GROUP BY year``
    """
    session.udf.register("sketch_merge", merge_aggregate())
    session.udf.register("sketch_count", count_function())
