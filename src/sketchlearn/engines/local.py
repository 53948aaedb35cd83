"""The local engine: one pass over the rows with a pool of threads.

Batches are cut into chunks of a fixed number of rows; each chunk is summed by a thread that has let
go of the interpreter lock; the sums are added up in the order of the chunks.  Only a few chunks are in
flight at any time, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.engines.progress import Report, reporting
from sketchlearn.features.base import FeatureMap
from sketchlearn.kernels import RowSums
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import WEIGHT_BITS, Sketch
from sketchlearn.sources.base import Batch, Selection, Source, open_source

_CHUNK_WORK = 1e9  # multiply-adds per chunk: some tens of milliseconds
_CHUNK_BYTES = 2**23
_RELEASE_BYTES = 2**25  # memory-mapped bytes read between two releases
_GROUPED_CHUNKS = 8  # chunks of a grouped pass are this much larger
_GROUPED_BYTES = 2**33


@overload
def sketch(
    data: Any,
    features: FeatureMap,
    *,
    group_by: None = None,
    sample_weight: npt.ArrayLike | None = ...,
    workers: int | None = ...,
    progress: bool | Report | None = ...,
    on_invalid: str = ...,
    columns: Sequence[str | int] | str | None = ...,
    weight_column: str | int | None = ...,
    where: Any = ...,
    query: str | None = ...,
    dataset: str | None = ...,
    format: str | None = ...,
    dtype: str | None = ...,
    checkpoint: str | PathLike[str] | None = ...,
    checkpoint_every: float = ...,
) -> Sketch: ...


@overload
def sketch(
    data: Any,
    features: FeatureMap,
    *,
    group_by: str | int | npt.ArrayLike,
    sample_weight: npt.ArrayLike | None = ...,
    workers: int | None = ...,
    progress: bool | Report | None = ...,
    on_invalid: str = ...,
    columns: Sequence[str | int] | str | None = ...,
    weight_column: str | int | None = ...,
    where: Any = ...,
    query: str | None = ...,
    dataset: str | None = ...,
    format: str | None = ...,
    dtype: str | None = ...,
    checkpoint: str | PathLike[str] | None = ...,
    checkpoint_every: float = ...,
) -> SketchTable: ...


def sketch(
    data: Any,
    features: FeatureMap,
    *,
    sample_weight: npt.ArrayLike | None = None,
    workers: int | None = None,
    progress: bool | Report | None = None,
    on_invalid: str = "raise",
    columns: Sequence[str | int] | str | None = None,
    weight_column: str | int | None = None,
    group_by: str | int | npt.ArrayLike | None = None,
    where: Any = None,
    query: str | None = None,
    dataset: str | None = None,
    format: str | None = None,
    dtype: str | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
) -> Sketch | SketchTable:
    """Sketch the rows of `data` in one pass.

    Parameters
    ----------
    data : array, memory map, path or glob, database, frame, Arrow stream, or iterable of batches
        Rows and columns; see :func:`sketchlearn.read` for the files and databases that can be read.  Batches
        may have any sizes, and be ``(rows, weights)`` pairs; generators of unknown length are fine.
        Memory-mapped arrays are read in blocks.
    features : FeatureMap
        From :func:`sketchlearn.design` or :meth:`sketchlearn.FourierFeatures.draw`.
    sample_weight : array, optional
        One non-negative number per row.  Weights are rounded to multiples of 2**-16; whole weights are
        exactly repetition, and rows of weight 0 are as if they weren't there.
    workers : int, optional
        Threads; by default all cores that this process may use.  The result doesn't depend on it.
    progress : bool or callable, optional
        By default a bar if standard error is a terminal.  A callable gets (rows done, rows in all or
        None).
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity (or lie so far out, beyond 2**30 radians of phase,
        that their features would be meaningless).  Skipped rows are counted in the sketch.  Nulls are NaN.
    columns, weight_column, where, query, dataset, format, dtype
        What to read; see :func:`sketchlearn.read`.  If the feature map knows the names of its columns, these
        are the columns that are read.
    group_by : str or array, optional
        One sketch per value of this column (or of this array of labels): the result is a
        :class:`~sketchlearn.SketchTable`.
    checkpoint : path, optional
        File that keeps position and sketch.  If it is there the pass goes on where it stood, to the same bytes
        as an uninterrupted pass, and takes in files that came since; it stays when the pass is complete, so
        that the next call reads new files only.
    checkpoint_every : float
        Seconds between two checkpoints.

    Returns
    -------
    Sketch or SketchTable

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=3, size=64, scale=1.0, seed=0)
    >>> batches = (rng.normal(size=(rng.integers(1, 100), 3)) for _ in range(20))
    >>> s = sl.sketch(batches, phi)
    >>> s.features == phi, s.count > 20
    (True, True)
    """
    if not isinstance(features, FeatureMap):
        raise TypeError(f"features must be a feature map, got {type(features).__name__}; make one with sl.design(...)")
    if on_invalid not in ("raise", "skip"):
        raise ValueError(f"on_invalid={on_invalid!r}: choose 'raise' or 'skip'")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers must be a positive integer, got {workers!r}")
    selection = Selection.of(
        columns=columns, weight_column=weight_column, group_by=group_by, where=where, query=query, dataset=dataset,
        format=format, dtype=dtype, sample_weight=sample_weight, expected=features.columns,
    )  # fmt: skip
    source = open_source(data, selection)
    if features.columns and source.names and source.names != features.columns:
        raise ValueError(
            f"the columns of the data are {', '.join(source.names)}, those of the feature map "
            f"{', '.join(features.columns)}"
        )
    threads = workers or available_cores()
    skip = on_invalid == "skip"
    point = None
    if checkpoint is not None:
        settings = {**source.settings, "on_invalid": on_invalid}
        point, source = Checkpoint.begin(checkpoint, source, features, settings, checkpoint_every)
    kind = _Pass if source.labels is None else GroupedPass
    with reporting(progress, source.length, "sketching") as report:
        run = kind(source, features, threads, report, skip, point)
        result = run.run()
    if result is None or run.rows_seen == 0:
        raise ValueError("there are no rows in the data: nothing to sketch")
    return result


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def chunk_rows(features: FeatureMap) -> int:
    """Rows per chunk: enough work to hide the overhead, little enough to share out."""
    by_work = _CHUNK_WORK / features.row_cost
    by_bytes = _CHUNK_BYTES / (8 * features.dim)
    return max(features.fewest_rows, 240 * int(min(by_work, by_bytes) / 240))


class _Pass:
    """State of one pass: what is in flight, what is summed, how far it is."""

    shares = 4  # chunks per thread that small data is cut into

    def __init__(
        self,
        source: Source,
        features: FeatureMap,
        threads: int,
        report: Report,
        skip: bool,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.source, self.features, self.threads = source, features, threads
        self.report, self.skip, self.checkpoint = report, skip, checkpoint
        self._start = self.rows_seen = self.rows_done = checkpoint.rows if checkpoint else 0
        self._before = checkpoint.sketch if checkpoint else None
        self._unreleased = 0
        self.plain: list[RowSums] = []
        self.fractional: list[RowSums] = []

    def run(self) -> Sketch | SketchTable | None:
        """The whole pass; None if there is not even a group."""
        in_flight: deque[tuple[int, int, bool, Future[_Summed]]] = deque()
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="sketchlearn") if self.threads > 1 else None
        chunks = self._chunks()
        try:
            for chunk in chunks:
                units, whole = _on_grid(chunk.weights, self.rows_seen, self.source.place)
                job = _submit(pool, self._job, chunk, units)
                in_flight.append((self.rows_seen, len(chunk.rows), whole, job))
                self.rows_seen += len(chunk.rows)
                while len(in_flight) > 2 * self.threads or (in_flight and in_flight[0][3].done()):
                    self._collect(*in_flight.popleft())
            while in_flight:
                self._collect(*in_flight.popleft())
        except KeyboardInterrupt:
            self._save()
            raise
        finally:
            # on any error, Ctrl-C included: drop what has not started, wait the milliseconds of what has
            if pool:
                pool.shutdown(wait=True, cancel_futures=True)
            chunks.close()
        self._save()
        return self.total()

    def total(self) -> Sketch | SketchTable | None:
        """The sketch of the rows that are summed by now."""
        total = Sketch.from_row_sums(self.features, self.plain)
        if self.fractional:
            total = total + Sketch.from_row_sums(self.features, self.fractional, WEIGHT_BITS)
        return self._before + total if isinstance(self._before, Sketch) else total

    def _save(self) -> None:
        # rows are collected in their order: what is summed is always a beginning of the source
        if self.checkpoint and self.rows_done > self.checkpoint.rows:
            total = self.total()
            assert total is not None
            self.checkpoint.save(self.rows_done, total)

    def _job(self, chunk: Batch, units: npt.NDArray[np.int64] | None) -> _Summed:
        part = self._sum(chunk, units)
        bad = None if self.skip else part.first_invalid
        return _Summed(part, None if bad is None else self._fault(chunk.rows[bad]))

    def _fault(self, row: npt.NDArray[np.floating]) -> str:
        """What is wrong with a row that has no features, in words."""
        finite = np.isfinite(row)
        number = int(np.argmin(finite) if not finite.all() else np.argmax(np.abs(row)))
        where = self.source.column(number, len(row))
        if finite.all():
            return f"lies too far out (the largest value is {row[number]:.6g} in {where})"
        if np.isnan(row[number]):
            return f"holds NaN or a null in {where}"
        large = " (or a number too large for float32)" if row.dtype == np.float32 else ""
        return f"holds {'' if row[number] > 0 else 'minus '}infinity{large} in {where}"

    def _sum(self, chunk: Batch, units: npt.NDArray[np.int64] | None) -> Any:
        return self.features.sum_rows(chunk.rows, units, self.skip)

    def _add(self, part: Any, whole: bool) -> None:
        sums = self.plain if whole else self.fractional
        sums[:] = [combined(self.features, sums[0], part)] if sums else [part]

    def _collect(self, first: int, rows: int, whole: bool, job: Future[_Summed]) -> None:
        part, fault = job.result()
        if fault is not None:
            row = first + part.first_invalid
            raise ValueError(
                f"row {row} (counting from 0{self.source.place(row)}) {fault}; "
                "clean the data or use on_invalid='skip' to leave such rows out and count them"
            )
        self._add(part, whole)
        self.rows_done += rows
        if self.checkpoint and self.checkpoint.due():
            self._save()
        self._unreleased += rows * self.features.dim * 8
        if self.source.release and self._unreleased > _RELEASE_BYTES:
            self.source.release()
            self._unreleased = 0
        self.report(self.rows_done, self.source.length)

    def _chunks(self) -> Generator[Batch, None, None]:
        size = self._chunk_rows()
        if self.source.in_memory and self.source.length:
            # leave no thread idle on small data
            share = -(-self.source.length // (self.shares * self.threads))
            size = min(size, max(self.features.fewest_rows, share))
        batches = self.source.stream(size, self._start)
        if not self.source.in_memory:
            batches = _read_ahead(batches)
        yield from _rechunk(batches, size, self.features.dim)

    def _chunk_rows(self) -> int:
        return chunk_rows(self.features)


class GroupedPass(_Pass):
    """A pass that keeps one sum per group.

    The rows of a chunk are sorted by group and every run of equal groups is summed on its own; chunks are larger
    than in a plain pass, so that runs are long even if there are many groups.
    """

    shares = 2

    def __init__(
        self,
        source: Source,
        features: FeatureMap,
        threads: int,
        report: Report,
        skip: bool,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__(source, features, threads, report, skip, checkpoint)
        self._sums: dict[tuple[bool, int], GroupSums] = {}
        self._space = threading.local()

    def total(self) -> SketchTable | None:
        """One sketch per group of the rows that are summed by now; None if there are none."""
        assert self.source.labels is not None
        # groups that an earlier run knew and this one did not meet yet stay as they are
        found: dict[Any, Sketch] = dict(self._before) if isinstance(self._before, SketchTable) else {}
        for (whole, number), sums in self._sums.items():
            s = Sketch.from_row_sums(self.features, [sums.value()], 0 if whole else WEIGHT_BITS)
            label = self.source.labels.values[number]
            found[label] = found[label] + s if label in found else s
        return SketchTable(found) if found else None

    def _chunk_rows(self) -> int:
        return _GROUPED_CHUNKS * chunk_rows(self.features)

    def _gathered(self, rows: npt.NDArray[Any], order: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Rows in another order, in memory that each thread uses again: fresh pages cost more than the copy."""
        space = getattr(self._space, "rows", None)
        if space is None or len(space) < len(order) or space.dtype != rows.dtype:
            space = self._space.rows = np.empty((len(order), rows.shape[1]), rows.dtype)
        return np.take(rows, order, axis=0, out=space[: len(order)], mode="clip")

    def _sum(self, chunk: Batch, units: npt.NDArray[np.int64] | None) -> Any:
        assert chunk.groups is not None
        small = chunk.groups.max(initial=0) < 2**16  # sorted by radix, ten times faster
        order = np.argsort(chunk.groups.astype(np.uint16) if small else chunk.groups, kind="stable")
        groups = chunk.groups[order]
        rows = self._gathered(chunk.rows, order)
        weights = None if units is None else units[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1, append=-1)).astype(np.int64)
        parts = self.features.sum_runs(rows, starts, weights, self.skip)
        invalid = [
            order[a + p.first_invalid] for a, p in zip(starts[:-1], parts, strict=True) if p.first_invalid is not None
        ]
        return _Runs(groups[starts[:-1]].tolist(), parts, int(min(invalid)) if invalid else None)

    def _add(self, part: Any, whole: bool) -> None:
        for number, sums in zip(part.groups, part.sums, strict=True):
            if (whole, number) in self._sums:
                self._sums[whole, number].add(sums)
            else:
                self._sums[whole, number] = GroupSums(self.features, sums)
        size = len(self._sums) * 8 * int(np.prod(self.features.sums_shape))
        if size > _GROUPED_BYTES:
            raise ValueError(
                f"group_by gives more than {len(self._sums) - 1} groups: their sketches need more than "
                f"{_GROUPED_BYTES >> 30} GB; group by something coarser, or use fewer features"
            )


