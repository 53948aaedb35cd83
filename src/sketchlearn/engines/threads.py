"""The engine of this process: one pass over the rows with a pool of threads.

Batches are cut into chunks of a fixed number of rows; each chunk is summed by a thread that has let
go of the interpreter lock; the sums are added up in the order of the chunks.  Only a few chunks are in
flight at any time, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Index, RowError
from sketchlearn.engines.base import Engine, Job, Prepare, register_engine
from sketchlearn.engines.chunks import Numbering, chunk_rows, read_ahead, rechunk
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.accumulator import Accumulator, Summed, invalid, summed, weighted
from sketchlearn.sketches.origin import Origin
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketches.weights import SQUARED_BITS, on_grid, squared_runs
from sketchlearn.sources.base import Batch, Reading, Source
from sketchlearn.threads import available_cores

_RELEASE_BYTES = 2**25  # memory-mapped bytes read between two releases
_GROUPED_CHUNKS = 8  # chunks of a grouped pass are this much larger
_GROUPED_BYTES = 2**33

Sums = list[tuple[int, Summed]]
"""Sums of the rows of a chunk by the number of their group (0 where there are no groups)."""


@register_engine("threads")
class ThreadEngine(Engine):
    """Threads of this process.

    `prepare`: from the plan of a feature map to what sums rows; by default :func:`sketchlearn.kernels.prepare`.
    """

    def __init__(self, prepare: Prepare | None = None) -> None:
        self.prepare = prepare

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum chunks in threads, in order."""
        return Pass(job, job.workers or available_cores(), self.prepare).run()


class ChunkSummer:
    """Sums the rows of a chunk, by group if there are groups.

    The rows of a chunk are sorted by group and every run of equal groups is summed on its own.
    """

    def __init__(self, features: FeatureMap, skip: bool, source: Source, prepare: Prepare | None = None) -> None:
        self._summer = features.summer if prepare is None else prepare(features.row_plan())
        self._skip, self._column = skip, source.column
        self._space = threading.local()

    def __call__(self, chunk: Batch) -> Sums:
        """Sums of a chunk; errors about a row count from the beginning of the chunk."""
        chunk = chunk._replace(rows=self._at_hand(chunk.rows))
        if chunk.groups is None:
            return [(0, summed(self._summer, chunk.rows, chunk.weights, self._skip, self._column))]
        units, whole = on_grid(chunk.weights)
        small = chunk.groups.max(initial=0) < 2**16  # sorted by radix, ten times faster
        order = np.argsort(chunk.groups.astype(np.uint16) if small else chunk.groups, kind="stable")
        groups = chunk.groups[order]
        rows = self._gathered(chunk.rows, order)
        weights = None if units is None else units[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1, append=-1)).astype(np.int64)
        parts = self._summer.sum_runs(rows, starts, weights, self._skip)
        wrong = [] if self._skip else [
            int(order[a + p.first_invalid])
            for a, p in zip(starts[:-1], parts, strict=True)
            if p.first_invalid is not None
        ]  # fmt: skip
        if wrong:
            raise invalid(chunk.rows[min(wrong)], min(wrong), self._column)
        origins = [Origin()] * len(parts)
        if weights is not None:
            skipped = any(part.skipped for part in parts)
            weights = np.where(self._summer.valid(rows), weights, 0) if skipped else weights
            most, bits = (f.reduceat(weights, starts[:-1]).tolist() for f in (np.maximum, np.bitwise_or))
            origins = [weighted(a, b, whole) for a, b in zip(most, bits, strict=True)]
        if weights is None or whole:
            squares = [part.weight << SQUARED_BITS for part in parts]
        else:
            squares = squared_runs(weights, starts[:-1])
        made = [Summed(p, whole, s, o) for p, s, o in zip(parts, squares, origins, strict=True)]
        return list(zip(groups[starts[:-1]].tolist(), made, strict=True))

    def _at_hand(self, rows: Any) -> AnyArray:
        """Rows where the summer can read them: those of a device come to the host."""
        return np.asarray(rows)

    def _gathered(self, rows: AnyArray, order: Index) -> AnyArray:
        """Rows in another order, in memory that each thread uses again: fresh pages cost more than the copy."""
        space = getattr(self._space, "rows", None)
        if space is None or len(space) < len(order) or space.dtype != rows.dtype:
            space = self._space.rows = np.empty((len(order), rows.shape[1]), rows.dtype)
        return np.take(rows, order, axis=0, out=space[: len(order)], mode="clip")


class Tally:
    """What a pass has summed: one accumulator a group, or one in all."""

    def __init__(self, features: FeatureMap, grouped: bool, before: Sketch | SketchTable | None) -> None:
        self._features, self._grouped, self._before = features, grouped, before
        self._sums: dict[Any, Accumulator] = {}

    def at(self, label: Any) -> Accumulator:
        """The accumulator of a group."""
        found = self._sums.get(label)
        if found is None:
            found = self._sums[label] = Accumulator(self._features)
            size = len(self._sums) * 8 * int(np.prod(self._features.sums_shape))
            if self._grouped and size > _GROUPED_BYTES:
                raise ValueError(
                    f"group_by gives more than {len(self._sums) - 1} groups: their sketches need more than "
                    f"{_GROUPED_BYTES >> 30} GB; group by something coarser, or use fewer features"
                )
        return found

    def result(self) -> Sketch | SketchTable | None:
        """The sketch or the table so far; None if there is not even a group."""
        if not self._grouped:
            total = self.at(None).sketch()
            return self._before + total if isinstance(self._before, Sketch) else total
        # groups that an earlier run knew and this one did not meet yet stay as they are
        found: dict[Any, Sketch] = dict(self._before) if isinstance(self._before, SketchTable) else {}
        for label, sums in self._sums.items():
            found[label] = found[label] + sums.sketch() if label in found else sums.sketch()
        return SketchTable(found) if found else None

    def items(self) -> Iterator[tuple[Any, Accumulator]]:
        """Groups and their accumulators."""
        yield from self._sums.items()


