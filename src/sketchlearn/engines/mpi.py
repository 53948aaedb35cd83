"""MPI: every rank sums its share of the parts, and all of them get the sum.

All ranks call :func:`sketchlearn.sketch` with the same arguments, as usual for MPI.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sketchlearn.engines.base import Engine, Job, register_engine
from sketchlearn.engines.partial import Outcome, Task, count_rows, merged, parts_from, placed_fault, summed
from sketchlearn.engines.threads import Pass
from sketchlearn.optional import optional
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import library_of, placed


def _recognised(engine: Any) -> Engine | None:
    return MpiEngine(engine) if library_of(engine) == "mpi4py" and hasattr(engine, "allreduce") else None


@register_engine("mpi", _recognised)
class MpiEngine(Engine):
    """Ranks of an MPI communicator.

    `communicator`: by default all ranks.
    """

    def __init__(self, communicator: Any = None) -> None:
        self._communicator = communicator

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum every so many-th part here, and add up."""
        world = optional("mpi4py.MPI", "mpi", "a pass with MPI").COMM_WORLD
        return _MpiPass(job, world if self._communicator is None else self._communicator).run()


class _MpiPass(Pass):
    def __init__(self, job: Job, communicator: Any) -> None:
        super().__init__(job, 1)
        self._communicator = communicator
        self._trail: list[tuple[int, str]] = []

    def place(self, row: int) -> str:
        return placed(self._trail, row, "where" in self.source.settings)

    def save(self) -> None:
        if self._communicator.Get_rank() == 0:
            super().save()

    def accumulate(self) -> None:
        if not self.source.parts:
            raise ValueError(
                "engine='mpi' reads files, of which every rank takes some; other rows can't be divided among ranks"
            )
        task = Task.of(self.job)
        parts = list(parts_from(self.source.parts, self._start, count_rows, self._trail))
        rank, ranks = self._communicator.Get_rank(), self._communicator.Get_size()
        mine = Outcome(np.empty(0, np.int64), np.empty(0, np.int64), {})
        for number in range(rank, len(parts), ranks):
            mine = merged(mine, summed(task, number, parts[number]))
            self.job.report(self._start + int(mine.rows.sum()), self.source.length)
        add: Callable[[Outcome, Outcome], Outcome] = merged
        total: Outcome = self._communicator.allreduce(mine, op=add)
        if total.fault is not None:
            rows = dict(zip(total.numbers.tolist(), total.rows.tolist(), strict=True))
            names = {number: part.name for number, part in enumerate(parts)}
            raise placed_fault(total.fault, rows, names, self._start, self._trail)
        for label, sums in total.sums.items():
            self.tally.at(label).merge(sums)
        count = int(total.rows.sum())
        self.rows_seen += count
        self.advance(count)
