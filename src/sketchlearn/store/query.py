"""Selections of cells: merged into one sketch, or into one for each period and group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

import numpy as np

from sketchlearn.arrays import AnyArray, Ints
from sketchlearn.optional import optional
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.store.backend import Session
from sketchlearn.store.cells import Totals, times, weights_of_ages
from sketchlearn.store.keys import Label, as_label
from sketchlearn.store.periods import Period, moment, readable

if TYPE_CHECKING:
    from sketchlearn.comparison import Alarm, Comparison
    from sketchlearn.store.dataset import Dataset
    from sketchlearn.store.identities import Clusters
    from sketchlearn.store.store import StoreBase
    from sketchlearn.store.watch import ChangePoint, Check

Where = Mapping[str, Any] | str | Callable[[dict[str, Label]], bool] | None
Key = tuple[int | None, tuple[Label, ...]]


@dataclass(frozen=True)
class Query:
    """A selection of the cells of a dataset; nothing is read until something is asked of it.

    Made by :meth:`sketchlearn.Store.query`.

    Attributes
    ----------
    store : Store
        Where the cells are.
    dataset : Dataset
        Whose cells they are.
    since, until : int or None
        Beginning (inclusive) and end (exclusive) in microseconds UTC.
    where : mapping, str, callable or None
        Condition on the group columns.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
    >>> days = np.repeat(np.array(["2024-05-01", "2024-05-02", "2024-06-01"], "M8[D]"), 100)
    >>> store = sl.Store(":memory:")
    >>> _ = store.ingest(X, phi, time=days, every="1d", group_by={"shop": ["a", "b"] * 150})
    >>> store.query(since="2024-05-01", until="2024-06-01", where={"shop": "a"}).sketch().count
    100
    >>> store.query().table(by="shop")
    SketchTable(2 groups, 300 rows, 20 features)
    >>> [(month, s.count) for month, s in store.query().timeline("1mo").items()]
    [('2024-05-01', 200), ('2024-06-01', 100)]
    """

    store: StoreBase
    dataset: Dataset
    since: int | None = None
    until: int | None = None
    where: Where = None

    # -- what is selected --------------------------------------------------------------------

    def between(self, since: Any = None, until: Any = None) -> Query:
        """This selection in another time range."""
        return changed(
            self, since=None if since is None else moment(since), until=None if until is None else moment(until)
        )

    def _condition(self, session: Session) -> tuple[str, list[Any]]:
        """The selection in SQL; refuses a range that cuts a cell."""
        condition, values = "dataset = ?", [self.dataset.id]
        if self.where is not None:
            chosen = self._chosen(session)
            condition += f" AND label IN ({', '.join(map(str, chosen))})" if chosen else " AND FALSE"
        if self.since is None and self.until is None:
            return condition, values
        if self.dataset.every is None:
            raise ValueError(f"the cells of {self.dataset.name!r} have no time")
        for end in (self.since, self.until):
            if end is not None:
                cut = session.rows(
                    f"SELECT start, stop FROM cells WHERE {condition} AND start < ? AND stop > ? LIMIT 1",
                    [*values, end, end],
                )
                if cut:
                    raise ValueError(
                        f"{readable(end)} is inside a cell from {readable(cut[0][0])} to {readable(cut[0][1])}: "
                        "choose a range of whole cells"
                    )
        for end, side in ((self.since, "start >= ?"), (self.until, "stop <= ?")):
            if end is not None:
                condition, values = f"{condition} AND {side}", [*values, end]
        return condition, values

    def _chosen(self, session: Session) -> list[int]:
        """Numbers of the labels that meet the condition on groups."""
        labels = self.store._labels(session, self.dataset.id)
        names = self.dataset.groups
        where = self.where
        if isinstance(where, str):
            return _matching(where, names, labels)
        if isinstance(where, Mapping):
            unknown = sorted(set(where) - set(names))
            if unknown:
                raise ValueError(f"{unknown[0]!r} is not a group column; there are {', '.join(names) or 'none'}")
            wanted = {
                name: {as_label(v) for v in (value if isinstance(value, list | tuple | set) else [value])}
                for name, value in where.items()
            }
            return [n for key, n in labels.items() if all(key[names.index(k)] in v for k, v in wanted.items())]
        assert callable(where)
        return [n for key, n in labels.items() if where(dict(zip(names, key, strict=True)))]

    def cell_keys(self) -> list[tuple[int | None, int | None, tuple[Label, ...]]]:
        """Buckets and groups that have cells, in their order: (start, stop, labels)."""
        with self.store.backend.session() as session:
            return self._keys(session)

    def _keys(self, session: Session) -> list[tuple[int | None, int | None, tuple[Label, ...]]]:
        condition, values = self._condition(session)
        names = {number: key for key, number in self.store._labels(session, self.dataset.id).items()}
        found = session.rows(f"SELECT DISTINCT start, stop, label FROM cells WHERE {condition}", values)
        return sorted(((a, b, names[n]) for a, b, n in found), key=lambda k: (k[0] or 0, str(k[2])))

    @property
    def count(self) -> int | float:
        """Rows behind the selected cells."""
        with self.store.backend.session() as session:
            condition, values = self._condition(session)
            found = session.rows(
                f"SELECT weight_bits, sum(weight) FROM cells WHERE {condition} GROUP BY weight_bits", values
            )
        total = sum(int(weight) / 2**bits if bits else int(weight) for bits, weight in found)
        return int(total) if total == int(total) else total

    # -- sketches ----------------------------------------------------------------------------

    def sketch(self, *, decay: str | Period | None = None, now: Any = None, users: str | None = None) -> Sketch:
        """The sketch of all rows behind the selected cells: the bytes of one pass over them.

        Parameters
        ----------
        decay : str, optional
            Half-life: a cell that ended one half-life before `now` counts half (exponential forgetting).  Weights
            are on the grid of sample weights, and the noise of the result is known.
        now : date, time or text, optional
            For `decay`; by default the end of the latest cell.
        users : {"disjoint", "same"}, optional
            For cells that were released with differential privacy: whether somebody may be behind two of them.
        """
        with self.store.backend.session() as session:
            condition, values = self._condition(session)
            chosen = self.store._chosen(session, self.dataset.id)
            totals = Totals(self.dataset.features, 1)
            if decay is not None:
                self._add_decayed(session, condition, values, totals, Period.of(decay), now)
            else:
                for cells in session.cells(condition, values):
                    totals.add(cells, np.zeros(len(cells), np.int64))
        if users is not None:
            from sketchlearn.privacy import combine

            return combine(totals.singles(), users=users)
        result = totals.sketches()[0]
        if result.is_empty:
            raise ValueError("no cell was selected: there is nothing to make a sketch of")
        return _by_content(result) if chosen or (self.where, self.since, self.until) != (None,) * 3 else result

    def _add_decayed(
        self, session: Session, condition: str, values: list[Any], totals: Totals, period: Period, now: Any
    ) -> None:
        if self.dataset.every is None:
            raise ValueError("forgetting needs cells with a time")
        latest, rows = session.rows(f"SELECT max(stop), sum(weight) FROM cells WHERE {condition}", values)[0]
        if latest is None:
            return
        end = latest if now is None else moment(now)
        length = period.micros or 30.436875 * 86400e6 * period.months  # a month is 1/12 of a Gregorian year
        for cells in session.cells(condition, values):
            ages = np.maximum(end - cells.stop, 0) / length
            factors, bits = weights_of_ages(ages, float(rows), self.dataset.features)
            totals.add(cells, np.where(factors > 0, 0, -1).astype(np.int64), factors, bits)

    def _grouped(self, keys: Callable[[Any], Any]) -> dict[Any, Sketch]:
        """A sketch for each value of a function of (start, stop, labels); cells with the value None are left out."""
        with self.store.backend.session() as session:
            found = self._keys(session)
            names = self.store._labels(session, self.dataset.id)
            made = [keys(key) for key in found]
            order = sorted({k for k in made if k is not None}, key=_order)
            code_of = {k: i for i, k in enumerate(order)}
            place = np.array([-1 if k is None else code_of[k] for k in made], np.int64)
            columns = (
                times(a for a, _, _ in found), times(b for _, b, _ in found),
                np.array([names[labels] for _, _, labels in found], np.int64),
            )  # fmt: skip
            find = _Lookup(columns, place)
            totals = Totals(self.dataset.features, len(order))
            condition, values = self._condition(session)
            for cells in session.cells(condition, values):
                totals.add(cells, find(cells.start, cells.stop, cells.label))
        if not order:
            raise ValueError("no cell was selected: there is nothing to make a sketch of")
        return dict(zip(order, map(_by_content, totals.sketches()), strict=True))

    def table(self, by: str | Sequence[str] | None = None) -> SketchTable:
        """One sketch for each value of a group column; of several columns labels are joined by ``" / "``."""
        chosen = self.dataset.groups if by is None else (by,) if isinstance(by, str) else tuple(by)
        places = [self._place(name) for name in chosen]
        if not places:
            raise ValueError("this dataset has no group columns")
        if len(places) == 1:
            missing = object()
            found = self._grouped(lambda key: missing if key[2][places[0]] is None else key[2][places[0]])
            return SketchTable({None if k is missing else k: s for k, s in found.items()})
        return SketchTable(self._grouped(lambda key: " / ".join(str(key[2][i]) for i in places)))

    def _place(self, name: str) -> int:
        if name not in self.dataset.groups:
            raise ValueError(f"{name!r} is not a group column; there are {', '.join(self.dataset.groups) or 'none'}")
        return self.dataset.groups.index(name)

    def timeline(self, every: str | Period | None = None) -> dict[str, Sketch]:
        """One sketch for each period, in their order; by default for each bucket of the dataset."""
        return {readable(start): s for start, s in self._timeline(every).items()}

    def _timeline(self, every: str | Period | None = None) -> dict[int, Sketch]:
        own = self.dataset.every
        if own is None:
            raise ValueError(f"the cells of {self.dataset.name!r} have no time")
        period = own if every is None else Period.of(every)

        def key(cell: tuple[int, int, Any]) -> int:
            start = int(period.floor(cell[0]))
            if cell[1] > int(period.after(start)):
                raise ValueError(
                    f"a cell from {readable(cell[0])} to {readable(cell[1])} doesn't fit into periods of {period.text}"
                )
            return start

        return self._grouped(key)

    def sliding(self, window: str | Period, every: str | Period | None = None) -> Iterator[tuple[str, Sketch]]:
        """Windows that end with each period: what comes is added, what leaves is subtracted.

        Parameters
        ----------
        window : str
            Length of a window, for example ``"7d"``.
        every : str, optional
            Length of a step; by default a bucket of the dataset.

        Yields
        ------
        (str, Sketch)
            Beginning of the last period of the window, and the sketch of the rows of the window, to the byte.
        """
        length = Period.of(window)
        parts = self._timeline(every)
        step = Period.of(every) if every is not None else self.dataset.every
        assert step is not None
        total: Sketch | None = None
        inside: list[int] = []
        for start, part in parts.items():
            total = part if total is None else total + part
            inside.append(start)
            first = int(length.after(int(step.after(start)), -1))
            while inside[0] < first:
                total = total - parts[inside.pop(0)]
            # the box does not shrink by subtracting: it is that of the parts that are left
            lower = np.min([parts[i].lower for i in inside], axis=0) + 0.0
            upper = np.max([parts[i].upper for i in inside], axis=0) + 0.0
            total = changed(total, lower=lower, upper=upper)
            yield readable(start), total

    # -- learning ----------------------------------------------------------------------------

    def learn(self, estimator: Any, **options: Any) -> Any:
        """An estimator fitted to the sketch of the selection (`options` as for :meth:`sketch`)."""
        return estimator.fit_sketch(self.sketch(**options))

    def kmeans(self, n_clusters: int, **options: Any) -> Any:
        """Cluster centres: a fitted :class:`sketchlearn.CompressiveKMeans`.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 2)) + rng.choice([-6.0, 6.0], size=(2000, 1))
        >>> store = sl.Store(":memory:")
        >>> _ = store.ingest(X, sl.design(X, n_components=2), source="today")
        >>> np.sort(store.query().kmeans(2, random_state=0).cluster_centers_[:, 0]).round()
        array([-6.,  6.])
        """
        from sketchlearn.learn import CompressiveKMeans

        return self.learn(CompressiveKMeans(n_clusters, **options))

    def clusters(self, n_clusters: int | None = None, *, every: str | Period | None = None) -> list[Clusters]:
        """Clusters of each period, which keep their identities; see :func:`sketchlearn.store.identities.follow`."""
        from sketchlearn.store.identities import follow

        return follow(self.timeline(every), n_clusters)

    def gmm(self, n_components: int, **options: Any) -> Any:
        """A Gaussian mixture: a fitted :class:`sketchlearn.CompressiveGaussianMixture`."""
        from sketchlearn.learn import CompressiveGaussianMixture

        return self.learn(CompressiveGaussianMixture(n_components, **options))

    def pca(self, n_components: int, **options: Any) -> Any:
        """Principal directions: a fitted :class:`sketchlearn.CompressivePCA`; the map must be quadratic."""
        from sketchlearn.learn import CompressivePCA

        return self.learn(CompressivePCA(n_components, **options))

    def compare(self, other: Query) -> Comparison:
        """Whether two selections come from one distribution; no cell may be in both."""
        from sketchlearn.comparison import compare

        if self.dataset.id == other.dataset.id and self.store is other.store:
            both = set(self.cell_keys()) & set(other.cell_keys())
            if both:
                start, _, labels = min(both, key=str)
                raise ValueError(
                    f"both selections have the cell {readable(start)} {' / '.join(map(str, labels))}: rows that are in "
                    "both can't be compared with themselves"
                )
        return compare(self.sketch(), other.sketch())

    # -- drift -------------------------------------------------------------------------------

    def drift(self, every: str | Period | None = None, **options: Any) -> list[Alarm]:
        """Compare each period with the first, the one before or all others; see :func:`sketchlearn.comparison.drift`.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(3000, 2))
        >>> X[2000:, 1] += 0.5
        >>> phi = sl.FourierFeatures.draw(dim=2, size=60, scale=1.5, seed=0).with_columns(["a", "b"])
        >>> store = sl.Store(":memory:")
        >>> day = np.datetime64("2024-05-01") + np.arange(3000) // 500
        >>> _ = store.ingest(X, phi, time=day, every="1d")
        >>> [alarm.change.label for alarm in store.query().drift(against="previous") if alarm.differs]
        ['2024-05-05']
        >>> [(point.period, point.columns[0].column) for point in store.query().change_points()]
        [('2024-05-05', 'b')]
        >>> store.query().check(at="2024-05-05").differs, store.query().check(at="2024-05-03").differs
        (True, False)
        """
        from sketchlearn.comparison import drift

        return drift(self.timeline(every), **options)

    def change_points(self, every: str | Period | None = None, *, alpha: float = 0.01) -> list[ChangePoint]:
        """When the rows changed, and which columns; `alpha` is the probability of any false one."""
        from sketchlearn.store.watch import change_points

        return change_points(self.timeline(every), alpha)

    def check(self, **options: Any) -> Check:
        """Compare the latest period with the time before it, at a level that is right for checks that never end.

        Parameters
        ----------
        at : date, time or text, optional
            A moment in the period; by default the latest.
        every : str, optional
            Length of the period; by default a bucket of the dataset.
        reference : str
            Length of the time before it that it is compared with: ``"28d"``.
        alpha, horizon : float, str
            Probability of any false alarm within so much time: 0.1 in a year (``"1y"``).
        min_distance : float
            Smaller distances are no alarm, however sure they are.
        """
        from sketchlearn.store.watch import check

        return check(self, **options)


def _by_content(sketch: Sketch) -> Sketch:
    """The sketch, marked: times and groups of the rows, or a condition, have decided how many there are."""
    return changed(sketch, origin=changed(sketch.origin, by_content=True))


class _Lookup:
    """From columns of keys to numbers, by sorting."""

    def __init__(self, columns: Sequence[Ints], codes: Ints) -> None:
        stacked = np.stack(columns, axis=1) if len(codes) else np.zeros((0, len(columns)), np.int64)
        self._order = np.lexsort(stacked.T[::-1])
        self._rows = _records(stacked[self._order])
        self._codes = codes[self._order]

    def __call__(self, *columns: Ints) -> Ints:
        wanted = _records(np.stack(columns, axis=1))
        return self._codes[np.searchsorted(self._rows, wanted)]


def _records(rows: Ints) -> AnyArray:
    """Rows of numbers that compare as wholes."""
    kinds = [(f"k{j}", np.int64) for j in range(rows.shape[1])]
    out = np.empty(len(rows), kinds)
    for j, (name, _) in enumerate(kinds):
        out[name] = rows[:, j]
    return out


def _order(key: Any) -> tuple[Any, ...]:
    return (type(key).__name__ == "object", type(key).__name__, key if type(key) is not object else 0)


def _matching(where: str, names: Sequence[str], labels: Mapping[tuple[Label, ...], int]) -> list[int]:
    """Numbers of the labels that meet a condition in words."""
    from sketchlearn.sources.conditions import arrow_expression, columns_in, parse_condition

    pa = optional("pyarrow", "store", "a condition on groups")
    condition = parse_condition(where)
    for name in columns_in((condition,)):
        if name not in names:
            raise ValueError(f"{name!r} is not a group column; there are {', '.join(names) or 'none'}")
    columns = {name: [key[i] for key in labels] for i, name in enumerate(names)}
    table = pa.table({**columns, "\0number": list(labels.values())})
    return table.filter(arrow_expression((condition,), table.schema)).column("\0number").to_pylist()
