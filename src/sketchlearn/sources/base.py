"""One contract for everything that rows can come from: a stream of batches with an optional length."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import RowError, as_rows
from sketchlearn.features.encoder import Encoder, Number
from sketchlearn.sources.once import Once
from sketchlearn.sources.pilot import LOOKED_AT, PILOT_ROWS, NoValidRowsError, Pilot, Reservoir, stride
from sketchlearn.sources.selection import TEXT_OPTIONS, ReadOptions, Selection

_PILOT_PARTS = 32


class Batch(NamedTuple):
    """Some rows with their weights and groups, if there are any.

    Attributes
    ----------
    rows : array (n, dim)
        Numbers, float32 or float64.
    weights : array (n,), optional
        Weights, float64.
    groups : array (n,), optional
        For each row the place of its group in `labels`.
    labels : tuple, optional
        Labels of groups; those of the next batch may be others.
    users : array (n,) of uint64, optional
        A number that tells whose row it is.
    """

    rows: npt.NDArray[np.floating]
    weights: npt.NDArray[np.float64] | None = None
    groups: npt.NDArray[np.int64] | None = None
    labels: tuple[Any, ...] | None = None
    users: npt.NDArray[np.uint64] | None = None

    def cut(self, start: int, stop: int | None = None) -> Batch:
        """Some of the rows, as views."""
        weights = None if self.weights is None else self.weights[start:stop]
        groups = None if self.groups is None else self.groups[start:stop]
        users = None if self.users is None else self.users[start:stop]
        return Batch(self.rows[start:stop], weights, groups, self.labels, users)


def coded(labels: Iterable[Any]) -> tuple[npt.NDArray[np.int64], tuple[Any, ...]]:
    """Groups and labels of a batch from the label of each row."""
    numbers: dict[Any, int] = {}
    codes = np.fromiter((numbers.setdefault(label, len(numbers)) for label in labels), np.int64)
    return codes, tuple(numbers)


class Part(NamedTuple):
    """A stretch of a source that can be opened on its own, here or in another process: a file, or some groups of rows.

    A part of files pickles: `batches` is a value that knows the path, not a function that has it open.
    """

    name: str
    batches: Callable[[int], Iterator[Batch]]
    rows: int | None = None
    identity: str | None = None
    """Changes whenever the content does (for files: path, size and time); None if that can't be known."""


