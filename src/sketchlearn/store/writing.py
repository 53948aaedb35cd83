"""Cells on their way into a store: what is added as a whole, and the transactions that write it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sketchlearn.exceptions import InputError, Option
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sketches.parts import mark
from sketchlearn.sources import Source
from sketchlearn.store.backend import Session
from sketchlearn.store.cells import Cells, cells_of
from sketchlearn.store.dataset import Dataset
from sketchlearn.store.keys import Label, cell_label, cell_of

if TYPE_CHECKING:
    from sketchlearn.store.store import StoreBase

_COMMIT_BYTES = 2**28  # sums that wait in memory before they are written
_COMMIT_SECONDS = 10.0  # work that a killed process may lose


@dataclass(frozen=True)
class Unit:
    """Rows that go in together: a file, or all of what was given."""

    name: str
    identity: str | None
    source: Source


def units_of(source: Source, name: str | None) -> list[Unit]:
    """What is added as a whole: each file, or everything if there are no files or it has a name."""
    settings = {k: v for k, v in source.settings.items() if k != "group_by"}
    suffix = (
        ""
        if not settings
        else " " + hashlib.blake2b(repr(sorted(settings.items())).encode(), digest_size=8).hexdigest()
    )
    if name is not None:
        return [Unit(name, f"source {name}", source)]
    if not source.parts or any(part.identity is None for part in source.parts):
        return [Unit("", None, source)]
    files: dict[str, list[Any]] = {}
    for part in source.parts:
        files.setdefault(str(part.identity), []).append(part)
    return [
        Unit(
            identity.rsplit(" ", 2)[0] + suffix, identity + suffix,
            replace(
                Source.of_parts(parts, source.names, source.grouped), settings=source.settings, user=source.user,
                max_rows_per_user=source.max_rows_per_user, share=source.share,
            ),
        )
        for identity, parts in files.items()
    ]  # fmt: skip


def check_unchanged(units: list[Unit], known: Mapping[str, str], replace_: bool) -> None:
    """Refuse files that were added in another state."""
    names = set(known.values())
    for unit in units:
        if unit.identity is not None and unit.name in names and not replace_:
            raise InputError(
                f"{unit.name} was added before and has changed since; ",
                Option("replace", True),
                " replaces its old rows",
            )


def mark_of(table: Mapping[Any, Sketch]) -> str:
    """A few letters that the same cells with the same rows have again."""
    h = hashlib.blake2b(digest_size=16)
    for label in sorted(table):
        h.update(f"{label}\n{mark(table[label])}\n".encode())
    return f"rows {h.hexdigest()}"


def now() -> int:
    return time.time_ns() // 1000


def table_of(found: Sketch | SketchTable) -> Mapping[str, Sketch]:
    """Cells by label; the whole is one cell where there are neither times nor groups."""
    return {cell_label(None, ()): found} if isinstance(found, Sketch) else found


class Writer:
    """Cells on their way into a store: written in transactions of some files each."""

    def __init__(self, store: StoreBase, dataset: Dataset, replace_: bool, atomic: bool, chosen: bool = False) -> None:
        self.store, self.dataset, self.replace, self.atomic = store, dataset, replace_, atomic
        self._chosen = chosen  # by what is in the rows
        self.added: list[str] = []
        self.known: list[str] = []
        self.rows: int | float = 0
        self.cells = 0
        self._waiting: list[tuple[str, str, Cells, list[tuple[Label, ...]], int | float]] = []
        self._bytes, self._since = 0, time.monotonic()

    def add(self, unit: Unit, table: Mapping[Any, Sketch]) -> None:
        """Take the cells of a source; write when enough has come together."""
        identity = unit.identity or mark_of(table)
        keys = [cell_of(label) for label in table]
        sketches = list(table.values())
        starts = [start for start, _ in keys]
        every = self.dataset.every
        stops = starts if every is None else every.after(np.array(starts, np.int64)).tolist()
        cells = cells_of(sketches, starts, stops, [0] * len(keys), 0)
        rows = sum(s.count for s in sketches)
        self._waiting.append((identity, unit.name or identity, cells, [labels for _, labels in keys], rows))
        self._bytes += len(cells.sums.data)
        late = time.monotonic() - self._since > _COMMIT_SECONDS
        if not self.atomic and (self._bytes > _COMMIT_BYTES or late):
            self.flush()

    def flush(self) -> None:
        """Write what waits, in one transaction."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        added, known = [], []
        backend = self.store.backend
        with backend.session(write=True) as session:
            backend.prepare(session)
            if self._chosen:
                self.store._choose(session, self.dataset.id)
            numbers = self.store._label_numbers(session, self.dataset.id, (g for w in waiting for g in w[3]))
            for identity, name, cells, labels, rows in waiting:
                if self.replace:
                    _remove(session, self.dataset.id, name)
                found = session.rows(
                    "INSERT INTO sources VALUES (?, ?, ?, ?, FALSE, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
                    [session.number(), self.dataset.id, identity, name, len(cells), now()],
                )
                if not found:  # somebody added it meanwhile
                    known.append(name)
                    continue
                source = np.full(len(cells), found[0][0], np.int64)
                label = np.array([numbers[g] for g in labels], np.int64)
                session.append(self.dataset.id, cells.placed(source=source, label=label))
                added.append((name, len(cells), rows))
        self.added += [name for name, _, _ in added]
        self.known += known
        self.cells += sum(count for _, count, _ in added)
        self.rows += sum(rows for _, _, rows in added)
        self._bytes, self._since = 0, time.monotonic()


def _remove(session: Session, dataset: int, name: str) -> None:
    """Take out an earlier state of a source; what was rolled up with others can't be."""
    for number, merged in session.rows(
        "SELECT id, merged FROM sources WHERE dataset = ? AND name = ?", [dataset, name]
    ):
        if merged:
            raise ValueError(
                f"{name} was rolled up with other sources and can't be replaced: forget its old rows first"
            )
        session.rows("DELETE FROM cells WHERE dataset = ? AND source = ?", [dataset, number])
        session.rows("DELETE FROM sources WHERE id = ?", [number])
