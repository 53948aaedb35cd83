"""At most so many rows of one user: whose rows they are, which of them count, and where they wait meanwhile.

The rows of a user that count are those with the smallest hashes of (user, row, group).  The choice follows from the
rows alone, so it is the same whatever their order, batches and engine; equal rows have equal hashes, and whichever of
them is taken, the sums are the same.  Sketches of a few rows per user say more about the users than about the rows: a
user with many rows counts no more than one with few.  Most users have fewer rows than count: rows are hashed only where
a table of numbers of rows, by some bits of the user, says that somebody may have more.

Rows in memory are looked at twice.  Others wait in partitions by user: in memory up to a limit, then in files.  Of each
partition only the rows that may still count are kept.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels._constants import MIX
from sketchlearn.kernels.users import U64, certain, chosen, row_hashes
from sketchlearn.sources.base import Batch, Mapped, Part, Source

_MIX = tuple(map(np.uint64, MIX))
_NULL = np.uint64(0x6E756C6C)  # rows without a user are those of one user
_PARTITIONS = 64  # by user; each must fit memory
_WAITING = 2**28  # bytes of rows that wait in memory before they go to files
_BATCH = 2**16  # rows read together
_BLOCK = 2**13  # users looked at together: what is in between stays in the cache


# -- hashes ----------------------------------------------------------------------------------------


def _mixed(h: U64) -> U64:
    with np.errstate(over="ignore"):
        h = h ^ (h >> np.uint64(30))
        h *= _MIX[1]
        h ^= h >> np.uint64(27)
        h *= _MIX[2]
        h ^= h >> np.uint64(31)
    return h


def of_integers(values: npt.NDArray[Any]) -> U64:
    """Users from whole numbers."""
    out = np.empty(len(values), np.uint64)
    for i in range(0, len(values), _BLOCK):
        block = values[i : i + _BLOCK]
        numbers = block if block.dtype == np.uint64 else block.astype(np.int64, copy=False)
        out[i : i + _BLOCK] = _mixed(numbers.view(np.uint64) + _MIX[0])
    return out


def of_text(values: Any) -> U64:
    """Users from text or other objects, one by one."""
    found = (hashlib.blake2b(str(v).encode("utf-8", "surrogatepass"), digest_size=8).digest() for v in values)
    return np.frombuffer(b"".join(found), "<u8").astype(np.uint64)


def of_array(user: Any, rows: int) -> U64:
    """Users from an array with one for each row."""
    values = np.asarray(user)
    if values.shape != (rows,):
        raise ValueError(f"user must have one value per row, got shape {values.shape} for {rows} rows")
    if values.dtype.kind == "f":
        return of_floats(values)
    if values.dtype.kind in "iub":
        return of_integers(values)
    if values.dtype.kind == "M":
        return of_integers(values.astype("datetime64[us]").view(np.int64))
    distinct, codes = np.unique(np.array([str(v) for v in values.tolist()]), return_inverse=True)
    return of_text(distinct.tolist())[codes]


def of_floats(values: npt.NDArray[np.floating]) -> U64:
    """Users from whole numbers that came as floats; NaN is one user."""
    missing = np.isnan(values)
    whole = np.where(missing, 0.0, values).astype(np.float64)
    if not (np.abs(whole) < 2.0**53).all() or not np.array_equal(whole, np.rint(whole)):
        raise ValueError("user holds numbers with decimals; users are text or whole numbers")
    return np.where(missing, _NULL, of_integers(whole.astype(np.int64)))


def of_arrow(pa: Any, column: Any, name: str) -> U64:
    """Users from a column of Arrow; all nulls are one user."""
    types, t = pa.types, column.type
    if types.is_dictionary(t):
        codes = column.indices
        known = of_arrow(pa, column.dictionary, name)
        places = codes.fill_null(0).to_numpy(zero_copy_only=False) if len(known) else np.zeros(len(codes), np.int64)
        found = known[places] if len(known) else np.full(len(codes), _NULL)
        return np.where(_nulls(codes), _NULL, found)
    if types.is_null(t):
        return np.full(len(column), _NULL)
    if types.is_floating(t):
        return of_floats(column.to_numpy(zero_copy_only=False).astype(np.float64))
    if types.is_date(t) or types.is_timestamp(t):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    elif types.is_boolean(t):
        column = column.cast(pa.uint8())
    elif not types.is_integer(t):
        if not (types.is_string(t) or types.is_large_string(t) or types.is_string_view(t) or types.is_binary(t)):
            raise ValueError(f"user={name!r} holds values of type {t}; users are text or whole numbers")
        return np.where(_nulls(column), _NULL, _of_bytes(pa, column))
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(_nulls(column), _NULL, of_integers(values))


def _nulls(column: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _of_bytes(pa: Any, column: Any) -> U64:
    """Hashes of a column of text without a loop over its rows: two polynomials of its bytes modulo 2**64, mixed."""
    column = column.cast(pa.large_binary())
    if not len(column):
        return np.empty(0, np.uint64)
    _, ends, data = column.buffers()
    at = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
    text = np.frombuffer(data, np.uint8)[at[0] : at[-1]].astype(np.uint64) + np.uint64(1) if data else np.empty(0, "u8")
    at = at - at[0]
    lengths = np.diff(at)
    longest = int(lengths.max(initial=0))
    place = np.arange(len(text)) - np.repeat(at[:-1], lengths)
    h = lengths.astype(np.uint64)
    with np.errstate(over="ignore"):
        for base in _MIX[:2]:
            powers = np.cumprod(np.concatenate([np.ones(1, np.uint64), np.full(longest, base)]), dtype=np.uint64)
            totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(text * powers[place], dtype=np.uint64)])
            h = _mixed(h * _MIX[2] + totals[at[1:]] - totals[at[:-1]])
    return h


# -- choosing --------------------------------------------------------------------------------------


def kept(
    users: U64, starts: Sequence[U64], rows: Sequence[npt.NDArray[np.floating]], most: int
) -> npt.NDArray[np.bool_] | None:
    """Which rows count, None for all: what :func:`chosen` says of their hashes, which are made where they decide.

    Users that share some bits are counted together; rows whose users may have more than `most` are hashed.  Rows and
    what their hashes start from are in blocks.
    """
    sure = certain(users, most)
    if sure is None:
        return None
    hashes, end = np.empty(len(users), np.uint64), 0
    for x, start in zip(rows, starts, strict=True):
        mine = slice(end, end := end + len(x))
        if not sure[mine].all():
            hashes[mine] = row_hashes(x, start)
    keep = chosen(users, hashes, most, sure)
    return None if keep.all() else keep


@dataclass
class _Waiting:
    """Rows of some users that may still count, with what their hashes start from."""

    users: list[U64] = field(default_factory=list)
    starts: list[U64] = field(default_factory=list)
    groups: list[npt.NDArray[np.int64]] = field(default_factory=list)
    rows: list[npt.NDArray[np.floating]] = field(default_factory=list)

    def add(self, users: U64, starts: U64, groups: npt.NDArray[np.int64], rows: npt.NDArray[np.floating]) -> None:
        self.users.append(users)
        self.starts.append(starts)
        self.groups.append(groups)
        self.rows.append(rows)

    def pruned(self, most: int) -> tuple[U64, U64, npt.NDArray[np.int64], npt.NDArray[np.floating]]:
        lists: tuple[list[Any], ...] = (self.users, self.starts, self.groups, self.rows)
        users, starts, groups, rows = (np.concatenate(parts) for parts in lists)
        keep = kept(users, [starts], [rows], most)
        return (users, starts, groups, rows) if keep is None else (users[keep], starts[keep], groups[keep], rows[keep])


class Bounded:
    """A source with at most so many rows of each user, and the files in which its rows wait.

    `source`: its batches say whose rows they are. `most`: rows of one user. `to_files`: rows wait in files from the
    beginning, for engines of several processes.
    """

    def __init__(self, source: Source, most: int, to_files: bool = False) -> None:
        self._source, self._most, self._to_files = source, most, to_files
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Source:
        source = self._source
        bare = replace(source, max_rows_per_user=None)
        if source.users_together:
            wrapped = tuple(p._replace(batches=within(p.batches, self._most), rows=None) for p in source.parts)
            made = Source.of_parts(wrapped, source.names, source.grouped)
            return replace(made, settings=source.settings, home=source.home)
        if source.in_memory and source.once is None and not self._to_files:
            keep = self._mask()
            if keep is None:
                return replace(bare, batches=_Picked(source.batches, None))
            return replace(bare, batches=_Picked(source.batches, keep), length=int(keep.sum()), in_memory=False)
        parts, labels = self._partitions()
        held = [Part("the rows of some users", _Held(piece, labels), len(piece.rows)) for piece in parts]
        return replace(Source.of_parts(held, source.names, source.grouped), settings=source.settings)

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _mask(self) -> npt.NDArray[np.bool_] | None:
        """Rows in memory: which of them count, None for all."""
        blocks = list(_keyed(self._source, _Labels()))
        users = np.concatenate([np.empty(0, np.uint64), *(block[0] for block in blocks)])
        return kept(users, [block[1] for block in blocks], [block[3] for block in blocks], self._most)

    def _partitions(self) -> tuple[list[_Piece], tuple[Any, ...]]:
        labels = _Labels()
        waiting = [_Waiting() for _ in range(_PARTITIONS)]
        files: list[list[_Piece]] = [[] for _ in range(_PARTITIONS)]
        held, dtype = 0, None
        for users, starts, groups, rows in _keyed(self._source, labels):
            dtype = dtype or rows.dtype
            if rows.dtype != dtype:
                raise ValueError(f"some rows are {dtype}, others {rows.dtype}: say dtype='float64'")
            number = (users >> np.uint64(58)).astype(np.int64)  # the first six bits
            order = np.argsort(number, kind="stable")
            edges = np.searchsorted(number[order], np.arange(_PARTITIONS + 1))
            for i, (a, b) in enumerate(itertools.pairwise(edges.tolist())):
                if b > a:
                    at = order[a:b]
                    waiting[i].add(users[at], starts[at], groups[at], rows[at])
            held += rows.nbytes + 24 * len(rows)
            if held > _WAITING:
                held = self._compact(waiting, files)
        if self._to_files or any(files):
            self._spill(waiting, files)
        both = zip(waiting, files, strict=True)
        return [self._final(one, stored) for one, stored in both if one.users or stored], labels.values()

    def _compact(self, waiting: list[_Waiting], files: list[list[_Piece]]) -> int:
        """Let go of rows that can't count any more; what is still too much goes to files."""
        held = 0
        for i, one in enumerate(waiting):
            if one.users:
                kept = one.pruned(self._most)
                waiting[i] = _Waiting()
                waiting[i].add(*kept)
                held += kept[3].nbytes + 24 * len(kept[0])
        if held > _WAITING // 2:
            self._spill(waiting, files)
            return 0
        return held

    def _spill(self, waiting: list[_Waiting], files: list[list[_Piece]]) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="sketchlearn-users-")
        for i, one in enumerate(waiting):
            if one.users:
                path = Path(self._folder.name) / f"{i}-{len(files[i])}"
                files[i].append(_Piece.written(path, *one.pruned(self._most)))
                waiting[i] = _Waiting()

    def _final(self, one: _Waiting, stored: list[_Piece]) -> _Piece:
        """All rows of a partition that count."""
        if len(stored) == 1 and not one.users:
            return stored[0]
        for piece in stored:
            one.add(piece.users, piece.starts, piece.groups, piece.rows)
        kept = one.pruned(self._most)
        if not stored or self._folder is None:
            return _Piece(None, *kept)
        return _Piece.written(Path(f"{stored[0].path}-all"), *kept)


