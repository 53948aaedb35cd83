"""Measure the rows that are missing, cell by cell, so that a stopped run goes on where it was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from experiments.registry import Cell, Experiment, Setting, Values, catalogue
from experiments.rows import Rows, key_of, results_path, this_run

Work = tuple[Setting, int, tuple[str, ...]]
SAVE_S = 5.0  # seconds of measurements that a stop may lose


def missing(experiment: Experiment, rows: Rows, full: bool, only: tuple[str, ...], seeds: int | None) -> list[Work]:
    """What is to be measured, first seeds first, so that an early stop leaves all cells with few data sets.

    Rows of the methods named in `only` are measured again unless this revision has measured them; "default" stands for
    all that depend on the library's default decoder.
    """
    revision = this_run()["revision"]
    cells: list[Cell] = list(experiment.cells(full))
    work: list[Work] = []
    for seed in range(max(cell.seeds for cell in cells) if seeds is None else seeds):
        for cell in cells:
            if seed >= cell.seeds:
                continue
            names = []
            for method in experiment.methods(cell.setting):
                measured = rows.revision(key_of(cell.setting, seed, method))
                again = method in only or ("default" in only and experiment.own(cell.setting, method))
                if (not only and measured is None) or (again and measured != revision):
                    names.append(method)
            if names:
                work.append((cell.setting, seed, tuple(names)))
    return work


def measured(name: str, work: Work) -> tuple[Work, list[tuple[str, Values]]]:
    """All methods of one cell and seed, in this process."""
    setting, seed, methods = work
    return work, list(catalogue()[name].measure(setting, seed, methods))


def run(
    experiment: Experiment,
    *,
    full: bool = False,
    only: tuple[str, ...] = (),
    seeds: int | None = None,
    jobs: int = 1,
    minutes: float | None = None,
) -> int:
    """Measure what is missing; returns how many cells are left.

    A full version takes over the rows of the quick one in the cells that both have.
    """
    rows = Rows.read(results_path(experiment, full), experiment.recipe)
    wanted = {
        key_of(cell.setting, seed, method)
        for cell in experiment.cells(full)
        for seed in range(cell.seeds)
        for method in experiment.methods(cell.setting)
    }
    if full:
        quick = Rows.read(results_path(experiment, False), experiment.recipe)
        rows.take(quick, wanted, this_run()["revision"])
    work = missing(experiment, rows, full, only, seeds)
    rows.rows = {key: row for key, row in rows.rows.items() if key in wanted}
    about = this_run()
    stop = None if minutes is None else time.monotonic() + 60 * minutes
    saved, done = time.monotonic(), 0
    with _progress(experiment.name, len(work)) as advance:
        try:
            for (setting, seed, _), results in _results(experiment.name, work, jobs):
                for method, values in results:
                    rows.add(setting, seed, method, values, about)
                done += 1
                advance(1)
                if time.monotonic() > saved + SAVE_S:
                    rows.write()
                    saved = time.monotonic()
                if stop is not None and time.monotonic() > stop:
                    break
        finally:
            if done or full:
                rows.write()
    return len(work) - done


def _results(name: str, work: list[Work], jobs: int) -> Iterator[tuple[Work, list[tuple[str, Values]]]]:
    if jobs <= 1:
        for item in work:
            yield measured(name, item)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(measured, name, item) for item in work]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


class _Progress:
    """A bar on a terminal, nothing elsewhere."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.bar = name, total, None

    def __enter__(self) -> Callable[[int], None]:
        if not sys.stderr.isatty() or not self.total:
            return lambda count: None
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self.bar = Progress(*columns, transient=True)
        self.bar.start()
        task = self.bar.add_task(self.name, total=self.total)
        return lambda count: self.bar.advance(task, count)

    def __exit__(self, *exception: Any) -> None:
        if self.bar is not None:
            self.bar.stop()


_progress = _Progress