class _Summed(NamedTuple):
    """Sums of a chunk, and what is wrong with its first invalid row if that is an error."""

    part: Any
    fault: str | None


class _Runs(NamedTuple):
    """Sums of the runs of a chunk, and its first invalid row."""

    groups: list[int]
    sums: list[RowSums]
    first_invalid: int | None


class GroupSums:
    """Sums of one group, added to in place."""

    def __init__(self, features: FeatureMap, first: RowSums) -> None:
        self._features, self._first, self._sums = features, first, np.array(first.sums)
        self._weight, self._skipped, self._rows = first.weight, first.skipped, first.rows
        self._lower, self._upper = first.lower.copy(), first.upper.copy()

    def add(self, part: RowSums) -> None:
        self._sums = self._features.add_sums(self._sums, part.sums, self._sums)
        self._weight += part.weight
        self._skipped += part.skipped
        self._rows += part.rows
        np.minimum(self._lower, part.lower, out=self._lower)
        np.maximum(self._upper, part.upper, out=self._upper)

    def value(self) -> RowSums:
        return replace(
            self._first, sums=self._sums, rows=self._rows, weight=self._weight, lower=self._lower, upper=self._upper,
            skipped=self._skipped, first_invalid=None,
        )  # fmt: skip


def _submit(
    pool: ThreadPoolExecutor | None,
    function: Callable[[Batch, npt.NDArray[np.int64] | None], _Summed],
    chunk: Batch,
    units: npt.NDArray[np.int64] | None,
) -> Future[_Summed]:
    """Sum the rows in the pool, or here and now where there is none."""
    if pool:
        return pool.submit(function, chunk, units)
    done: Future[_Summed] = Future()
    done.set_result(function(chunk, units))
    return done


