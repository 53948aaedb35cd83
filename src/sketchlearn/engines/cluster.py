"""A pass on a cluster: parts are summed where a worker is free, and their sums merged in a tree where they are.

Only names of files go out; of the sums, only those of the whole come back.  What kind of cluster it is matters little:
see :class:`Cluster`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from typing import Any

from sketchlearn.engines.base import Job
from sketchlearn.engines.chunks import chunk_rows
from sketchlearn.engines.partial import (
    Outcome,
    Rows,
    Status,
    Task,
    count_rows,
    merged,
    parts_from,
    placed_fault,
    status_of,
    sum_part,
)
from sketchlearn.engines.threads import Pass
from sketchlearn.sources.base import Part, placed
from sketchlearn.sources.partitions import pieces_of

FAN = 16  # sums merged at a time
_AHEAD = 4  # parts in flight for each that can be summed at the same time


class Cluster(ABC):
    """Runs functions elsewhere.  Handles stand for results that are, or will be, somewhere."""

    @abstractmethod
    def width(self) -> int:
        """How many functions can run at the same time, now."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], *values: Any) -> Any:
        """Have a function run; handles among the values stand for what they will be."""

    @abstractmethod
    def finished(self, handles: Collection[Any]) -> list[Any]:
        """Those that are ready, at least one: waits for it."""

    @abstractmethod
    def fetch(self, handles: Collection[Any]) -> list[Any]:
        """The results, here."""

    @abstractmethod
    def cancel(self, handles: Collection[Any]) -> None:
        """Nobody wants these any more."""

    def start(self, task: bytes, number: int, part: Part) -> Any:
        """Have a part summed."""
        return self.submit(sum_part, task, number, part)


class Tree:
    """Merges sums as they come, in groups, so that none waits for long and none is merged often.

    `merge`: from handles to the handle of what they are merged to. `fan`: how many are merged at a time.

    Examples
    --------
    >>> tree = Tree(lambda *lists: sum(lists, []), fan=3)
    >>> for number in range(20):
    ...     tree.add([number])
    >>> tree.root() == list(range(20)), tree.depth
    (True, 3)
    """

    def __init__(self, merge: Callable[..., Any], fan: int = FAN) -> None:
        self._merge, self._fan = merge, fan
        self._levels: list[list[Any]] = []

    def add(self, handle: Any) -> None:
        """One more leaf."""
        for level in range(len(self._levels) + 1):
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(handle)
            if len(self._levels[level]) < self._fan:
                return
            handle = self._merge(*self._levels[level])
            self._levels[level] = []

    def root(self) -> Any:
        """The handle of everything; None if there were no leaves."""
        rest: list[Any] = []
        for level in self._levels:
            # the rest is younger than what is on this level
            rest = [*level, self._merge(*rest)] if len(rest) > 1 else [*level, *rest]
        return self._merge(*rest) if len(rest) > 1 else (rest[0] if rest else None)

    @property
    def depth(self) -> int:
        """Levels of merging, the last included."""
        return len(self._levels)

    def handles(self) -> list[Any]:
        """What waits to be merged."""
        return [handle for level in self._levels for handle in level]


class ClusterPass(Pass):
    """One pass on a cluster.

    `job`: what to do. `cluster`: who does it.
    """

    def __init__(self, job: Job, cluster: Cluster) -> None:
        super().__init__(job, job.workers or cluster.width())
        self._cluster = cluster
        self._task = Task.of(job).to_bytes()
        self._trail: list[tuple[int, str]] = []
        self._names: dict[int, str] = {}
        self._rows: dict[int, int] = {}
        self._fault: tuple[int, Exception] | None = None
        self._counted = self.rows_done

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        named = any(name for _, name in self._trail)
        return placed(self._trail, row, "where" in self.source.settings) if named else ""

    def accumulate(self) -> None:
        """Rounds: each ends with a checkpoint, the last with the last part."""
        pieces = enumerate(self._pieces())
        while self._round(pieces):
            self.save()

    def _pieces(self) -> Iterator[Part]:
        """The parts from the position of the checkpoint on; rows that can't be divided are read here."""
        made = pieces_of(self.source.batches)
        if made is not None:
            yield from made
            return
        if not self.source.parts:
            size = chunk_rows(self.features)
            for batch in self.source.stream(size):
                for i in range(0, len(batch.rows), size):
                    piece = batch.cut(i, i + size)
                    yield Part("", Rows(piece), len(piece.rows))
            return
        yield from parts_from(self.source.parts, self._start, self._count, self._trail)

    def _count(self, part: Part) -> int:
        rows: int = self._cluster.fetch([self._cluster.submit(count_rows, part)])[0]
        return rows

    def _round(self, pieces: Iterator[tuple[int, Part]]) -> bool:
        """Sum parts until a checkpoint is due; True if there may be more of them."""
        cluster, tree = self._cluster, Tree(self._merge)
        sums: dict[int, Any] = {}
        waiting: dict[Any, int] = {}
        more, submitted = True, 0
        try:
            while more or waiting:
                point = self.job.checkpoint
                while more and self._fault is None and len(waiting) < self._room():
                    if submitted and point is not None and point.due():
                        break
                    piece = next(pieces, None)
                    if piece is None:
                        more = False
                        break
                    number, part = piece
                    self._names[number] = part.name
                    sums[number] = cluster.start(self._task, number, part)
                    waiting[cluster.submit(status_of, sums[number])] = number
                    submitted += 1
                if not waiting:
                    break
                ready = cluster.finished(waiting)
                for handle, status in zip(ready, cluster.fetch(ready), strict=True):
                    tree.add(sums.pop(waiting.pop(handle)))
                    self._note(status)
                if self._fault is not None and not any(number < self._fault[0] for number in waiting.values()):
                    raise placed_fault(self._fault, self._rows, self._names, self._start, self._trail)
            root = tree.root()
            if root is not None:
                self._take(cluster.fetch([root])[0])
        except BaseException:
            cluster.cancel([*waiting, *sums.values(), *tree.handles()])
            raise
        return more

    def _room(self) -> int:
        return _AHEAD * (self.job.workers or self._cluster.width())

    def _merge(self, *handles: Any) -> Any:
        return self._cluster.submit(merged, *handles)

    def _note(self, status: Status) -> None:
        """A part is summed, or turned out to be faulty."""
        self._rows.update(zip(status.numbers.tolist(), status.rows.tolist(), strict=True))
        if status.fault is not None and (self._fault is None or status.fault[0] < self._fault[0]):
            self._fault = status.fault
        self._counted += int(status.rows.sum())
        self.job.report(self._counted, self.source.length)

    def _take(self, outcome: Outcome) -> None:
        for label, sums in outcome.sums.items():
            self.tally.at(label).merge(sums)
        self.rows_seen += int(outcome.rows.sum())
        self.rows_done = self.rows_seen
