"""A private sketch for every period of a dataset, kept in its store: what may be shown while the cells stay secret.

The tree of :mod:`sketchlearn.privacy.continual`, in the store's own tables: released nodes and the exact sums that are
still open are cells of datasets that no query sees.  A period is released when it is over; node, open sums and position
change in one transaction, so that a crash neither loses a period nor releases one twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches import Sketch
from sketchlearn.store.backend import Session
from sketchlearn.store.cells import Totals, cells_of, sketches_of
from sketchlearn.store.dataset import Dataset
from sketchlearn.store.periods import moment, readable

if TYPE_CHECKING:
    from sketchlearn.privacy.continual import ContinualRelease
    from sketchlearn.store.store import StoreBase


class Publication:
    """A continual release of a dataset; made by :meth:`sketchlearn.Store.publish`.

    Attributes
    ----------
    store : Store
        Where it is kept.
    name : str
        Its name.
    dataset : Dataset
        What is released.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=1, size=20, scale=1.0, seed=0)
    >>> day = np.datetime64("2024-05-01") + np.arange(40_000) // 5000
    >>> store = sl.Store(":memory:")
    >>> _ = store.ingest(rng.normal(size=(40_000, 1)), phi, time=day, every="1d")
    >>> public = store.publish("visitors", epsilon=1.0, delta=1e-6, periods=30, first="2024-05-01", public_map=True)
    >>> public.advance("2024-05-09")
    8
    >>> week = public.sketch("2024-05-02", "2024-05-09")
    >>> week.privacy.epsilon, bool(abs(week.count - 35_000) < 2000)
    (1.0, True)
    """

    def __init__(self, store: StoreBase, name: str, dataset: Dataset) -> None:
        self.store, self.name, self.dataset = store, name, dataset

    def __repr__(self) -> str:
        facts = self.facts()
        return f"Publication({self.name!r}, {facts['done']} of {facts['periods']} periods, {facts['privacy']})"

    # -- releasing ---------------------------------------------------------------------------

    def advance(self, until: Any = None) -> int:
        """Release all periods that ended by `until` (this moment); how many these were.

        Rows that come later for a period that is over are in no release.
        """
        import datetime as dt

        end = moment(dt.datetime.now(dt.UTC) if until is None else until)
        every = self.dataset.every
        assert every is not None
        done = 0
        with self.store.backend.session(write=True) as session:
            kept, stream = self._read(session)
            before = set(stream.nodes)
            start = int(kept["start"])
            while (stop := int(every.after(start))) <= end:
                if stream.done == stream.periods:
                    if done:
                        break
                    raise ValueError(
                        f"all {stream.periods} periods of {self.name!r} are over by {readable(start)}: publish under "
                        "another name, with another budget"
                    )
                stream.add(self._period(session, start, stop))
                start, done = stop, done + 1
            if done:
                self._write(session, {**kept, "start": start}, stream, before)
        return done

    def _period(self, session: Session, start: int, stop: int) -> Sketch:
        """Exact sums of the rows of a period."""
        condition, values = "dataset = ? AND start < ? AND stop > ?", [self.dataset.id, stop, start]
        totals = Totals(self.dataset.features, 1)
        for cells in session.cells(condition, values):
            if (cells.start < start).any() or (cells.stop > stop).any():
                raise ValueError(
                    f"the cells of the period from {readable(start)} were rolled up with others before it was released"
                )
            totals.add(cells, np.zeros(len(cells), np.int64))
        return totals.sketches()[0]

    # -- reading -----------------------------------------------------------------------------

    def sketch(self, since: Any = None, until: Any = None) -> Sketch:
        """The private sketch of a run of periods that are over, by default of all of them."""
        with self.store.backend.session() as session:
            kept, stream = self._read(session)
        starts = self._starts(kept, stream)
        first = 0 if since is None else self._place(starts, since)
        last = stream.done if until is None else self._place(starts, until)
        if not first < last:
            raise ValueError(f"{self.name!r} has no period there: {stream.done} are over, from {readable(starts[0])}")
        return stream.range(first, last)

    def timeline(self) -> dict[str, Sketch]:
        """A private sketch for each period that is over."""
        with self.store.backend.session() as session:
            kept, stream = self._read(session)
        starts = self._starts(kept, stream)
        return {readable(start): stream.range(i, i + 1) for i, start in enumerate(starts[:-1])}

    def facts(self) -> dict[str, Any]:
        """What is promised, and how far it is, as values of JSON."""
        with self.store.backend.session() as session:
            kept, stream = self._read(session)
        mechanism = stream.state["mechanism"]
        words = f"epsilon={mechanism['epsilon']:g}, delta={mechanism['delta']:g}"
        return {
            "name": self.name, "dataset": self.dataset.name, "periods": stream.periods, "done": stream.done,
            "first": readable(int(kept["first"])), "privacy": words,
            "records_per_user": stream.state["records_per_user"],
        }  # fmt: skip

    def _starts(self, kept: Mapping[str, Any], stream: ContinualRelease) -> list[int]:
        """Where the periods that are over begin, and the end of the last."""
        every = self.dataset.every
        assert every is not None
        found = [int(kept["first"])]
        for _ in range(stream.done):
            found.append(int(every.after(found[-1])))
        return found

    def _place(self, starts: list[int], when: Any) -> int:
        try:
            return starts.index(moment(when))
        except ValueError:
            raise ValueError(
                f"{when} is not the edge of a period of {self.name!r} that is over: they go from {readable(starts[0])} "
                f"to {readable(starts[-1])}"
            ) from None

    # -- keeping -----------------------------------------------------------------------------

    def _read(self, session: Session) -> tuple[dict[str, Any], ContinualRelease]:
        from sketchlearn.privacy.continual import ContinualRelease

        self.store.backend.check(session)
        text = session.one("SELECT value FROM store WHERE key = ?", [_key(self.name)])
        if text is None:
            raise ValueError(f"{self.store.backend.place}: nothing was published under the name {self.name!r}")
        kept = json.loads(text)
        features = self.dataset.features
        nodes: dict[tuple[int, int], Sketch] = {}
        for cells in session.cells("dataset = ?", [kept["nodes"]]):
            numbers = zip(cells.label.tolist(), cells.source.tolist(), sketches_of(cells, features), strict=True)
            nodes |= {(level, number): s for level, number, s in numbers}
        open_sums = [Sketch.empty(features)] * len(kept["open"])
        for level, number in enumerate(kept["open"]):
            for cells in session.cells("dataset = ?", [number]):
                open_sums[level] = sketches_of(cells, features)[0]
        try:
            return kept, ContinualRelease.resumed(features, kept["stream"], open_sums, nodes)
        except (ValueError, TypeError, KeyError) as error:
            raise SketchFileError(f"{self.store.backend.place}: the publication {self.name!r}: {error}") from None

    def _write(
        self, session: Session, kept: dict[str, Any], stream: ContinualRelease, before: set[tuple[int, int]]
    ) -> None:
        """The state of the tree, and its new nodes."""
        kept = {**kept, "stream": stream.state}
        session.rows("UPDATE store SET value = ? WHERE key = ?", [json.dumps(kept), _key(self.name)])
        new = {place: s for place, s in stream.nodes.items() if place not in before}
        places, nowhere = list(new), [0] * len(new)
        levels, numbers = [level for level, _ in places], [number for _, number in places]
        session.append(kept["nodes"], cells_of(list(new.values()), nowhere, nowhere, levels, numbers))
        for level, s in enumerate(stream.open_sums):
            session.rows("DELETE FROM cells WHERE dataset = ?", [kept["open"][level]])
            if s.weight or s.skipped:
                session.append(kept["open"][level], cells_of([s], [0], [0], [level], 0))


def publish(
    store: StoreBase,
    name: str,
    dataset: Dataset,
    /,
    *,
    epsilon: float,
    delta: float,
    periods: int,
    first: Any,
    features: FeatureMap | None = None,
    **promise: Any,
) -> Publication:
    """Begin a continual release, with a `promise` of :class:`~sketchlearn.privacy.continual.ContinualRelease`.

    See :meth:`sketchlearn.Store.publish`.
    """
    from sketchlearn.privacy.continual import ContinualRelease
    from sketchlearn.sketches.value import check_same_features

    if dataset.every is None:
        raise ValueError(f"the cells of {dataset.name!r} have no time: release its sketch once, by sl.privatize")
    if not name or not name.isprintable():
        raise ValueError(f"a publication needs a name, got {name!r}")
    start = moment(first)
    if int(dataset.every.floor(start)) != start:
        raise ValueError(f"first={first!r} is not the start of a period of {dataset.every.text}")
    phi = dataset.features if features is None else features
    check_same_features(Sketch.empty(dataset.features), Sketch.empty(phi))
    made = Publication(store, name, dataset)
    with store.backend.session(write=True) as session:
        store.backend.check(session)
        if session.one("SELECT value FROM store WHERE key = ?", [_key(name)]) is not None:
            raise ValueError(f"{name!r} is published already: take Store.published({name!r}), or another name")
        stream = ContinualRelease(phi, epsilon, delta, periods=periods, **promise)
        kept = {
            "dataset": dataset.name, "first": start, "start": start, "nodes": session.number(),
            "open": [session.number() for _ in range(stream.levels)], "stream": stream.state,
        }  # fmt: skip
        session.rows("INSERT INTO store VALUES (?, ?)", [_key(name), json.dumps(kept)])
        store._journal(session, dataset.id, "publish", name=name, epsilon=epsilon, delta=delta, periods=periods)
    return made


def published(store: StoreBase, name: str) -> Publication:
    """A publication that was begun before."""
    with store.backend.session() as session:
        store.backend.check(session)
        text = session.one("SELECT value FROM store WHERE key = ?", [_key(name)])
    if text is None:
        raise ValueError(f"{store.backend.place}: nothing was published under the name {name!r}")
    return Publication(store, name, store.dataset(json.loads(text)["dataset"]))


def _key(name: str) -> str:
    return f"publication {name}"
