"""The store: cells of sketches in a database, keyed by dataset, time bucket and group columns."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from sketchlearn import engines
from sketchlearn.engines.progress import Report
from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sketches.parts import mark
from sketchlearn.sources import Selection, Source, open_source
from sketchlearn.store.backend import Backend, Session
from sketchlearn.store.cells import Cells, cells_of
from sketchlearn.store.keys import Keys, Label, as_label, cell_label, cell_of, labels_of_arrays
from sketchlearn.store.periods import Period, moment

_COMMIT_BYTES = 2**28  # sums that wait in memory before they are written
_COMMIT_SECONDS = 10.0  # work that a killed process may lose
_PASSWORD = "postgresql://", "postgres://"


@dataclass(frozen=True)
class Dataset:
    """What a dataset of a store is.

    Attributes
    ----------
    id : int
        Its number in the store.
    name : str
        Its name.
    features : FeatureMap
        The map of all its cells.
    time : str or None
        Column with the time of the rows.
    every : Period or None
        Length of the time buckets that rows are put into.
    groups : tuple of str
        Group columns.
    """

    id: int
    name: str
    features: FeatureMap
    time: str | None
    every: Period | None
    groups: tuple[str, ...]

    @property
    def keys(self) -> Keys:
        """The column of cell labels."""
        return Keys(self.time, self.every, self.groups)


@dataclass(frozen=True)
class Ingested:
    """What became of an ingest.

    Attributes
    ----------
    added, known : tuple of str
        Names of the sources that were added, and of those that were there before.
    rows : int or float
        Rows that were added.
    cells : int
        Cells that were added.
    """

    added: tuple[str, ...]
    known: tuple[str, ...]
    rows: int | float
    cells: int


@dataclass(frozen=True)
class _Unit:
    """Rows that go in together: a file, or all of what was given."""

    name: str
    identity: str | None
    source: Source


class StoreBase:
    """Datasets, their cells, and what goes in."""

    def __init__(self, place: str | PathLike[str], *, wait: float = 60.0) -> None:
        self.backend: Backend = backend_of(place, wait)
        self._maps: dict[tuple[str, str], FeatureMap] = {}

    def __repr__(self) -> str:
        return f"Store({self.backend.place!r})"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what is open; files are only open while something is done."""
        self.backend.close()

    # -- datasets ----------------------------------------------------------------------------

    def create(
        self,
        features: FeatureMap,
        *,
        dataset: str = "main",
        time: str | None = None,
        every: str | Period | None = None,
        group_by: Sequence[str] | str = (),
    ) -> Dataset:
        """Make a dataset, or find it: one that is there must have the same map, times and groups."""
        groups = (group_by,) if isinstance(group_by, str) else tuple(group_by)
        if (time is None) != (every is None):
            raise ValueError("time and every belong together: the column with the times, and the length of a bucket")
        if len({*groups, time}) < len(groups) + 1:
            raise ValueError("time and group columns must be different columns")
        period = None if every is None else Period.of(every)
        with self.backend.session(write=True) as session:
            self.backend.prepare(session)
            found = self._find(session, dataset)
            if found is None:
                number = session.number()
                session.rows(
                    "INSERT INTO datasets VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [number, dataset, features.recipe_json(), features.fingerprint, time,
                     period.text if period else None, json.dumps(groups), _now()],
                )  # fmt: skip
                return Dataset(number, dataset, features, time, period, groups)
        _check_agrees(found, features, time, period, groups)
        return found

    def datasets(self) -> dict[str, Dataset]:
        """All datasets by name."""
        with self.backend.session() as session:
            self.backend.check(session)
            names = [name for (name,) in session.rows("SELECT name FROM datasets ORDER BY name")]
            return {name: found for name in names if (found := self._find(session, name)) is not None}

    def dataset(self, name: str | None = None) -> Dataset:
        """A dataset by name; without one the only one there is."""
        there = self.datasets()
        if name is None and len(there) == 1:
            return next(iter(there.values()))
        if name is None or name not in there:
            asked = "which dataset?" if name is None else f"there is no dataset {name!r};"
            raise ValueError(f"{self.backend.place}: {asked} there are {', '.join(there) or 'none'}")
        return there[name]

    def _find(self, session: Session, name: str) -> Dataset | None:
        rows = session.rows(
            "SELECT id, recipe, fingerprint, time_column, every, group_columns FROM datasets WHERE name = ?", [name]
        )
        if not rows:
            return None
        number, recipe, fingerprint, time_, every, groups = rows[0]
        features = self._maps.get((recipe, fingerprint))
        if features is None:
            try:
                features = FeatureMap.from_recipe(json.loads(recipe)).expecting(fingerprint)
            except (ValueError, TypeError, KeyError) as error:
                raise SketchFileError(f"{self.backend.place}: the feature map of {name!r}: {error}") from None
            self._maps[recipe, fingerprint] = features
        period = None if every is None else Period.of(every)
        return Dataset(number, name, features, time_, period, tuple(json.loads(groups)))

    # -- adding ------------------------------------------------------------------------------

    def ingest(
        self,
        data: Any,
        features: FeatureMap | None = None,
        *,
        time: Any = None,
        every: str | Period | None = None,
        group_by: Sequence[str] | str | Mapping[str, Any] | None = None,
        dataset: str | None = None,
        source: str | None = None,
        replace: bool = False,
        atomic: bool = False,
        engine: Any = "auto",
        workers: int | None = None,
        progress: bool | Report | None = None,
        on_invalid: str = "raise",
        **reading: Any,
    ) -> Ingested:
        """Sketch rows into cells; sources that were added before are left out.

        Parameters
        ----------
        data
            Rows; see :func:`sketchlearn.sketch`.  A path, a glob or a list of files is added file by file.
        features : FeatureMap, optional
            For a new dataset; an old one knows its own.
        time : str or array, optional
            Column with the time of each row (for rows in an array: an array of times).
        every : str, optional
            Length of a time bucket: ``"1h"``, ``"1d"``, ``"1mo"``; UTC.
        group_by : sequence of str, or mapping of str to array, optional
            Group columns.
        dataset : str, optional
            Its name; ``"main"`` for a new store, the only one of an old store.
        source : str, optional
            What to call the rows, all together; by default the name of each file, or a mark made of the sums.
        replace : bool
            A file that changed since it was added takes the place of what it was; otherwise that is an error.
        atomic : bool
            Add all files or none; by default each file is added as a whole, and a run that was stopped goes on with
            the files that are missing.
        engine, workers, progress, on_invalid, **reading
            See :func:`sketchlearn.sketch`.

        Returns
        -------
        Ingested
        """
        arrays = not isinstance(time, str | None) or isinstance(group_by, Mapping)
        target = self._target(features, time, every, group_by, dataset, arrays)
        if arrays:
            groups = group_by if isinstance(group_by, Mapping) else {}
            keys: Any = labels_of_arrays(len(data), time, target.every, {name: groups[name] for name in target.groups})
        else:
            keys = target.keys if target.keys.columns else None
        opened = open_source(data, Selection.for_map(target.features, group_by=keys, **reading))
        units = _units(opened, source)
        with self.backend.session() as session:
            known = {row[0]: row[1] for row in self._sources(session, target.id)}
        todo = [u for u in units if u.identity is None or u.identity not in known]
        _check_unchanged(todo, known, replace)
        writer = _Writer(self, target, replace, atomic)
        for unit in todo:
            table = engines.run(
                unit.source, target.features, engine, workers=workers, progress=progress, on_invalid=on_invalid
            )
            writer.add(unit, _table(table))
        writer.flush()
        skipped = [u.name for u in units if u not in todo]
        return Ingested(tuple(writer.added), tuple(skipped + writer.known), writer.rows, writer.cells)

    def add(
        self,
        sketches: Sketch | SketchTable | Mapping[Any, Sketch],
        *,
        source: str | None = None,
        time: Any = None,
        every: str | Period | None = None,
        groups: Mapping[str, Any] | None = None,
        group_by: str | None = None,
        dataset: str | None = None,
    ) -> Ingested:
        """Add sketches that were made elsewhere: one cell, or a table with one cell for each label.

        Parameters
        ----------
        sketches : Sketch, SketchTable or mapping
            One sketch, or one for each value of the group column (or each time, if the dataset has no groups).
        source : str, optional
            Their name; nothing of the same name is added again.  By default a mark made of the sums.
        time : date, time or text, optional
            A moment in the bucket they belong to.
        every : str, optional
            Length of the bucket, for a new dataset.
        groups : mapping, optional
            Values of the group columns.
        group_by : str, optional
            The group column that the labels of a table are values of.
        dataset : str, optional
            As for :meth:`ingest`.
        """
        table = {None: sketches} if isinstance(sketches, Sketch) else dict(sketches)
        if not table:
            raise ValueError("there are no sketches to add")
        first = next(iter(table.values()))
        names = [*(groups or {}), *([group_by] if group_by else [])]
        timed = time is not None or (not isinstance(sketches, Sketch) and group_by is None)
        column = "time" if timed else None
        if every is None and dataset_there(self, dataset):
            there = self.dataset(dataset)
            column, every = there.time, there.every
        target = self._target(first.features, column, every if timed else None, names, dataset, True)
        made: dict[str, Sketch] = {}
        for label, s in table.items():
            if s.features != target.features:
                raise IncompatibleSketchError(
                    f"the dataset has another feature map: {target.features.difference(s.features)}"
                )
            values = dict(groups or {})
            when = time
            if group_by is not None:
                values[group_by] = label
            elif not isinstance(sketches, Sketch):
                when = label
            start = None
            if target.every is not None:
                if when is None:
                    raise ValueError("cells of this dataset have a time: say which one")
                start = int(target.every.floor(moment(when)))
            key = cell_label(start, [as_label(values[n]) for n in target.groups])
            made[key] = made[key] + s if key in made else s
        unit = _Unit(source or "", None if source is None else f"source {source}", None)  # type: ignore[arg-type]
        writer = _Writer(self, target, False, True)
        writer.add(unit, made)
        writer.flush()
        return Ingested(tuple(writer.added), tuple(writer.known), writer.rows, writer.cells)

    def _target(
        self, features: FeatureMap | None, time_: Any, every: Any, group_by: Any, dataset: str | None, arrays: bool
    ) -> Dataset:
        """The dataset to add to, made if it isn't there."""
        column = None if time_ is None else time_ if isinstance(time_, str) else "time"
        groups = None if group_by is None else (group_by,) if isinstance(group_by, str) else tuple(group_by)
        if dataset_there(self, dataset):
            found = self.dataset(dataset)
            if arrays and column is not None:
                column = found.time
            wanted = None if every is None else Period.of(every)
            _check_agrees(found, features, column or found.time, wanted or found.every,
                          found.groups if groups is None else groups)  # fmt: skip
            return found
        if features is None:
            raise ValueError("a new dataset needs a feature map: give features, for example from sl.design(sample)")
        return self.create(features, dataset=dataset or "main", time=column, every=every, group_by=groups or ())

    def _sources(self, session: Session, dataset: int) -> list[tuple[Any, ...]]:
        return session.rows(
            "SELECT identity, name, merged, cells, added, id FROM sources WHERE dataset = ? ORDER BY id", [dataset]
        )

    def sources(self, dataset: str | None = None) -> list[dict[str, Any]]:
        """What was added: name, identity, number of cells, time, and whether it was rolled up with others."""
        target = self.dataset(dataset)
        with self.backend.session() as session:
            found = self._sources(session, target.id)
        names = "identity", "name", "merged", "cells", "added"
        return [dict(zip(names, row[:5], strict=True)) for row in found]

    def _labels(self, session: Session, dataset: int) -> dict[tuple[Label, ...], int]:
        found = session.rows("SELECT labels, id FROM labels WHERE dataset = ?", [dataset])
        return {tuple(json.loads(text)): number for text, number in found}

    def _label_numbers(
        self, session: Session, dataset: int, wanted: Iterable[tuple[Label, ...]]
    ) -> dict[tuple[Label, ...], int]:
        """Numbers of labels; new ones are written."""
        known = self._labels(session, dataset)
        for labels in dict.fromkeys(wanted):
            if labels not in known:
                text = json.dumps(labels, separators=(",", ":"), ensure_ascii=False)
                session.rows(
                    "INSERT INTO labels VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [session.number(), dataset, text]
                )
                known[labels] = session.one("SELECT id FROM labels WHERE dataset = ? AND labels = ?", [dataset, text])
        return known

    def _journal(self, session: Session, dataset: int, what: str, **details: Any) -> None:
        session.rows("INSERT INTO journal VALUES (?, ?, ?, ?)", [_now(), dataset, what, json.dumps(details)])