def _rechunk(batches: Iterator[Batch], size: int, dim: int) -> Iterator[Batch]:
    """Cut large batches, join small ones."""
    waiting: list[Batch] = []
    rows = 0
    try:
        for number, batch in enumerate(batches):
            if batch.rows.shape[1] != dim:
                raise ValueError(
                    f"the data has {batch.rows.shape[1]} columns"
                    + (f" in batch {number}" if number else "")
                    + f", the feature map was drawn for {dim}"
                )
            if waiting and (
                batch.rows.dtype != waiting[0].rows.dtype or (batch.weights is None) != (waiting[0].weights is None)
            ):
                yield _joined(waiting)
                waiting, rows = [], 0
            if not waiting and len(batch.rows) >= size // 2:
                for i in range(0, len(batch.rows), size):
                    yield batch.cut(i, i + size)
            elif len(batch.rows):
                waiting.append(batch)
                rows += len(batch.rows)
                if rows >= size:
                    yield _joined(waiting)
                    waiting, rows = [], 0
        if waiting:
            yield _joined(waiting)
    finally:
        close = getattr(batches, "close", None)
        if close:
            close()


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    rows = np.concatenate([b.rows for b in batches])
    weights = [b.weights for b in batches if b.weights is not None]
    groups = [b.groups for b in batches if b.groups is not None]
    return Batch(rows, np.concatenate(weights) if weights else None, np.concatenate(groups) if groups else None)


