"""The store: cells of sketches in a database, keyed by dataset, time bucket and group columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as changed
from os import PathLike
from typing import Any

from sketchlearn import engines
from sketchlearn.engines.progress import Report
from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import OWN_ROWS, FeatureMap
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sketches.origin import Origin
from sketchlearn.sources import Selection, open_source
from sketchlearn.sources.selection import selects
from sketchlearn.store.backend import Backend, Session
from sketchlearn.store.dataset import Dataset, Ingested, check_agrees
from sketchlearn.store.keys import Label, as_label, cell_label, labels_of_arrays
from sketchlearn.store.periods import Period, moment
from sketchlearn.store.writing import Unit, Writer, check_unchanged, now, table_of, units_of

_PASSWORD = "postgresql://", "postgres://"


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
                     period.text if period else None, json.dumps(groups), now()],
                )  # fmt: skip
                return Dataset(number, dataset, features, time, period, groups)
        check_agrees(found, features, time, period, groups)
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
        units = units_of(opened, source)
        with self.backend.session() as session:
            known = {row[0]: row[1] for row in self._sources(session, target.id)}
        todo = [u for u in units if u.identity is None or u.identity not in known]
        check_unchanged(todo, known, replace)
        bounded = reading.get("max_rows_per_user") is not None
        chosen = selects(opened.settings) or on_invalid == "skip" or bounded
        writer = Writer(self, target, replace, atomic, chosen)
        own = features if features is not None and features.provenance == OWN_ROWS else None
        a_pass = engines.run if bounded or own is not None else engines.summed  # of the marks, cells keep these two
        for unit in todo:
            table = a_pass(
                unit.source, target.features if own is None else own, engine, workers=workers, progress=progress,
                on_invalid=on_invalid,
            )  # fmt: skip
            writer.add(unit, table_of(table))
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
                    raise ValueError("cells of this dataset have a time: give it")
                start = int(target.every.floor(moment(when)))
            key = cell_label(start, [as_label(values[n]) for n in target.groups])
            made[key] = made[key] + s if key in made else s
        unit = Unit(source or "", None if source is None else f"source {source}", None)  # type: ignore[arg-type]
        most = sketches.rows_per_user if isinstance(sketches, SketchTable) else _bound_of(table.values())
        if most is not None:  # cells of one source share a bound
            made = {key: changed(s, origin=changed(s.origin, rows_per_user=most)) for key, s in made.items()}
        writer = Writer(self, target, False, True, any(s.origin.by_content for s in table.values()))
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
            check_agrees(found, features, column or found.time, wanted or found.every,
                          found.groups if groups is None else groups)  # fmt: skip
            return found
        if features is None:
            raise ValueError("a new dataset needs a feature map: give features=, for example from sl.design(sample)")
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

    def _choose(self, session: Session, dataset: int) -> None:
        """Remember that what is in the rows has decided how many there are: a release may not publish their number."""
        session.rows("INSERT INTO store VALUES (?, 'yes') ON CONFLICT DO NOTHING", [f"chosen {dataset}"])

    def _chosen(self, session: Session, dataset: int) -> bool:
        return session.one("SELECT value FROM store WHERE key = ?", [f"chosen {dataset}"]) is not None

    def _journal(self, session: Session, dataset: int, what: str, **details: Any) -> None:
        session.rows("INSERT INTO journal VALUES (?, ?, ?, ?)", [now(), dataset, what, json.dumps(details)])


def _bound_of(sketches: Iterable[Sketch]) -> int | None:
    """The most rows of one user in several sketches together, if all of them know it."""
    return Origin.together([s.origin for s in sketches]).rows_per_user


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
        raise ValueError(f"{store.backend.place}: say which dataset; there are {', '.join(there)}")
    return bool(there) if name is None else name in there