def _table(found: Sketch | SketchTable) -> Mapping[str, Sketch]:
    """Cells by label; the whole is one cell where there are neither times nor groups."""
    return {cell_label(None, ()): found} if isinstance(found, Sketch) else found


class _Writer:
    """Cells on their way into a store: written in transactions of some files each."""

    def __init__(self, store: StoreBase, dataset: Dataset, replace_: bool, atomic: bool) -> None:
        self.store, self.dataset, self.replace, self.atomic = store, dataset, replace_, atomic
        self.added: list[str] = []
        self.known: list[str] = []
        self.rows: int | float = 0
        self.cells = 0
        self._waiting: list[tuple[str, str, Cells, list[tuple[Label, ...]], int | float]] = []
        self._bytes, self._since = 0, time.monotonic()

    def add(self, unit: _Unit, table: Mapping[Any, Sketch]) -> None:
        """Take the cells of a source; write when enough has come together."""
        identity = unit.identity or _mark_of(table)
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
            numbers = self.store._label_numbers(session, self.dataset.id, (g for w in waiting for g in w[3]))
            for identity, name, cells, labels, rows in waiting:
                if self.replace:
                    _remove(session, self.dataset.id, name)
                found = session.rows(
                    "INSERT INTO sources VALUES (?, ?, ?, ?, FALSE, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
                    [session.number(), self.dataset.id, identity, name, len(cells), _now()],
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


def backend_of(place: str | PathLike[str], wait: float) -> Backend:
    """The database behind a path or a URL."""
    text = os.fspath(place)
    if text.startswith(_PASSWORD):
        from sketchlearn.store.postgres import PostgresBackend

        return PostgresBackend(text)
    from sketchlearn.store.duck import DuckBackend

    return DuckBackend(text.removeprefix("duckdb://"), wait)


def dataset_there(store: StoreBase, name: str | None) -> bool:
    """Whether a dataset can be found: by its name, or because there is one only."""
    try:
        there = store.datasets()
    except (FileNotFoundError, SketchFileError):
        with store.backend.session(write=True) as session:
            store.backend.prepare(session)
        return False
    if name is None and len(there) > 1:
        raise ValueError(f"{store.backend.place}: which dataset? there are {', '.join(there)}")
    return bool(there) if name is None else name in there


def _check_agrees(
    found: Dataset, features: FeatureMap | None, time_: str | None, every: Period | None, groups: tuple[str, ...]
) -> None:
    if features is not None and (features != found.features or features.fingerprint != found.features.fingerprint):
        raise IncompatibleSketchError(
            f"the dataset {found.name!r} has another feature map: {found.features.difference(features)}"
        )
    for what, theirs, ours in (
        ("time", time_, found.time),
        ("every", every and every.text, found.every and found.every.text),
        ("group_by", groups, found.groups),
    ):
        if theirs != ours:
            raise ValueError(f"the dataset {found.name!r} has {what}={ours!r}, not {theirs!r}")


def _units(source: Source, name: str | None) -> list[_Unit]:
    """What is added as a whole: each file, or everything if there are no files or it has a name."""
    settings = {k: v for k, v in source.settings.items() if k != "group_by"}
    suffix = (
        ""
        if not settings
        else " " + hashlib.blake2b(repr(sorted(settings.items())).encode(), digest_size=8).hexdigest()
    )
    if name is not None:
        return [_Unit(name, f"source {name}", source)]
    if not source.parts or any(part.identity is None for part in source.parts):
        return [_Unit("", None, source)]
    files: dict[str, list[Any]] = {}
    for part in source.parts:
        files.setdefault(str(part.identity), []).append(part)
    return [
        _Unit(
            identity.rsplit(" ", 2)[0] + suffix, identity + suffix,
            replace(Source.of_parts(parts, source.names, source.grouped), settings=source.settings),
        )
        for identity, parts in files.items()
    ]  # fmt: skip


def _check_unchanged(units: list[_Unit], known: Mapping[str, str], replace_: bool) -> None:
    """Refuse files that were added in another state."""
    names = set(known.values())
    for unit in units:
        if unit.identity is not None and unit.name in names and not replace_:
            raise ValueError(
                f"{unit.name} was added before and has changed since: say replace=True to put its rows in the place of "
                "the old ones"
            )


def _mark_of(table: Mapping[Any, Sketch]) -> str:
    """A few letters that the same cells with the same rows have again."""
    h = hashlib.blake2b(digest_size=16)
    for label in sorted(table):
        h.update(f"{label}\n{mark(table[label])}\n".encode())
    return f"rows {h.hexdigest()}"


def _now() -> int:
    return time.time_ns() // 1000