@dataclass(frozen=True)
class _Piece:
    """Rows of a partition, here or in files (which are opened where they are read)."""

    path: str | None
    users: U64
    starts: U64
    groups: npt.NDArray[np.int64]
    rows: npt.NDArray[np.floating]

    @classmethod
    def written(cls, path: Path, *arrays: Any) -> _Piece:
        for name, array in zip(("users", "starts", "groups", "rows"), arrays, strict=True):
            np.save(path.with_name(f"{path.name}.{name}.npy"), array)
        return cls.read(str(path))

    @classmethod
    def read(cls, path: str) -> _Piece:
        arrays = [np.load(f"{path}.{name}.npy", mmap_mode="r") for name in ("users", "starts", "groups", "rows")]
        return cls(path, *arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is not None:
            return _Piece.read, (self.path,)
        return _Piece, (None, self.users, self.starts, self.groups, self.rows)


@dataclass(frozen=True)
class _Held:
    """Batches of a partition."""

    piece: _Piece
    labels: tuple[Any, ...]

    def __call__(self, size: int) -> Iterator[Batch]:
        rows, groups = self.piece.rows, self.piece.groups
        for i in range(0, len(rows), size):
            block = np.array(rows[i : i + size])
            if self.labels:
                yield Batch(block, None, np.array(groups[i : i + size]), self.labels)
            else:
                yield Batch(block)


@dataclass(frozen=True)
class _Picked:
    """Batches of rows in memory, without those that don't count; None keeps all."""

    batches: Callable[[int], Iterator[Batch]]
    keep: npt.NDArray[np.bool_] | None

    def __call__(self, size: int) -> Iterator[Batch]:
        at = 0
        if self.keep is not None:  # so large that what is left of a batch need not be joined with others
            size = int(0.95 * size * len(self.keep) / max(1, int(self.keep.sum())))
        for batch in self.batches(size):
            rows, groups = batch.rows, batch.groups
            if self.keep is not None:
                mine = np.flatnonzero(self.keep[at : at + len(rows)])
                at += len(rows)
                groups = None if groups is None else groups[mine]
                rows = rows.take(mine, axis=0)
            yield Batch(rows, None, groups, batch.labels)


def _same(rows: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return rows


@dataclass(frozen=True)
class Within(Mapped):
    """Batches of a part in which users have all their rows: the choice is made where the part is."""

    most: int = 1

    def __call__(self, size: int) -> Iterator[Batch]:
        labels, one = _Labels(), _Waiting()
        for keyed in _of_batches(self.batches(_BATCH), labels):
            one.add(*keyed)
        if one.users:
            _, _, groups, rows = one.pruned(self.most)
            piece = _Piece(None, np.empty(0, "u8"), np.empty(0, "u8"), groups, rows)
            yield from _Held(piece, labels.values())(size)


def within(batches: Callable[[int], Iterator[Batch]], most: int) -> Within:
    """At most so many rows of each user, of batches that hold all rows of their users."""
    return Within(batches, _same, most)


class _Labels:
    """Labels of groups with the numbers that they have here, and their hashes."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def values(self) -> tuple[Any, ...]:
        return tuple(self._numbers)

    def numbered(self, batch: Batch) -> tuple[npt.NDArray[np.int64], U64 | None]:
        """Numbers of the groups of the rows, and their hashes; None where there are no groups."""
        if batch.groups is None or batch.labels is None:
            return np.broadcast_to(np.int64(0), len(batch.rows)), None
        numbers = np.array([self._numbers.setdefault(v, len(self._numbers)) for v in batch.labels], np.int64)
        hashes = of_text([f"{type(v).__name__} {v!r}" for v in batch.labels])
        return numbers[batch.groups], hashes[batch.groups]


_Keyed = tuple[U64, U64, npt.NDArray[np.int64], npt.NDArray[np.floating]]


def _keyed(source: Source, labels: _Labels) -> Iterator[_Keyed]:
    yield from _of_batches(source.stream(_BATCH), labels)


def _of_batches(batches: Iterator[Batch], labels: _Labels) -> Iterator[_Keyed]:
    """Users, what hashes start from, numbers of groups and rows of batches."""
    for batch in batches:
        if batch.users is None:
            raise ValueError("user: these rows have no column of users; put them into a frame or a file")
        if batch.weights is not None:
            raise ValueError("user and weights can't be combined: a weight counts as that many rows of its user")
        groups, extra = labels.numbered(batch)
        starts = batch.users if extra is None else batch.users ^ extra
        yield batch.users, starts, groups, np.asarray(batch.rows)
