"""What is done to cells that are there: rolled up, dropped, forgotten, copied."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from sketchlearn import engines
from sketchlearn.sketches import Sketch
from sketchlearn.sources import Selection, open_source
from sketchlearn.sources.selection import selects
from sketchlearn.store.backend import Session
from sketchlearn.store.cells import Totals, cells_of, moments, sketches_of, times
from sketchlearn.store.dataset import Dataset
from sketchlearn.store.keys import Label, as_label, cell_of
from sketchlearn.store.periods import Period, moment, readable
from sketchlearn.store.publication import Publication, publish, published
from sketchlearn.store.query import Query, Where, _Lookup
from sketchlearn.store.store import StoreBase
from sketchlearn.store.writing import now as this_moment
from sketchlearn.store.writing import table_of

if TYPE_CHECKING:
    from sketchlearn.features.base import FeatureMap
    from sketchlearn.privacy.ledger import Ledger
    from sketchlearn.sketches.record import PrivacyRecord


class Store(StoreBase):
    """Sketches by dataset, time and group in a database: any union of cells is one query away.

    Parameters
    ----------
    place : path or URL
        A DuckDB file, which is created when something is added; ``postgresql://user@host/database``; or ``":memory:"``
        for a database in memory.
    wait : float
        Seconds to wait for another process that has a DuckDB file open, before
        :class:`~sketchlearn.files.LockedError`; PostgreSQL has many writers at once.

    Notes
    -----
    A cell keeps the exact sums of its rows, so the sketch of a query has the bytes of one pass over the selected
    rows.  Each source (a file, or what was given a name) has cells of its own until they are rolled up: it is added
    once however often it is given, and forgetting it leaves the store as if it had never been there.  Everything that
    changes the store is one transaction.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
    >>> X = rng.normal(size=(100, 2))
    >>> hours = np.datetime64("2024-05-01T00", "h") + np.arange(100)
    >>> store = sl.Store(":memory:")
    >>> store.ingest(X, phi, time=hours, every="1h", source="monday.csv").cells
    100
    >>> store.ingest(X, phi, time=hours, every="1h", source="monday.csv").added
    ()
    >>> store.query().sketch() == sl.sketch(X, phi)
    True
    >>> store.rollup("1d"), store.query().sketch() == sl.sketch(X, phi)
    (5, True)
    """

    def query(self, dataset: str | None = None, *, since: Any = None, until: Any = None, where: Where = None) -> Query:
        """A selection of cells.

        Parameters
        ----------
        dataset : str, optional
            Its name; without one the only one there is.
        since, until : date, time or text, optional
            Beginning (inclusive) and end (exclusive), in UTC.
        where : mapping, str or callable, optional
            Condition on the group columns: ``{"shop": ["a", "b"]}``, ``"shop in (a, b) and kind != test"``, or a
            function of a dictionary of labels.

        Returns
        -------
        Query
        """
        return Query(self, self.dataset(dataset), where=where).between(since, until)

    # -- upkeep ------------------------------------------------------------------------------

    def rollup(
        self,
        to: str | Period,
        *,
        dataset: str | None = None,
        older_than: str | Period | None = None,
        now: Any = None,
        keep_sources: bool = False,
    ) -> int:
        """Merge cells into longer buckets.

        Parameters
        ----------
        to : str
            Length of the new buckets, for example ``"1mo"``; those of the store must fit into them.
        dataset : str, optional
            Its name.
        older_than : str, optional
            Only buckets that ended so long before `now`.
        now : date, time or text, optional
            By default this moment.
        keep_sources : bool
            Merge only cells of the same source, so that each source can still be forgotten by its name.  Otherwise a
            source whose cells were merged with those of others can be forgotten with its rows, or their sketch.

        Returns
        -------
        int
            Cells that there are now in the merged buckets.
        """
        target, period = self.dataset(dataset), Period.of(to)
        if target.every is None:
            raise ValueError("cells without a time can't be rolled up")
        if not target.every.divides(period):
            raise ValueError(f"buckets of {target.every.text} don't fit into buckets of {period.text}")
        end = None if older_than is None else int(period.floor(_before(now, older_than)))
        with self.backend.session(write=True) as session:
            self.backend.check(session)
            condition, values = "dataset = ?", [target.id]
            if end is not None:
                condition, values = condition + " AND stop <= ?", [*values, end]
            return _roll(self, session, target, period, condition, values, keep_sources)

    def retain(self, age: str | Period, *, dataset: str | None = None, now: Any = None) -> int:
        """Drop cells that ended more than `age` before `now` (by default this moment); returns their number."""
        target = self.dataset(dataset)
        if target.every is None:
            raise ValueError("cells without a time can't be dropped by their age")
        end = _before(now, age)
        with self.backend.session(write=True) as session:
            self.backend.check(session)
            count = session.one("SELECT count(*) FROM cells WHERE dataset = ? AND stop <= ?", [target.id, end])
            session.rows("DELETE FROM cells WHERE dataset = ? AND stop <= ?", [target.id, end])
            self._choose(session, target.id)  # the times of the rows decide how many are left
            self._journal(session, target.id, "retain", before=readable(end), cells=count)
        return int(count)

    def forget(
        self,
        what: Any,
        *,
        dataset: str | None = None,
        time: Any = None,
        groups: Mapping[str, Any] | None = None,
        reason: str = "",
        engine: Any = "auto",
        **reading: Any,
    ) -> int:
        """Take rows out again, exactly, with a line in the journal.

        Parameters
        ----------
        what : str, Sketch, or rows
            The name or identity of a source: its cells go, as if it had never been added.  Or the sketch of some
            rows of one cell, or the rows themselves (anything that :meth:`ingest` takes, with the same time and
            group columns): their sums are subtracted from the cells they are in.  The box of a cell does not shrink
            by subtracting.
        dataset : str, optional
            Its name.
        time, groups
            The cell of a sketch: a moment in it, and the values of the group columns.
        reason : str
            For the journal.
        engine, **reading
            For rows; see :func:`sketchlearn.sketch`.

        Returns
        -------
        int
            Cells that changed or went.
        """
        target = self.dataset(dataset)
        if isinstance(what, str):
            with self.backend.session(write=True) as session:
                done = _forget_source(self, session, target, what, reason)
            if done is not None:
                return done
        if isinstance(what, Sketch):
            start = None if target.every is None else moment(_said(time, "time"))
            named = groups or {}
            labels = tuple(as_label(_said(named.get(name), name)) for name in target.groups)
            table: Mapping[Key, Sketch] = {(start, labels): what}
            chosen = what.origin.by_content
        else:
            keys = target.keys if target.keys.columns else None
            opened = open_source(what, Selection.for_map(target.features, group_by=keys, **reading))
            found = table_of(engines.run(opened, target.features, engine, progress=False))
            table = {cell_of(label): s for label, s in found.items()}
            chosen = selects(opened.settings)
        with self.backend.session(write=True) as session:
            self.backend.check(session)
            _subtract(self, session, target, table)
            if chosen:
                self._choose(session, target.id)
            rows = sum(s.count for s in table.values())
            self._journal(session, target.id, "forget", rows=rows, cells=len(table), reason=reason)
        return len(table)

    def journal(self, dataset: str | None = None) -> list[dict[str, Any]]:
        """What was forgotten, dropped and rolled up, the latest last."""
        target = self.dataset(dataset)
        with self.backend.session() as session:
            found = session.rows(
                "SELECT noted, what, details FROM journal WHERE dataset = ? ORDER BY noted", [target.id]
            )
        return [{"at": readable(at), "what": what, **json.loads(details)} for at, what, details in found]

    # -- private releases --------------------------------------------------------------------

    def publish(
        self,
        name: str,
        *,
        epsilon: float,
        periods: int,
        first: Any,
        delta: float = 0.0,
        dataset: str | None = None,
        records_per_user: int = 1,
        features: FeatureMap | None = None,
        public_map: bool = False,
        pilot: PrivacyRecord | None = None,
        ledger: Ledger | None = None,
        ledger_name: str | None = None,
    ) -> Publication:
        """Begin a continual release: a private sketch of every period, and of any run of periods, under one guarantee.

        Parameters
        ----------
        name : str
            Of the publication.
        epsilon, delta : float
            The guarantee of everything that is ever released under this name.
        periods : int
            The largest number of buckets of the dataset, known beforehand.
        first : date, time or text
            Where the first period begins: a public date.
        dataset : str, optional
            Name of the dataset; its cells have a time.
        records_per_user : int
            The largest number of rows that one person may have, in all periods together.
        features : FeatureMap, optional
            The map of the dataset, where it knows what it was chosen from.
        public_map, pilot, ledger
            As in :func:`sketchlearn.privatize`.
        ledger_name : str, optional
            Name of the data in the ledger.

        Returns
        -------
        Publication
            Its ``advance()`` releases the periods that are over.
        """
        return publish(
            self, name, self.dataset(dataset), epsilon=epsilon, delta=delta, periods=periods, first=first,
            features=features, records_per_user=records_per_user, public_map=public_map, pilot=pilot, ledger=ledger,
            dataset=ledger_name,
        )  # fmt: skip

    def published(self, name: str) -> Publication:
        """A continual release that was begun before."""
        return published(self, name)

    # -- copies ------------------------------------------------------------------------------

    def export(self, place: str | PathLike[str], *, dataset: str | None = None) -> int:
        """Copy a dataset into another store, which may be of the other kind; sources that are there are left out.

        Parameters
        ----------
        place : path or URL
            The other store; made if it isn't there.
        dataset : str, optional
            Its name.

        Returns
        -------
        int
            Cells that were copied.

        Examples
        --------
        >>> import pathlib, tempfile, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> store = sl.Store(":memory:")
        >>> _ = store.ingest([[1.0], [2.0]], phi, source="first")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     copy = pathlib.Path(folder) / "copy.duckdb"
        ...     store.export(copy), sl.Store(copy).query().sketch() == store.query().sketch()
        (1, True)
        """
        with Store(place) as other:
            return _copy(self, other, self.dataset(dataset))

    def import_from(self, place: str | PathLike[str], *, dataset: str | None = None) -> int:
        """Copy a dataset of another store into this one; the inverse of :meth:`export`."""
        with Store(place) as other:
            return _copy(other, self, other.dataset(dataset))


Key = tuple[int | None, tuple[Label, ...]]


def _said(value: Any, what: str) -> Any:
    if value is None:
        raise ValueError(f"which cell are the rows of the sketch in? say {what}")
    return value


def _before(now: Any, age: str | Period) -> int:
    this = moment(dt.datetime.now(dt.UTC) if now is None else now)
    return int(Period.of(age).after(this, -1))


def _roll(
    store: StoreBase, session: Session, target: Dataset, period: Period, condition: str, values: list[Any],
    keep_sources: bool,
) -> int:  # fmt: skip
    found = session.rows(f"SELECT DISTINCT start, stop, label, source FROM cells WHERE {condition}", values)
    long = [(a, b) for a, b, _, _ in found if b > int(period.after(period.floor(a)))]
    if long:
        raise ValueError(
            f"a cell from {readable(long[0][0])} to {readable(long[0][1])} is longer than a bucket of {period.text}"
        )
    old = [(int(period.floor(a)), label, source) for a, _, label, source in found]
    members: dict[tuple[int, int], set[int]] = {}
    for start, label, source in old:
        members.setdefault((start, label), set()).add(source)
    new = [
        (start, label, source if keep_sources or len(members[start, label]) == 1 else 0) for start, label, source in old
    ]
    order = sorted(set(new))
    code_of = {key: i for i, key in enumerate(order)}
    columns = [times([row[j] for row in found]) for j in range(4)]
    find = _Lookup(columns, np.array([code_of[key] for key in new], np.int64))
    totals = Totals(target.features, len(order))
    for cells in session.cells(condition, values):
        if any(p is not None for p in cells.privacy):
            raise ValueError("cells that were released with differential privacy can't be rolled up")
        totals.add(cells, find(cells.start, cells.stop, cells.label, cells.source))
    if not order:
        return 0
    starts = [start for start, _, _ in order]
    stops = period.after(np.array(starts, np.int64)).tolist()
    made = cells_of(totals.sketches(), starts, stops, [k[1] for k in order], [k[2] for k in order])
    session.rows(f"DELETE FROM cells WHERE {condition}", values)
    session.append(target.id, made)
    gone = sorted({s for sources in members.values() if len(sources) > 1 and not keep_sources for s in sources} - {0})
    if gone:
        session.rows(f"UPDATE sources SET merged = TRUE WHERE id IN ({', '.join(map(str, gone))})")
    store._journal(session, target.id, "rollup", to=period.text, before=len(found), after=len(order))
    return len(order)


def _forget_source(store: StoreBase, session: Session, target: Dataset, what: str, reason: str) -> int | None:
    """Drop the cells of a source; None if there is no source of that name."""
    store.backend.check(session)
    found = session.rows(
        "SELECT id, merged, name FROM sources WHERE dataset = ? AND (name = ? OR identity = ?)",
        [target.id, what, what],
    )
    if not found:
        return None
    cells = 0
    for number, merged, name in found:
        if merged:
            raise ValueError(
                f"the cells of {name} were rolled up with those of other sources: give its rows (or their sketch) to "
                "forget them"
            )
        cells += session.one("SELECT count(*) FROM cells WHERE dataset = ? AND source = ?", [target.id, number])
        session.rows("DELETE FROM cells WHERE dataset = ? AND source = ?", [target.id, number])
        session.rows("DELETE FROM sources WHERE id = ?", [number])
    store._journal(session, target.id, "forget", source=what, cells=cells, reason=reason)
    return cells


def _subtract(store: StoreBase, session: Session, target: Dataset, table: Mapping[Key, Sketch]) -> None:
    """Subtract rows from the cells they are in: all of them, or an error and none."""
    numbers = store._labels(session, target.id)
    condition, values = "dataset = ?", [target.id]
    wanted = sorted({numbers[labels] for _, labels in table if labels in numbers})
    condition += f" AND label IN ({', '.join(map(str, wanted))})" if wanted else " AND FALSE"
    starts = [start for start, _ in table if start is not None]
    if starts:
        condition, values = condition + " AND start <= ? AND stop > ?", [*values, max(starts), min(starts)]
    there: dict[int, list[tuple[int | None, int | None, int, Sketch]]] = {}
    for cells in session.cells(condition, values):
        ends = zip(moments(cells.start), moments(cells.stop), strict=True)
        for (a, b), label, source, s in zip(
            ends, cells.label.tolist(), cells.source.tolist(), sketches_of(cells, target.features), strict=True
        ):
            there.setdefault(label, []).append((a, b, source, s))
    changed: dict[tuple[Any, ...], Sketch] = {}
    for (start, labels), rows in table.items():
        where = f"{readable(start)} {' / '.join(map(str, labels))}".strip()
        number = numbers.get(labels, -1)
        refusal = "there is no such cell"
        for a, b, source, whole in there.get(number, []):
            if start is not None and not (a is not None and b is not None and a <= start < b):
                continue
            try:
                changed[a, b, number, source] = changed.get((a, b, number, source), whole) - rows
                break
            except ValueError as error:
                refusal = str(error)
        else:
            raise ValueError(f"cell {where}: {refusal}; nothing was forgotten")
    if not changed:
        return
    for a, _, label, source in changed:
        timely, when = (" AND start = ?", [a]) if a is not None else ("", [])
        session.rows(
            f"DELETE FROM cells WHERE dataset = ? AND label = ? AND source = ?{timely}",
            [target.id, label, source, *when],
        )
    left = {key: s for key, s in changed.items() if s.weight or s.skipped}
    if left:
        columns = [list(column) for column in zip(*left, strict=True)]
        session.append(target.id, cells_of(list(left.values()), *columns))


def _copy(origin: StoreBase, other: StoreBase, dataset: Dataset) -> int:
    made = other.create(
        dataset.features, dataset=dataset.name, time=dataset.time, every=dataset.every, group_by=dataset.groups
    )
    copied = 0
    with origin.backend.session() as reader, other.backend.session(write=True) as writer:
        names = {n: labels for labels, n in origin._labels(reader, dataset.id).items()}
        numbers = other._label_numbers(writer, made.id, names.values())
        if origin._chosen(reader, dataset.id):
            other._choose(writer, made.id)
        there = {row[0] for row in other._sources(writer, made.id)}
        rolled = reader.one("SELECT count(*) FROM cells WHERE dataset = ? AND source = 0", [dataset.id])
        if rolled and writer.one("SELECT count(*) FROM cells WHERE dataset = ?", [made.id]):
            raise ValueError("cells that were rolled up from several sources can only be copied into a new dataset")
        sources = {0: 0}
        for identity, name, merged, count, _, number in origin._sources(reader, dataset.id):
            if identity not in there:
                sources[number] = writer.number()
                writer.rows(
                    "INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [sources[number], made.id, identity, name, merged, count, this_moment()],
                )
        chosen = ", ".join(map(str, sources))
        for cells in reader.cells(f"dataset = ? AND source IN ({chosen})", [dataset.id]):
            label = np.array([numbers[names[n]] for n in cells.label.tolist()], np.int64)
            source = np.array([sources[n] for n in cells.source.tolist()], np.int64)
            writer.append(made.id, cells.placed(label=label, source=source))
            copied += len(cells)
    return copied
