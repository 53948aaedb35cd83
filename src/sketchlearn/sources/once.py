"""Streams that can be read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sketchlearn.sources.base import Batch


class Once:
    """A stream of batches that can be looked into before it is read, and read once."""

    def __init__(self, batches: Callable[[int], Iterator[Batch]]) -> None:
        self._open = batches
        self._stream: Iterator[Batch] | None = None
        self._seen: list[Batch] = []
        self._read = False

    def peek(self, size: int, rows: int) -> Iterator[Batch]:
        """Batches with at least so many rows in all; they stay in the stream."""
        self._check()
        if self._stream is None:
            self._stream = self._open(size)
        while sum(len(b.rows) for b in self._seen) < rows and (batch := next(self._stream, None)) is not None:
            self._seen.append(batch)
        return iter(self._seen)

    def batches(self, size: int) -> Iterator[Batch]:
        """All batches, those that were looked at first."""
        self._check()
        self._read = True
        seen, self._seen = self._seen, []
        return chain(seen, self._stream or self._open(size))

    def _check(self) -> None:
        if self._read:
            raise ValueError("this stream can be read only once, and it was read already: open it again")