def combined(features: FeatureMap, a: RowSums, b: RowSums) -> RowSums:
    return RowSums(
        sums=features.add_sums(a.sums, b.sums, a.sums if a.sums.flags.writeable else None),
        rows=a.rows + b.rows,
        weight=a.weight + b.weight,
        lower=np.minimum(a.lower, b.lower),
        upper=np.maximum(a.upper, b.upper),
        skipped=a.skipped + b.skipped,
        first_invalid=None,
    )


def _on_grid(
    weights: npt.NDArray[np.float64] | None, first: int, place: Callable[[int], str]
) -> tuple[npt.NDArray[np.int64] | None, bool]:
    """Weights as integers, and whether they are in units of 1 (else of 2**-WEIGHT_BITS)."""
    if weights is None:
        return None, True
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"the weight of row {first + i} is {weights[i]}{place(first + i)}: weights must be finite and not negative"
        )
    if weights.max(initial=0.0) >= 2.0**40:
        raise OverflowError(
            f"the weight {weights.max():.3g} is too large for exact sums (limit 2**40): scale the weights"
        )
    units = np.rint(weights)
    if np.array_equal(units, weights):
        return units.astype(np.int64), True
    units = np.rint(weights * 2.0**WEIGHT_BITS)
    lost = (units == 0) & (weights > 0)
    if lost.any():
        i = int(np.argmax(lost))
        raise ValueError(
            f"the weight of row {first + i} is {weights[i]:.3g}{place(first + i)}, below the grid of "
            f"2**-{WEIGHT_BITS}: scale all weights up"
        )
    return units.astype(np.int64), False


def _read_ahead(batches: Iterator[Batch], depth: int = 2) -> Iterator[Batch]:
    """Read the next batches in a thread of their own while these are computed."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: Batch | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for batch in batches:
                if not put(batch):
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=read, name="sketchlearn-reader", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join(timeout=5.0)
