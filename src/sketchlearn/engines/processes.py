"""An engine of several processes, for sources whose reading holds the interpreter lock.

Parts of a source (files, groups of rows) are opened and summed where they are needed: only their names go to the
processes and only sums come back.  Sources that can't be divided are read here and their rows sent.  Either way the
sums are added up in the order of the source, and the bytes are those of any other engine.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any

from sketchlearn.arrays import RowError
from sketchlearn.engines.base import Engine, Job, register_engine
from sketchlearn.engines.partial import Outcome, Task, summed
from sketchlearn.engines.threads import ChunkSummer, Pass, Sums
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Batch, Part, placed
from sketchlearn.threads import available_cores


@register_engine("processes")
class ProcessEngine(Engine):
    """Processes of this machine.

    On Linux they are forked from a process that has everything imported and does nothing else: the first pass of a
    program waits a second or two for it, later ones hardly at all.  Elsewhere they start afresh, each time.  A script
    that uses this engine needs the usual ``if __name__ == "__main__":``.
    """

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum parts, or chunks, in processes, in order."""
        workers = job.workers or available_cores()
        divided = len(job.source.parts) > 1 and not (job.checkpoint and job.checkpoint.rows)
        kind = _PartsPass if divided and _pickles(job.source.parts) else _ChunksPass
        try:
            return kind(job, workers).run()
        except BrokenProcessPool:
            raise RuntimeError(
                "a worker process died (was there enough memory?); use fewer workers, or engine='threads'"
            ) from None


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # whatever it is, it can't be sent
        return False
    return True


class _Worker:
    """What a process knows for all its tasks."""

    task: Task
    stop: Any
    sum: ChunkSummer


def _begin(task: Task, stop: Any, environment: dict[str, str]) -> None:
    if dict(os.environ) != environment:  # forked from a process that may be older than, say, credentials
        os.environ.clear()
        os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was asked to stop tells the others
    _Worker.task, _Worker.stop = task, stop
    _Worker.sum = ChunkSummer(task.features, task.skip_invalid, task.source)


def _sum_chunk(chunk: Batch) -> Sums:
    return [] if _Worker.stop.is_set() else _Worker.sum(chunk)


def _sum_part(number: int, part: Part) -> Outcome:
    return summed(_Worker.task, number, part, _stopped)


def _stopped(done: int, total: int | None) -> None:
    if _Worker.stop.is_set():
        raise InterruptedError("the pass was stopped")


def _context() -> BaseContext:
    """How processes are started; never by a fork of this one, which may hang where it has threads."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver  # isn't there on every system

    context = multiprocessing.get_context("forkserver")
    if getattr(forkserver._forkserver, "_preload_modules", None) == ["__main__"]:  # nobody has chosen anything else
        context.set_forkserver_preload(["sketchlearn.engines.ready"])
    return context


class _ChunksPass(Pass):
    """Rows are read here and summed in other processes."""

    def __init__(self, job: Job, workers: int) -> None:
        super().__init__(job, workers)
        self._context = _context()
        self._stop = self._context.Event()

    def accumulate(self) -> None:
        try:
            super().accumulate()
        except BaseException:
            self._stop.set()
            raise

    def executor(self) -> Executor:
        return ProcessPoolExecutor(
            self.workers, self._context, _begin, (Task.of(self.job), self._stop, dict(os.environ))
        )

    def submit(self, pool: Executor | None, chunk: Batch) -> Future[Sums]:
        assert pool is not None
        return pool.submit(_sum_chunk, chunk)


class _PartsPass(_ChunksPass):
    """Parts are read and summed in other processes."""

    def __init__(self, job: Job, workers: int) -> None:
        super().__init__(job, workers)
        self._trail: list[tuple[int, str]] = []

    def place(self, row: int) -> str:
        return placed(self._trail, row, "where" in self.source.settings)

    def accumulate(self) -> None:
        waiting: deque[tuple[Part, Future[Outcome]]] = deque()
        pool = self.executor()
        try:
            for number, part in enumerate(self.source.parts):
                waiting.append((part, pool.submit(_sum_part, number, part)))
                while len(waiting) > 2 * self.workers:
                    self._take(*waiting.popleft())
            while waiting:
                self._take(*waiting.popleft())
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _take(self, part: Part, job: Future[Outcome]) -> None:
        self._trail.append((self.rows_done, part.name))
        outcome = job.result()
        if outcome.fault is not None:
            fault = outcome.fault[1]
            raise fault.after(self.rows_done) if isinstance(fault, RowError) else fault
        for label, sums in outcome.sums.items():
            self.tally.at(label).merge(sums)
        rows = int(outcome.rows.sum())
        self.rows_seen += rows
        self.advance(rows)