class Pass:
    """State of one pass: what is in flight, what is summed, how far it is.

    `job`: what to do. `workers`: threads (of other kinds of passes: processes). `prepare`: from the plan of a feature
    map to what sums rows.
    """

    def __init__(self, job: Job, workers: int, prepare: Prepare | None = None) -> None:
        self.job, self.workers, self._prepare = job, workers, prepare
        self.source, self.features = job.source, job.features
        start = job.checkpoint.rows if job.checkpoint else 0
        self._start = self.rows_seen = self.rows_done = start
        self.tally = Tally(job.features, job.source.grouped, job.checkpoint.sketch if job.checkpoint else None)
        self._numbering = Numbering()
        self._reading: Reading | None = None
        self._unreleased = 0

    def run(self) -> Sketch | SketchTable | None:
        """The whole pass; None if there are no rows."""
        try:
            self.accumulate()
        except KeyboardInterrupt:
            self.save()
            raise
        except RowError as error:
            raise error.placed(self.place) from None
        self.save()
        return self.tally.result() if self.rows_seen else None

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        return "" if self._reading is None else self._reading.place(row)

    def accumulate(self) -> None:
        """Sum all rows; errors about a row count from the beginning of the source."""
        in_flight: deque[tuple[int, int, Future[Sums]]] = deque()
        pool = self.executor()
        chunks = self.chunks()
        try:
            for chunk in chunks:
                in_flight.append((self.rows_seen, len(chunk.rows), self.submit(pool, chunk)))
                self.rows_seen += len(chunk.rows)
                while len(in_flight) > 2 * self.workers or (in_flight and in_flight[0][2].done()):
                    self._collect(*in_flight.popleft())
            while in_flight:
                self._collect(*in_flight.popleft())
        finally:
            # on any error, Ctrl-C included: drop what has not started, wait the milliseconds of what has
            if pool:
                pool.shutdown(wait=True, cancel_futures=True)
            chunks.close()

    def executor(self) -> Executor | None:
        """Who sums the chunks; None for here and now."""
        self._sum = ChunkSummer(self.features, self.job.skip_invalid, self.source, self._prepare)
        return ThreadPoolExecutor(self.workers, thread_name_prefix="sketchlearn") if self.workers > 1 else None

    def submit(self, pool: Executor | None, chunk: Batch) -> Future[Sums]:
        """Sum the rows in the pool, or here and now where there is none."""
        if pool:
            return pool.submit(self._sum, chunk)
        done: Future[Sums] = Future()
        try:
            done.set_result(self._sum(chunk))
        except Exception as error:
            done.set_exception(error)
        return done

    def _collect(self, first: int, rows: int, job: Future[Sums]) -> None:
        try:
            sums = job.result()
        except RowError as error:
            raise error.after(first) from None
        for number, part in sums:
            self.tally.at(self._numbering.values[number] if self.source.grouped else None).add(part)
        self.advance(rows)

    def advance(self, rows: int) -> None:
        """So many more rows are summed."""
        # rows are collected in their order: what is summed is always a beginning of the source
        self.rows_done += rows
        if self.job.checkpoint and self.job.checkpoint.due():
            self.save()
        self._unreleased += rows * self.features.inputs * 8
        if self.source.release and self._unreleased > _RELEASE_BYTES:
            self.source.release()
            self._unreleased = 0
        self.job.report(self.rows_done, self.source.length)

    def save(self) -> None:
        """Save position and sums, if there is something new."""
        if self.job.checkpoint and self.rows_done > self.job.checkpoint.rows:
            total = self.tally.result()
            assert total is not None
            self.job.checkpoint.save(self.rows_done, total)

    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        # long runs even if there are many groups
        return chunk_rows(self.features) * (_GROUPED_CHUNKS if self.source.grouped else 1)

    def chunks(self) -> Any:
        """The rows in chunks, with numbers of this pass as groups."""
        grouped = self.source.grouped
        size = self.chunk_rows()
        if self.source.in_memory and self.source.length:
            # leave no thread idle on small data
            share = -(-self.source.length // ((2 if grouped else 4) * self.workers))
            size = min(size, max(self.features.fewest_rows, share))
        self._reading = self.source.stream(size, self._start)
        batches: Iterator[Batch] = self._reading
        if not self.source.in_memory:
            batches = read_ahead(batches)
        if grouped:
            batches = _numbered(batches, self._numbering)
        return rechunk(batches, size, self.features.inputs)


def _numbered(batches: Iterator[Batch], numbering: Numbering) -> Iterator[Batch]:
    try:
        for batch in batches:
            yield numbering.numbered(batch)
    finally:
        close = getattr(batches, "close", None)
        if close:
            close()
