"""One contract for everything that rows can come from: a stream of batches with an optional length."""

from __future__ import annotations

import bisect
import hashlib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

EXACT = 2**53  # integers up to here are float64 numbers
_PILOT_PARTS = 32
_PILOT_ROWS = 2**20  # rows looked at for a pilot, in all parts together


class Batch(NamedTuple):
    """Some rows, float32 or float64, with their weights and the numbers of their groups if there are any."""

    rows: npt.NDArray[np.floating]
    weights: npt.NDArray[np.float64] | None = None
    groups: npt.NDArray[np.int64] | None = None

    def cut(self, start: int, stop: int | None = None) -> Batch:
        """Some of the rows, as views."""
        return Batch(*(None if a is None else a[start:stop] for a in self))  # type: ignore[arg-type]


class Part(NamedTuple):
    """A stretch of a source that can be opened on its own: a file, or some row groups of one."""

    name: str
    batches: Callable[[int], Iterator[Batch]]
    rows: int | None = None
    identity: str | None = None
    """Changes whenever the content does (for files: path, size and time); None if that can't be known."""


def located(batches: Iterator[Batch], start: int, place: Callable[[int], str]) -> Iterator[Batch]:
    """The same batches, the first of which begins with row `start`; errors about a row say which one it is."""
    position = start
    try:
        for batch in batches:
            yield batch
            position += len(batch.rows)
    except RowError as error:
        if error.row is None:
            raise
        row = position + error.row
        raise RowError(f"row {row} (counting from 0{place(row)}): {error}") from None


