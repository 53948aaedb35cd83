"""From batches of any size to chunks of a fixed number of rows, read ahead of their use."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from sketchlearn.arrays import Ints
from sketchlearn.features.base import FeatureMap
from sketchlearn.sources.base import Batch

_CHUNK_WORK = 1e9  # multiply-adds per chunk: some tens of milliseconds
_CHUNK_BYTES = 2**23


def chunk_rows(features: FeatureMap) -> int:
    """Rows per chunk: enough work to hide the overhead, little enough to share out."""
    by_work = _CHUNK_WORK / features.row_cost
    by_bytes = _CHUNK_BYTES / (8 * features.inputs)
    return max(features.fewest_rows, 240 * int(min(by_work, by_bytes) / 240))


class Numbering:
    """Groups of a whole pass, numbered in the order of their first appearance."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._last: tuple[tuple[Any, ...], Ints] | None = None

    def numbered(self, batch: Batch) -> Batch:
        """The batch with numbers of the pass as groups, and without labels."""
        if batch.groups is None or batch.labels is None:
            raise ValueError("the data has no groups in some of its batches")
        if self._last is None or self._last[0] is not batch.labels:
            self._last = batch.labels, np.fromiter((self._number(v) for v in batch.labels), np.int64)
        return batch._replace(groups=self._last[1][batch.groups], labels=None)

    def _number(self, label: Any) -> int:
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self.values)
            self.values.append(label)
        return found


def rechunk(batches: Iterator[Batch], size: int, dim: int) -> Iterator[Batch]:
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


def read_ahead(batches: Iterator[Batch], depth: int = 2) -> Iterator[Batch]:
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
