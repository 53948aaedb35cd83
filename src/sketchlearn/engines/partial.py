"""Sums of the parts of a source, made anywhere, and how they are put together.

An :class:`Outcome` knows which parts it is about.  Outcomes are merged in any order and any shape of tree; a part that
would count twice is an error, and a part that is summed again after a crash gives the same sums again, so a pass is
exact whatever dies on the way.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sketchlearn.arrays import Ints, RowError
from sketchlearn.engines.base import Job
from sketchlearn.engines.progress import Report, silent
from sketchlearn.engines.threads import Pass
from sketchlearn.exceptions import MissingPackageError, SourceError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.accumulator import Accumulator
from sketchlearn.sources.base import Batch, Part, Source
from sketchlearn.sources.partitions import filled

_OURS = (ValueError, TypeError, SourceError, MissingPackageError)  # they would come again: no point in trying again


@dataclass(frozen=True)
class Task:
    """What all parts of a pass have in common; the feature map travels as its recipe."""

    features: FeatureMap
    skip_invalid: bool
    source: Source

    @classmethod
    def of(cls, job: Job) -> Task:
        """The task of a job, without its rows."""
        source = job.source
        bare = Source(_nothing, names=source.names, grouped=source.grouped, settings=dict(source.settings))
        return cls(job.features, job.skip_invalid, bare)

    def to_bytes(self) -> bytes:
        """For other processes, which keep it for all parts of a pass."""
        return pickle.dumps(self)

    @staticmethod
    def from_bytes(data: bytes) -> Task:
        """The task, the same value for the same bytes: its frequencies are drawn once."""
        return _unpickled(data)


@functools.lru_cache(maxsize=8)
def _unpickled(data: bytes) -> Task:
    task = pickle.loads(data)
    assert isinstance(task, Task)
    return task


def _nothing(size: int) -> Iterator[Batch]:
    return iter(())


class Outcome(NamedTuple):
    """What is known about some parts.

    `numbers`: numbers of the parts, in order. `rows`: how many rows each of them has; of one with a fault, those before
    it. `sums`: from labels of groups (None where there are no groups) to sums. `fault`: the first of the parts with an
    error, and the error, (int, Exception); there are no sums then.
    """

    numbers: Ints
    rows: Ints
    sums: dict[Any, Accumulator]
    fault: tuple[int, Exception] | None = None


class Status(NamedTuple):
    """An outcome without its sums: a few bytes."""

    numbers: Ints
    rows: Ints
    fault: tuple[int, Exception] | None


def status_of(outcome: Outcome) -> Status:
    """What the driver has to know about an outcome that stays where it is."""
    return Status(outcome.numbers, outcome.rows, outcome.fault)


def sum_part(task: bytes, number: int, part: Part) -> Outcome:
    """Open and sum one part, here."""
    return summed(Task.from_bytes(task), number, part)


def sum_piece(task: bytes, number: int, shell: bytes, rows: Any, weights: Any = None, groups: Any = None) -> Outcome:
    """Sum a piece of a collection, which the cluster has brought here; see :mod:`sketchlearn.sources.partitions`."""
    return sum_part(task, number, filled(shell, rows, weights, groups))


def summed(task: Task, number: int, part: Part, report: Report = silent) -> Outcome:
    """Sums of one part; errors that other tries would meet again are part of the outcome."""
    own = replace(task.source, batches=part.batches, parts=(part,), length=part.rows)
    here = Pass(Job(own, task.features, task.skip_invalid, 1, report), 1)
    fault = None
    try:
        here.accumulate()
    except _OURS as error:
        fault = number, error
    sums = {} if fault else dict(here.tally.items())
    return Outcome(np.array([number]), np.array([here.rows_done]), sums, fault)


def count_rows(part: Part) -> int:
    """Rows of a part that doesn't know its length."""
    return sum(len(batch.rows) for batch in part.batches(65536))


@dataclass(frozen=True)
class After:
    """Batches without their first rows."""

    batches: Callable[[int], Iterator[Batch]]
    start: int

    def __call__(self, size: int) -> Iterator[Batch]:
        position = 0
        for batch in self.batches(size):
            if position + len(batch.rows) > self.start:
                yield batch.cut(max(0, self.start - position))
            position += len(batch.rows)


@dataclass(frozen=True)
class Rows:
    """A batch that was read already."""

    batch: Batch

    def __call__(self, size: int) -> Iterator[Batch]:
        yield self.batch


def parts_from(
    parts: Iterable[Part], start: int, count: Callable[[Part], int], trail: list[tuple[int, str]]
) -> Iterator[Part]:
    """Parts from row `start` on, the first without the rows before it; those before go to the trail.

    `count` says how many rows a part has that doesn't know it.
    """
    position = 0
    for part in parts:
        if position < start:
            rows = count(part) if part.rows is None else part.rows
            trail.append((position, part.name))
            position += rows
            if position <= start:
                continue
            left = position - start
            part = part._replace(batches=After(part.batches, rows - left), rows=left)
        yield part


def placed_fault(
    fault: tuple[int, Exception], rows: Mapping[int, int], names: Mapping[int, str], start: int,
    trail: list[tuple[int, str]],
) -> Exception:  # fmt: skip
    """The error of a part, with the number of its row in the source; the trail leads there."""
    for number in sorted(rows):
        if number > fault[0]:
            break
        trail.append((start, names[number]))
        start += rows[number] if number < fault[0] else 0
    error = fault[1]
    return error.after(start) if isinstance(error, RowError) and error.row is not None else error


def merged(*outcomes: Outcome) -> Outcome:
    """One outcome of several; the order doesn't matter, and none of them changes."""
    numbers = np.concatenate([o.numbers for o in outcomes])
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    if (numbers[1:] == numbers[:-1]).any():
        raise RuntimeError("a part of the data would count twice")
    rows = np.concatenate([o.rows for o in outcomes])[order]
    fault = min((o.fault for o in outcomes if o.fault is not None), key=lambda f: f[0], default=None)
    sums: dict[Any, Accumulator] = {}
    for outcome in outcomes if fault is None else ():
        for label, part in outcome.sums.items():
            sums.setdefault(label, Accumulator(part.features)).merge(part)
    return Outcome(numbers, rows, sums, fault)
