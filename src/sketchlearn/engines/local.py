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
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.engines.progress import Report, reporting
from sketchlearn.features.base import FeatureMap
from sketchlearn.kernels.fourier import RowSums
from sketchlearn.sketch.value import WEIGHT_BITS, Sketch
from sketchlearn.sources.base import Batch, Source, open_source

_CHUNK_WORK = 1e9  # multiply-adds per chunk: some tens of milliseconds
_CHUNK_BYTES = 2**23
_RELEASE_BYTES = 2**25  # memory-mapped bytes read between two releases


def sketch(
    data: Any,
    features: FeatureMap,
    *,
    sample_weight: npt.ArrayLike | None = None,
    workers: int | None = None,
    progress: bool | Report | None = None,
    on_invalid: str = "raise",
) -> Sketch:
    """Sketch the rows of `data` in one pass.

    Parameters
    ----------
    data : array, memory map, or iterable of batches
        Rows and columns.  Batches may have any sizes, and be ``(rows, weights)`` pairs; generators of
        unknown length are fine.  Memory-mapped arrays are read in blocks.
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
        that their features would be meaningless).  Skipped rows are counted in the sketch.

    Returns
    -------
    Sketch

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
    source = open_source(data, sample_weight)
    threads = workers or available_cores()
    with reporting(progress, source.length, "sketching") as report:
        parts = _Pass(source, features, threads, report, on_invalid == "skip")
        result = parts.run()
    if result.weight == 0 and result.skipped == 0 and parts.rows_seen == 0:
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

    def __init__(self, source: Source, features: FeatureMap, threads: int, report: Report, skip: bool) -> None:
        self.source, self.features, self.threads = source, features, threads
        self.report, self.skip = report, skip
        self.rows_seen = self.rows_done = self._unreleased = 0
        self.plain: list[RowSums] = []
        self.fractional: list[RowSums] = []

    def run(self) -> Sketch:
        in_flight: deque[tuple[int, int, bool, Future[RowSums]]] = deque()
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="sketchlearn") if self.threads > 1 else None
        chunks = self._chunks()
        try:
            for rows, weights in chunks:
                units, whole = _on_grid(weights, self.rows_seen)
                job = _submit(pool, self.features, rows, units, self.skip)
                in_flight.append((self.rows_seen, len(rows), whole, job))
                self.rows_seen += len(rows)
                while len(in_flight) > 2 * self.threads or (in_flight and in_flight[0][3].done()):
                    self._collect(*in_flight.popleft())
            while in_flight:
                self._collect(*in_flight.popleft())
        finally:
            # on any error, Ctrl-C included: drop what has not started, wait the milliseconds of what has
            if pool:
                pool.shutdown(wait=True, cancel_futures=True)
            chunks.close()
        total = Sketch.from_row_sums(self.features, self.plain)
        if self.fractional:
            total = total + Sketch.from_row_sums(self.features, self.fractional, WEIGHT_BITS)
        return total

    def _collect(self, first: int, rows: int, whole: bool, job: Future[RowSums]) -> None:
        part = job.result()
        if part.first_invalid is not None and not self.skip:
            row = first + part.first_invalid
            raise ValueError(
                f"row {row} (counting from 0) holds NaN or infinity, or lies too far out; clean the data or use "
                "on_invalid='skip' to leave such rows out and count them"
            )
        sums = self.plain if whole else self.fractional
        sums[:] = [_combined(self.features, sums[0], part)] if sums else [part]
        self.rows_done += rows
        self._unreleased += rows * self.features.dim * 8
        if self.source.release and self._unreleased > _RELEASE_BYTES:
            self.source.release()
            self._unreleased = 0
        self.report(self.rows_done, self.source.length)

    def _chunks(self) -> Generator[Batch, None, None]:
        size = chunk_rows(self.features)
        if self.source.in_memory and self.source.length:
            # leave no thread idle on small data
            share = -(-self.source.length // (4 * self.threads))
            size = min(size, max(self.features.fewest_rows, share))
        batches = self.source.batches(size)
        if not self.source.in_memory:
            batches = _read_ahead(batches)
        yield from _rechunk(batches, size, self.features.dim)


def _submit(
    pool: ThreadPoolExecutor | None,
    features: FeatureMap,
    rows: npt.NDArray[np.floating],
    units: npt.NDArray[np.int64] | None,
    skip: bool,
) -> Future[RowSums]:
    """Sum the rows in the pool, or here and now where there is none."""
    if pool:
        return pool.submit(features.sum_rows, rows, units, skip)
    done: Future[RowSums] = Future()
    done.set_result(features.sum_rows(rows, units, skip))
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
                    w = None if batch.weights is None else batch.weights[i : i + size]
                    yield Batch(batch.rows[i : i + size], w)
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
    return Batch(rows, np.concatenate(weights) if weights else None)


def _combined(features: FeatureMap, a: RowSums, b: RowSums) -> RowSums:
    return RowSums(
        sums=features.add_sums(a.sums, b.sums, a.sums if a.sums.flags.writeable else None),
        rows=a.rows + b.rows,
        weight=a.weight + b.weight,
        lower=np.minimum(a.lower, b.lower),
        upper=np.maximum(a.upper, b.upper),
        skipped=a.skipped + b.skipped,
        first_invalid=None,
    )


def _on_grid(weights: npt.NDArray[np.float64] | None, first: int) -> tuple[npt.NDArray[np.int64] | None, bool]:
    """Weights as integers, and whether they are in units of 1 (else of 2**-WEIGHT_BITS)."""
    if weights is None:
        return None, True
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"the weight of row {first + i} is {weights[i]}: weights must be finite and not negative")
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
            f"the weight of row {first + i} is {weights[i]:.3g}, below the grid of 2**-{WEIGHT_BITS}: "
            "scale all weights up"
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