class Reading:
    """One way through the rows of a source: an iterator of batches that knows where it stands.

    Errors about a row (:class:`~sketchlearn.arrays.RowError`) have its number in the source; :meth:`place` says the
    rest.
    """

    def __init__(self, source: Source, size: int, start: int = 0) -> None:
        self._filtered = "where" in source.settings
        self._trail: list[tuple[int, str]] = []
        if source.parts:
            batches = self._chained(source.parts, size, start)
        else:
            batches = _without(source.batches(size), start)
        self._batches = _counted(batches, start)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Let go of what is open."""
        self._batches.close()

    def place(self, row: int) -> str:
        """Where a row that was read is, in words: ``", row 3 of b.parquet"``; empty where there is one place only."""
        return placed(self._trail, row, self._filtered)

    def _chained(self, parts: Sequence[Part], size: int, start: int) -> Iterator[Batch]:
        """Batches of the parts in turn from row `start`; parts of known length before it are not even opened."""
        position = 0
        for part in parts:
            self._trail.append((position, part.name))
            if part.rows is not None and position + part.rows <= start:
                position += part.rows
                continue
            for batch in part.batches(size):
                end = position + len(batch.rows)
                if end > start:
                    yield batch.cut(max(0, start - position))
                position = end


def placed(trail: Sequence[tuple[int, str]], row: int, filtered: bool) -> str:
    """Where a row is, in words, from the first rows and names of the parts up to it."""
    number = bisect.bisect_right(trail, row, key=lambda step: step[0]) - 1
    if number < 0:
        return ""
    first, name = trail[number]
    while number and trail[number - 1][1] == name:
        number -= 1
        first = trail[number][0]
    rows = f"the rows of {name} that pass the condition" if filtered else name
    return f", row {row - first} of {rows}"


def _counted(batches: Iterator[Batch], start: int) -> Generator[Batch, None, None]:
    """Batches, the first of which begins with row `start`; errors about a row count from there."""
    position = start
    try:
        for batch in batches:
            yield batch
            position += len(batch.rows)
    except RowError as error:
        raise error.after(position) from None
    finally:
        close = getattr(batches, "close", None)
        if close:
            close()


def located(batches: Iterator[Batch], place: Callable[[int], str]) -> Iterator[Batch]:
    """Batches whose errors about a row say which row it is."""
    try:
        yield from _counted(batches, 0)
    except RowError as error:
        raise error.placed(place) from None


@dataclass(frozen=True)
class Source:
    """Rows as a stream.

    Made by :func:`sketchlearn.read`; iterating gives arrays of rows.

    Attributes
    ----------
    batches : callable
        Given a number of rows, an iterator over batches of about that size.
    length : int or None
        Number of rows, where it is known beforehand.
    in_memory : bool
        Batches are views of memory that stays valid: they need neither copying nor read-ahead.
    release : callable
        Called now and then during the pass to give memory back to the system (memory-mapped files).
    names : tuple of str or None
        Names of the columns, where they have any.
    grouped : bool
        Batches say the groups of their rows.
    parts : tuple of Part
        Stretches that can be opened on their own, in order; empty for sources that can't be divided.
    settings : mapping
        The options it was opened with: passes over the same files with other options are other passes.
    once : Once or None
        Set for streams that can be read a single time.
    on_device : bool
        Batches are rows in the memory of a GPU; engines that can't use them there copy them.
    home : engine, optional
        Where the rows are, if they are on a cluster: what ``engine="auto"`` means for them.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> source = sl.read(np.arange(12.0).reshape(4, 3))
    >>> source.length, source.sample(2, seed=0).shape
    (4, (2, 3))
    """

    batches: Callable[[int], Iterator[Batch]]
    length: int | None = None
    in_memory: bool = False
    release: Callable[[], None] | None = None
    names: tuple[str, ...] | None = None
    grouped: bool = False
    parts: tuple[Part, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    once: Once | None = None
    on_device: bool = False
    home: Any = None
    delimited: bool = False  # rows are delimited text, so that options about it make sense
    user: str | None = None
    """The column that says whose row it is."""
    max_rows_per_user: int | None = None
    """Batches say whose rows they are, and a pass takes so many of each user."""
    share: float | None = None
    """A pass takes this share of the rows, at random."""
    users_together: bool = False
    """Every user has all rows in one part."""

    @classmethod
    def of_parts(cls, parts: Sequence[Part], names: tuple[str, ...] | None = None, grouped: bool = False) -> Source:
        """One part after the other."""
        lengths = [part.rows for part in parts]
        total = None if any(v is None for v in lengths) else sum(v for v in lengths if v is not None)
        return cls(_Chain(tuple(parts)), total, names=names, grouped=grouped, parts=tuple(parts))

    @classmethod
    def of_stream(
        cls,
        batches: Callable[[int], Iterator[Batch]],
        names: tuple[str, ...] | None = None,
        grouped: bool = False,
    ) -> Source:
        """Rows that come once; a pilot sample of them is kept for the pass."""
        once = Once(batches)
        return cls(once.batches, names=names, grouped=grouped, once=once)

    def stream(self, size: int, start: int = 0) -> Reading:
        """Batches of about `size` rows, leaving out the first `start` rows."""
        return Reading(self, size, start)

    def map(
        self,
        function: Callable[[npt.NDArray[np.floating]], npt.ArrayLike],
        names: Sequence[str] | None = None,
        mark: str | None = None,
    ) -> Source:
        """A source with other columns: blocks of rows go through a function as they are read.

        Weights, groups and the order of rows stay.  An engine of several processes needs a function that pickles.

        Parameters
        ----------
        function : callable
            From a block of rows (n, columns) to a block (n, other columns); each row must come out on its own.
        names : sequence of str, optional
            Names of the new columns.
        mark : str, optional
            What the function does, in words that change when it does: checkpoints compare it.  Without one, a pass
            can't be resumed.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> source = sl.read(np.arange(6.0).reshape(3, 2)).map(lambda rows: rows[:, :1] ** 2)
        >>> [rows.tolist() for rows in source]
        [[[0.0], [4.0], [16.0]]]
        """
        chosen = None if names is None else tuple(names)
        if self.once is not None:
            stream = Source.of_stream(Mapped(self.once.batches, function), chosen, self.grouped)
            return replace(stream, settings=self.settings)
        parts = tuple(
            p._replace(batches=Mapped(p.batches, function), identity=p.identity if mark is not None else None)
            for p in self.parts
        )
        return replace(
            self,
            batches=Mapped(self.batches, function),
            in_memory=False,
            names=chosen,
            parts=parts,
            settings=self.settings if mark is None else {**self.settings, "map": mark},
        )

    def column(self, number: int, dim: int) -> str:
        """A column in words: its name, or its number where it has none."""
        if self.names and len(self.names) == dim:
            return f"column {self.names[number]!r}"
        if self.names and len(self.names) == 1:
            return f"position {number} of the lists in column {self.names[0]!r}"
        return f"column {number}"

    def sample(self, rows: int, seed: int = 0) -> npt.NDArray[np.floating]:
        """Up to `rows` rows drawn at random; see :meth:`pilot`."""
        return self.pilot(rows, seed).rows

    def pilot(self, rows: int = PILOT_ROWS, seed: int = 0, missing: bool = False) -> Pilot:
        """Up to `rows` rows drawn at random and their weights, without reading more than a part of large data.

        A million rows are looked at: divisible sources in 32 places spread evenly (files, row groups), arrays
        everywhere, others in their first rows.  Rows that hold NaN, infinity or values beyond 1e30 are left out (with
        `missing`, NaN is an entry that is not there).
        Streams that can be read once keep what was looked at for the pass, and are looked at in their first rows.
        """
        parts: list[Part] = list(self.parts) or [Part("", self.batches)]
        if len(parts) > _PILOT_PARTS:
            parts = [parts[i * len(parts) // _PILOT_PARTS] for i in range(_PILOT_PARTS)]
        step = stride(self.length) if self.in_memory and self.length else 1
        if self.once is not None:
            parts = [Part("", lambda size: self.once.peek(size, rows))]  # type: ignore[union-attr]
        reservoir = Reservoir(rows, seed, missing)
        for part in parts:
            seen = 0
            where = part.name
            for batch in located(part.batches(8192), lambda row, at=where: f" in a part of {at}" if at else ""):  # type: ignore[misc]
                at = slice(-seen % step, None, step)
                reservoir.add(batch.rows[at], None if batch.weights is None else batch.weights[at])
                seen += len(batch.rows)
                if seen >= LOOKED_AT // len(parts) and not self.in_memory:
                    break
        try:
            return reservoir.pilot()
        except NoValidRowsError as error:
            raise NoValidRowsError(error.columns, self.names) from None

    def __iter__(self) -> Iterator[npt.NDArray[np.floating]]:
        reading = self.stream(65536)
        try:
            for batch in reading:
                yield batch.rows
        except RowError as error:
            raise error.placed(reading.place) from None


@dataclass(frozen=True)
class _Chain:
    """Batches of the parts in turn."""

    parts: tuple[Part, ...]

    def __call__(self, size: int) -> Iterator[Batch]:
        for part in self.parts:
            yield from part.batches(size)


@dataclass(frozen=True)
class Mapped:
    """Batches whose rows go through a function."""

    batches: Callable[[int], Iterator[Batch]]
    function: Callable[[npt.NDArray[np.floating]], npt.ArrayLike]

    def __call__(self, size: int) -> Iterator[Batch]:
        for batch in self.batches(size):
            rows = as_rows(self.function(batch.rows), "what the function gives")
            if len(rows) != len(batch.rows):
                raise ValueError(f"the function makes {len(rows)} rows of {len(batch.rows)}: it must keep all of them")
            yield batch._replace(rows=rows)


def _without(batches: Iterator[Batch], start: int) -> Iterator[Batch]:
    if start == 0:
        yield from batches
        return
    position = 0
    for batch in batches:
        if position + len(batch.rows) > start:
            yield batch.cut(max(0, start - position))
        position += len(batch.rows)


# -- opening ---------------------------------------------------------------------------------------


Opener = Callable[[Any, Selection], "Source | None"]
_OPENERS: list[tuple[int, Opener]] = []


def register(rank: int) -> Callable[[Opener], Opener]:
    """Add a kind of source: a function of (data, selection) that returns None if it is not its kind.

    Kinds of lower rank are asked first: 0 for exact types and URLs, 1 for paths, 2 for protocols that many
    types have (Arrow), 3 for arrays, 4 for any iterable.
    """

    def add(opener: Opener) -> Opener:
        _OPENERS.append((rank, opener))
        _OPENERS.sort(key=lambda entry: entry[0])
        return opener

    return add


def library_of(data: Any) -> str:
    """The package that an object comes from."""
    return type(data).__module__.partition(".")[0]


def open_source(data: Any, selection: Selection | None = None) -> Source:
    """The stream behind `data`: the first registered kind that knows it."""
    chosen = selection or Selection()
    if isinstance(data, Source):
        chosen.refuse(
            "rows opened with sl.read: give it there",
            "columns", "weight_column", "group_by", "where", "query", "dataset", "format", "dtype", "sample_weight",
            "user", "sample", *TEXT_OPTIONS,
        )  # fmt: skip
        return data
    for _, opener in _OPENERS:
        source = opener(data, chosen)
        if source is not None:
            if chosen.encoder is not None and source.names != chosen.encoder.names:
                source = _encoded(source, chosen.encoder)
            if not source.delimited:
                chosen.refuse("this data", *TEXT_OPTIONS)
            named = isinstance(chosen.user, str | int)
            user = None if chosen.user is None else str(chosen.user) if named else "an array"
            bound = {"user": user, "max_rows_per_user": chosen.max_rows_per_user, "share": chosen.sample}
            return replace(source, settings=chosen.settings(), **bound)  # type: ignore[arg-type]
    raise TypeError(
        f"can't read rows from {type(data).__name__}: give a path, a 2-D array, a frame, an Arrow stream, or an "
        "iterable of 2-D batches (estimators learn from a sketch with fit_sketch)"
    )


def _encoded(source: Source, encoder: Encoder) -> Source:
    """Rows of arrays, which have numbers only, through the rules of an encoder."""
    if not all(isinstance(rule, Number) for rule in encoder.rules):
        names = [rule.name for rule in encoder.rules if not isinstance(rule, Number)]
        raise ValueError(f"rows without names have no categories, the map expects {', '.join(names[:5])}: give a frame")
    return source.map(_Encode(encoder), encoder.names, mark=repr(encoder))


@dataclass(frozen=True)
class _Encode:
    """Numbers in the order of an encoder's columns, encoded."""

    encoder: Encoder

    def __call__(self, rows: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        if rows.shape[1] != len(self.encoder.rules):
            raise ValueError(f"the encoder is for {len(self.encoder.rules)} columns, the data has {rows.shape[1]}")
        columns = np.asarray(rows, np.float64).T
        parts = [
            rule.encode(x) for rule, x in zip(self.encoder.rules, columns, strict=True) if isinstance(rule, Number)
        ]
        return np.stack([column for part in parts for column in part], axis=1)


def read(data: Any, *, group_by: Any = None, **options: Unpack[ReadOptions]) -> Source:
    """Open a file, a folder, a query, a frame or an array as a stream of rows.

    :func:`sketchlearn.sketch` takes the same options and calls this itself; call it to look at the column
    names or to take a pilot sample for :func:`sketchlearn.design`.

    Parameters
    ----------
    data : path, glob, URL, connection, array, frame, Arrow stream, or iterable of batches
        Parquet, CSV and TSV (compressed too), Arrow IPC, JSON lines, ``.npy``, HDF5 and Zarr by their
        suffix; SQLite and DuckDB files, ``duckdb:`` and ``postgresql://`` with `query`.
    columns : sequence of str or int, optional
        Columns to read, in this order; by default all except `weight_column` and `group_by`. A single column of lists
        can hold whole rows (embeddings). For arrays, give numbers of columns; for structured arrays, names of fields;
        for HDF5 and Zarr, names of 1-D datasets.
    weight_column : str or int, optional
        Column with the weights of the rows; its number for arrays, or the name of a 1-D dataset next to them.
    group_by : str, int or array, optional
        Column with the group of each row (the same way), or an array of labels for rows in memory.
    where : str or (column, operator, value), or several of them, optional
        Which rows to read: ``"age >= 30"``, ``"country in (DE, FR) and not (age < 18 or day between 2024-03-01 and
        2024-03-31)"``; all conditions must hold. Parquet leaves out row groups that can't have any.
    query : str, optional
        An SQL query; its result is the rows.
    dataset : str, optional
        Name of the array inside an HDF5 file or a Zarr group.
    format : str, optional
        The format of files whose suffix doesn't show it: "parquet", "csv", "tsv", "arrow", "jsonl", "npy", "hdf5",
        "zarr", "sqlite", "duckdb".
    dtype : {"float32", "float64"}, optional
        Read all columns as this type.  Text is read as float64 by default; say "float32" for text that was
        written from float32.
    delimiter, decimal, encoding : str, optional
        For CSV: the separator of columns (``";"``, ``"tab"``), the decimal sign (``","``), and the encoding of the text
        (``"latin-1"``, ``"utf-16"``, ...; UTF-8 by default).
    encoder : Encoder, optional
        Rules for categories and missing values. A feature map that has an encoder uses its own.
    sample_weight : array, optional
        One weight per row, for rows in memory.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, sketchlearn as sl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "day.csv"
    ...     _ = path.write_text("x,y,name\\n1,2,a\\n3,4,b\\n")
    ...     source = sl.read(path, columns=["x", "y"])
    ...     source.names, [rows.tolist() for rows in source]
    (('x', 'y'), [[[1.0, 2.0], [3.0, 4.0]]])
    """
    return open_source(data, Selection.of(group_by=group_by, **options))
