"""Checkpoints of a pass: how many rows of which files are in the sketch, and the sketch.

A checkpoint is one file, replaced atomically: JSON (files, rows, settings), the bytes of the sketch (of a grouped
pass: of the table of sketches), and a checksum of both.  Sums are exact, so a pass that goes on from a checkpoint
ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from dataclasses import dataclass, field, replace
from glob import escape
from os import PathLike
from pathlib import Path
from typing import Any

from sketchlearn.exceptions import InputError, Option, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import write
from sketchlearn.limits import check, check_json
from sketchlearn.sketches import file
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Source

MAGIC = b"\x89SKPOINT"
_PREAMBLE = struct.Struct("<8sII")
_VERSION = 1
_ANEW = ("start over with ", Option("restart", True), ", or delete it")
_SHARE = 4  # a pass works at least so many times longer than it saves


@dataclass
class Checkpoint:
    """Position and sketch (or table of sketches) of one pass over one source."""

    path: Path
    settings: dict[str, str]
    every: float
    files: list[str] = field(default_factory=list)
    rows: int = 0
    sketch: Sketch | SketchTable | None = None
    result: str | None = None
    """What the pass was added up to, if it was (:func:`digest` of the output)."""
    _last: float = field(default_factory=time.monotonic)
    _cost: float = 0.0

    @classmethod
    def begin(
        cls,
        path: str | PathLike[str],
        source: Source,
        features: FeatureMap,
        settings: dict[str, Any],
        every: float,
        saved: Checkpoint | None = None,
    ) -> tuple[Checkpoint, Source]:
        """The checkpoint for a pass, with what an earlier run left, and the source in the order that run used.

        `saved` is what the file holds, if somebody has read it already.
        """
        parts = list(source.parts)
        if not parts or any(part.identity is None for part in parts):
            raise ValueError(
                "checkpoints need files, because their rows always come in the same order; write the result of a "
                "query or stream to files first"
            )
        every = float(every)
        if not every >= 0:
            raise ValueError(f"checkpoint_every must be a number of seconds, got {every}")
        point = cls(Path(path), {k: str(v) for k, v in settings.items()}, every)
        for stale in point.path.parent.glob(f".{escape(point.path.name)}.*.tmp"):
            stale.unlink(missing_ok=True)  # half-written by a run that was killed
        if not point.path.exists():
            point.files = list(dict.fromkeys(str(part.identity) for part in parts))
            return point, source
        saved = saved or read_checkpoint(point.path)
        if saved.settings != point.settings:
            odd = sorted(
                k for k in {*saved.settings, *point.settings} if saved.settings.get(k) != point.settings.get(k)
            )
            raise InputError(f"{path}: the checkpoint was made with another {', '.join(odd)}; ", *_ANEW)
        assert saved.sketch is not None
        if saved.sketch.features != features:
            raise InputError(
                f"{path}: the checkpoint was made with another feature map "
                f"({features.difference(saved.sketch.features)}); ",
                *_ANEW,
            )
        now = {str(part.identity) for part in parts}
        for mark in saved.files:
            if mark not in now:
                name = mark.rsplit(" ", 2)[0]
                raise InputError(f"{path}: {name} has changed or is missing since the checkpoint; ", *_ANEW)
        # the files of the earlier run first, in its order; files that came since after them
        order = {mark: i for i, mark in enumerate(saved.files)}
        parts.sort(key=lambda part: order.get(str(part.identity), len(order)))
        point.files = list(dict.fromkeys(str(part.identity) for part in parts))
        point.rows, point.sketch = saved.rows, saved.sketch
        same = len(parts) == 1 or parts == list(source.parts)
        if same:
            return point, source
        return point, replace(Source.of_parts(parts, source.names, source.grouped), settings=source.settings)

    def due(self) -> bool:
        """True if it is time to save; many groups take a while to write and are saved less often."""
        return time.monotonic() - self._last >= max(self.every, _SHARE * self._cost)

    def save(self, rows: int, sketch: Sketch | SketchTable) -> None:
        """Replace the file."""
        begin = time.monotonic()
        self.rows, self.sketch = rows, sketch
        header = {"version": _VERSION, "files": self.files, "rows": rows, "settings": self.settings}
        if self.result is not None:
            header["result"] = self.result
        text = json.dumps(header, sort_keys=True).encode()
        body = sketch.to_bytes()
        data = _PREAMBLE.pack(MAGIC, _VERSION, len(text)) + text + body
        write(self.path, data + hashlib.sha256(data).digest())
        self._last = time.monotonic()
        self._cost = self._last - begin


def digest(value: Sketch | SketchTable) -> str:
    """Tells sketches apart, in a few letters."""
    return hashlib.sha256(value.to_bytes()).hexdigest()[:16]


def read_checkpoint(path: str | PathLike[str]) -> Checkpoint:
    """The checkpoint in a file; ``SketchFileError`` if there is none."""
    check(2 * Path(path).stat().st_size, str(path))
    data = Path(path).read_bytes()
    damaged = SketchFileError(f"{path}: not a checkpoint, or a damaged one; ", *_ANEW)
    if len(data) < _PREAMBLE.size + 32 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise damaged
    magic, version, length = _PREAMBLE.unpack(data[: _PREAMBLE.size])
    if magic != MAGIC:
        raise damaged
    if version != _VERSION:
        raise SketchFileError(f"{path}: checkpoint version {version} is not known; ", *_ANEW)
    check_json(length, f"{path}: its header")
    try:
        header = json.loads(data[_PREAMBLE.size : _PREAMBLE.size + length])
        settings, marks, rows, result = (header.get(name) for name in ("settings", "files", "rows", "result"))
    except (ValueError, RecursionError, AttributeError):
        raise damaged from None
    texts = [*settings.items(), *((mark, mark) for mark in marks)] if _are(settings, marks) else [(None, None)]
    whole = isinstance(rows, int) and not isinstance(rows, bool) and rows >= 0
    if not whole or not all(isinstance(v, str) for pair in texts for v in pair) or not isinstance(result, str | None):
        raise damaged
    body = data[_PREAMBLE.size + length : -32]
    grouped = "group_by" in settings
    sketch = SketchTable.from_bytes(body, str(path)) if grouped else file.decode(body, str(path))
    return Checkpoint(Path(path), settings, 0.0, marks, rows, sketch, result)


def _are(settings: Any, marks: Any) -> bool:
    return isinstance(settings, dict) and isinstance(marks, list)
