"""Progress of long passes: a bar in a terminal, silence elsewhere, or whatever the caller passes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, "int | None"], None]
"""Called with (rows done, rows in all or None)."""

_PATIENCE = 0.5  # seconds before a bar is worth showing


@contextmanager
def reporting(progress: bool | Report | None, total: int | None, label: str, unit: str = "rows") -> Iterator[Report]:
    """A function to report to; `progress` is None (automatic), a bool, or the function itself."""
    if callable(progress):
        yield progress
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        try:
            bar = _RichBar(total, label, unit)
        except ImportError:
            if progress:
                raise ImportError("progress=True needs the package rich: pip install rich") from None
            yield silent
            return
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield silent


def silent(done: int, total: int | None) -> None:
    """Say nothing."""


class _RichBar:
    """A rich progress bar on stderr that appears only if the work takes a while."""

    def __init__(self, total: int | None, label: str, unit: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn(label),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total, rate="")
        self._start, self._shown, self._unit = time.monotonic(), False, unit
        self._first: int | None = None  # a resumed pass doesn't start at 0

    def __call__(self, done: int, total: int | None) -> None:
        self._first = done if self._first is None else self._first
        if not self._shown and time.monotonic() - self._start > _PATIENCE:
            self._bar.start()
            self._shown = True
        if self._shown:
            rate = (done - self._first) / max(time.monotonic() - self._start, 1e-9)
            self._bar.update(
                self._task, completed=done, total=total, rate=f"{rate:,.0f} {self._unit}/s" if rate >= 1 else ""
            )

    def close(self) -> None:
        if self._shown:
            self._bar.stop()