class Labels:
    """Group labels, numbered in the order of their first appearance."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, label: Any) -> int:
        """The number of a label, a new one if it was never seen."""
        found = self._numbers.get(label)
        if found is None:
            found = self._numbers[label] = len(self.values)
            self.values.append(label)
        return found

    def encode(self, labels: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Numbers of many labels."""
        return np.fromiter((self.number(v) for v in labels), np.int64)


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
    labels : Labels or None
        Labels of the groups, complete after the last batch.
    parts : tuple of Part
        Stretches that can be opened on their own, in order; empty for sources that can't be divided.
    settings : mapping
        The options it was opened with: passes over the same files with other options are other passes.
    once : Once or None
        Set for streams that can be read a single time.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> source = sl.read(np.arange(12.0).reshape(4, 3))
    >>> source.length, sum(len(rows) for rows in source)
    (4, 4)
    >>> source.sample(2, seed=0).shape
    (2, 3)
    """

    batches: Callable[[int], Iterator[Batch]]
    length: int | None = None
    in_memory: bool = False
    release: Callable[[], None] | None = None
    names: tuple[str, ...] | None = None
    labels: Labels | None = None
    parts: tuple[Part, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    once: Once | None = None
    _trail: list[tuple[int, str]] = field(default_factory=list, repr=False)

    @classmethod
    def of_parts(
        cls, parts: Sequence[Part], names: tuple[str, ...] | None = None, labels: Labels | None = None
    ) -> Source:
        """One part after the other."""
        lengths = [part.rows for part in parts]
        total = None if any(v is None for v in lengths) else sum(v for v in lengths if v is not None)
        trail: list[tuple[int, str]] = []

        def batches(size: int) -> Iterator[Batch]:
            return _chain(parts, size, 0, trail)

        return cls(batches, total, names=names, labels=labels, parts=tuple(parts), _trail=trail)

    @classmethod
    def of_stream(
        cls,
        batches: Callable[[int], Iterator[Batch]],
        names: tuple[str, ...] | None = None,
        labels: Labels | None = None,
    ) -> Source:
        """Rows that come once; a pilot sample of them is kept for the pass."""
        once = Once(batches)
        return cls(once.batches, names=names, labels=labels, once=once)

    def stream(self, size: int, start: int = 0) -> Iterator[Batch]:
        """Batches of about `size` rows, leaving out the first `start` rows."""
        if start == 0:
            batches = self.batches(size)
        elif self.parts:
            batches = _chain(self.parts, size, start, self._trail)
        else:
            batches = _without(self.batches(size), start)
        return located(batches, start, self.place)

    def place(self, row: int) -> str:
        """Where a row that was read is, in words: ``", row 3 of b.parquet"``; empty where there is one place only."""
        number = bisect.bisect_right(self._trail, row, key=lambda step: step[0]) - 1
        if number < 0:
            return ""
        first, name = self._trail[number]
        while number and self._trail[number - 1][1] == name:
            number -= 1
            first = self._trail[number][0]
        which = "of those that pass the condition in" if "where" in self.settings else "of"
        return f", row {row - first} {which} {name}"

    def column(self, number: int, dim: int) -> str:
        """A column in words: its name, or its number where it has none."""
        if self.names and len(self.names) == dim:
            return f"column {self.names[number]!r}"
        if self.names and len(self.names) == 1:
            return f"position {number} of the lists in column {self.names[0]!r}"
        return f"column {number}"

    def sample(self, rows: int, seed: int = 0) -> npt.NDArray[np.floating]:
        """A pilot: up to `rows` rows drawn at random, without reading more than a part of large data.

        Divisible sources are looked at in 32 places spread evenly (files, row groups), others in their first
        rows; rows that hold NaN or infinity are left out.  Streams that can be read once keep what was looked at
        for the pass.
        """
        # a stream of its own: data is often made with default_rng(0), and keys must not depend on it
        rng = np.random.default_rng([seed, 0x70696C6F])
        parts: list[Part] = list(self.parts) or [Part("", self.batches)]
        if len(parts) > _PILOT_PARTS:
            parts = [parts[i * len(parts) // _PILOT_PARTS] for i in range(_PILOT_PARTS)]
        keys: npt.NDArray[np.float64] = np.empty(0)
        kept: npt.NDArray[np.floating] | None = None
        if self.in_memory and self.length and self.length > rows:
            # sorted data is common: look everywhere
            step = max(1, min(self.length // rows, 64))
            parts = [Part("", lambda size: (Batch(b.rows[::step]) for b in self.batches(size)))]
        if self.once is not None:
            parts = [Part("", lambda size: self.once.peek(size, rows))]  # type: ignore[union-attr]
        for part in parts:
            seen = 0
            where = part.name
            for batch in located(part.batches(8192), 0, lambda row, at=where: f" in a part of {at}" if at else ""):  # type: ignore[misc]
                block = batch.rows[np.isfinite(batch.rows).all(1)]
                # the rows with the smallest of independent random keys are a uniform sample
                keys = np.concatenate([keys, rng.random(len(block))])
                kept = np.array(block) if kept is None else np.concatenate([kept, block])
                if len(keys) > rows:
                    chosen = np.sort(np.argpartition(keys, rows - 1)[:rows])
                    keys, kept = keys[chosen], kept[chosen]
                seen += len(batch.rows)
                if seen >= _PILOT_ROWS // len(parts) and not self.in_memory:
                    break
        if kept is None or not len(kept):
            raise ValueError("there are no valid rows in the data: nothing to take a sample from")
        return kept

    def __iter__(self) -> Iterator[npt.NDArray[np.floating]]:
        for batch in self.stream(65536):
            yield batch.rows


class Once:
    """A stream of batches that can be looked into before it is read, and read once."""

    def __init__(self, batches: Callable[[int], Iterator[Batch]]) -> None:
        self._open = batches
        self._stream: Iterator[Batch] | None = None
        self._seen: list[Batch] = []
        self._read = False

    def peek(self, size: int, rows: int) -> Iterator[Batch]:
        """Batches with at least so many rows in all; they stay in the stream."""
        self._check()
        if self._stream is None:
            self._stream = self._open(size)
        while sum(len(b.rows) for b in self._seen) < rows and (batch := next(self._stream, None)) is not None:
            self._seen.append(batch)
        return iter(self._seen)

    def batches(self, size: int) -> Iterator[Batch]:
        """All batches, those that were looked at first."""
        self._check()
        self._read = True
        seen, self._seen = self._seen, []
        return chain(seen, self._stream or self._open(size))

    def _check(self) -> None:
        if self._read:
            raise ValueError("this stream can be read once, and it was: open it again")


def _chain(parts: Sequence[Part], size: int, start: int, trail: list[tuple[int, str]]) -> Iterator[Batch]:
    """Batches of the parts in turn from row `start`; parts of known length before it are not even opened."""
    position = 0
    trail.clear()
    for part in parts:
        trail.append((position, part.name))
        if part.rows is not None and position + part.rows <= start:
            position += part.rows
            continue
        for batch in part.batches(size):
            end = position + len(batch.rows)
            if end > start:
                yield batch.cut(max(0, start - position))
            position = end


def _without(batches: Iterator[Batch], start: int) -> Iterator[Batch]:
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
        )  # fmt: skip
        return data
    for _, opener in _OPENERS:
        source = opener(data, chosen)
        if source is not None:
            return replace(source, settings=chosen.settings())
    raise TypeError(
        f"can't read rows from {type(data).__name__}: give a path, a 2-D array, a frame, an Arrow stream, or an "
        "iterable of 2-D batches"
    )


def read(
    data: Any,
    *,
    columns: Sequence[str | int] | str | None = None,
    weight_column: str | int | None = None,
    group_by: Any = None,
    where: Any = None,
    query: str | None = None,
    dataset: str | None = None,
    format: str | None = None,
    dtype: str | None = None,
) -> Source:
    """Open a file, a folder, a query, a frame or an array as a stream of rows.

    :func:`sketchlearn.sketch` takes the same options and calls this itself; call it to look at the column
    names or to take a pilot sample for :func:`sketchlearn.design`.

    Parameters
    ----------
    data : path, glob, URL, connection, array, frame, Arrow stream, or iterable of batches
        Parquet, CSV and TSV (compressed too), Arrow IPC, JSON lines, ``.npy``, HDF5 and Zarr by their
        suffix; SQLite and DuckDB files, ``duckdb:`` and ``postgresql://`` with `query`.
    columns : sequence of str or int, optional
        Columns to read, in this order; by default all (but for `weight_column` and `group_by`).  One column
        of lists is taken as the rows themselves (embeddings).  Numbers for arrays, whose columns have no names;
        names of fields for structured arrays, names of 1-D datasets for HDF5 and Zarr.
    weight_column : str or int, optional
        Column with the weights of the rows; its number for arrays, or the name of a 1-D dataset next to them.
    group_by : str, int or array, optional
        Column with the group of each row (the same way), or an array of labels for rows in memory.
    where : str or (column, operator, value), or several of them, optional
        Rows to read: ``"age >= 30"``; all conditions must hold.  Parquet leaves out row groups that can't
        have any.
    query : str, optional
        SQL whose result are the rows.
    dataset : str, optional
        Name of the array inside an HDF5 file or a Zarr group.
    format : str, optional
        For files whose suffix doesn't tell: "parquet", "csv", "tsv", "arrow", "jsonl", "npy", "hdf5",
        "zarr", "sqlite", "duckdb".
    dtype : {"float32", "float64"}, optional
        Read all columns as this type.  Text is read as float64 by default; say "float32" for text that was
        written from float32.

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
    return open_source(
        data,
        Selection.of(
            columns=columns, weight_column=weight_column, group_by=group_by, where=where, query=query,
            dataset=dataset, format=format, dtype=dtype,
        ),
    )  # fmt: skip
