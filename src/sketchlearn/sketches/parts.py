"""The record of what went into a sketch and came out again: rows can't be told from sums, parts can.

A part is known by a few letters made from its sums: the same rows have the same letters, however they were read,
batched or moved.  Every sketch is a part; the record of a sum lists those of its terms.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sketchlearn.sketches.value import Sketch

LIMIT = 1024
"""Parts that a record can hold; those that went in and out again are forgotten first."""

_ENTRY = re.compile(r"([0-9a-f]{16})(?:\+([0-9]{1,9})-([0-9]{1,9}))?")


@dataclass(frozen=True)
class Parts:
    """How often each part went in and came out.

    `times`: from the mark of a part (:func:`mark`) to (times added, times taken out). `forgotten`: there were more
    parts than a record can hold.
    """

    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    forgotten: bool = False

    @classmethod
    def of(cls, sketch: Sketch) -> Parts:
        """The record of a sketch; of one that has none: it is one part."""
        if sketch.parts is not None:
            return sketch.parts
        return cls() if sketch.is_empty else cls({mark(sketch): (1, 0)})

    @classmethod
    def together(cls, records: Iterable[Parts]) -> Parts:
        """The record of a sum."""
        records = list(records)
        times: dict[str, tuple[int, int]] = {}
        for key in dict.fromkeys(key for record in records for key in record.times):
            pairs = [record.times.get(key, (0, 0)) for record in records]
            # what was taken out of one of them without being known, and is in another, is where it was
            debt, live = (sum(max(sign * (out - into), 0) for into, out in pairs) for sign in (1, -1))
            into, out = (sum(numbers) - min(debt, live) for numbers in zip(*pairs, strict=True))
            if into or out:
                times[key] = into, out
        return _bounded(times, any(record.forgotten for record in records))

    def knows(self, part: Sketch) -> bool | None:
        """True if the part is in, False if it was taken out before, None if that can't be told."""
        answers = {self._answer(key, n) for key, n in self._terms(part).items()}
        return False if False in answers else None if None in answers else True

    def without(self, part: Sketch) -> Parts:
        """The record after the part was taken out, whatever it said about it."""
        times = dict(self.times)
        for key, n in self._terms(part).items():
            into, out = times.get(key, (0, 0))
            times[key] = into, out + n
        return _bounded(times, self.forgotten)

    def undone(self, part: Sketch) -> Parts:
        """The record as it was before the part was added."""
        times = dict(self.times)
        for key, n in self._terms(part).items():
            into, out = times.pop(key, (0, 0))
            if (max(into - n, 0), out) != (0, 0):
                times[key] = max(into - n, 0), out
        return Parts(times, self.forgotten)

    def _terms(self, part: Sketch) -> dict[str, int]:
        """The parts that this record may know a sketch by: itself, or its own parts."""
        if part.is_empty:
            return {}
        whole, own = mark(part), part.parts
        if whole in self.times or own is None or own.forgotten or any(out for _, out in own.times.values()):
            return {whole: 1}
        return {key: into for key, (into, _) in own.times.items()}

    def _answer(self, key: str, n: int) -> bool | None:
        into, out = self.times.get(key, (0, 0))
        if out + n <= into:
            return True
        return False if out else None  # what never came in as it is may be some rows of another part

    # -- travelling --------------------------------------------------------------------------

    def to_json(self, sketch: Sketch) -> dict[str, Any]:
        """As values of JSON, with the mark of the sketch that it is about."""
        entries = [key if pair == (1, 0) else f"{key}+{pair[0]}-{pair[1]}" for key, pair in self.times.items()]
        return {"of": mark(sketch), "forgotten": self.forgotten, "parts": entries}

    @classmethod
    def from_json(cls, value: Any, sketch: Sketch) -> Parts | None:
        """Inverse of :meth:`to_json`; None if the sketch was changed by a program that keeps no record."""
        if not isinstance(value, dict) or set(value) != {"of", "forgotten", "parts"}:
            raise ValueError("not a record of parts")
        entries = value["parts"]
        if not isinstance(entries, list) or len(entries) > LIMIT or not isinstance(value["forgotten"], bool):
            raise ValueError("not a record of parts")
        times: dict[str, tuple[int, int]] = {}
        for entry in entries:
            found = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
            if found is None or found[1] in times:
                raise ValueError(f"{entry!r} is no entry of a record of parts")
            times[found[1]] = (1, 0) if found[2] is None else (int(found[2]), int(found[3]))
        return cls(times, value["forgotten"]) if value["of"] == mark(sketch) else None


def mark(sketch: Sketch) -> str:
    """A few letters that tell the rows of one sketch from those of another with the same map."""
    h = hashlib.blake2b(digest_size=8)
    h.update(f"{sketch.weight} {sketch.weight_bits} {sketch.skipped}".encode())
    h.update(sketch.sums.astype(sketch.sums.dtype.newbyteorder("<"), copy=False).tobytes())
    return h.hexdigest()


def _bounded(times: dict[str, tuple[int, int]], forgotten: bool) -> Parts:
    excess = len(times) - LIMIT
    if excess > 0:
        gone = [key for key, (into, out) in times.items() if into == out]
        for key in [*gone, *(key for key in times if key not in set(gone))][:excess]:
            del times[key]
    return Parts(times, forgotten or excess > 0)
