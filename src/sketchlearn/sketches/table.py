"""One sketch per group, in one value and one file: any union of groups can be learned from later."""

from __future__ import annotations

import datetime
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import write
from sketchlearn.limits import VARIABLE, check, unpacked
from sketchlearn.optional import arrow_reader, optional
from sketchlearn.sketches import file
from sketchlearn.sketches.origin import Origin
from sketchlearn.sketches.value import Sketch, merge
from sketchlearn.words import counted, html_table

_KIND = b"sketchlearn.table"
_VERSION = b"1"
_CHECKSUM = b"sketchlearn.checksum"
_USERS = b"sketchlearn.rows_per_user"
_BATCH = 64  # groups read at a time
_SHOWN = 30  # groups in a notebook


class SketchTable(Mapping[Any, Sketch]):
    """Sketches by group label, all with the same feature map.

    Made by ``sl.sketch(data, phi, group_by=...)``, or from a dictionary.  The file is Parquet with the columns
    ``group``, ``count`` and ``sketch`` (bytes of the .sketch format), so that any tool can select groups.

    Parameters
    ----------
    sketches : mapping of label to Sketch
        Labels are text, whole numbers, booleans, dates or None (rows without a group), of one type.
    rows_per_user : int, optional
        The largest number of rows of one user in all groups together, if the pass limited it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> table = sl.sketch(X, phi, group_by=["a", "b"] * 50)
    >>> table
    SketchTable(2 groups, 100 rows, 20 features)
    >>> table.union(["a", "b"]) == sl.sketch(X, phi)
    True
    """

    def __init__(self, sketches: Mapping[Any, Sketch], rows_per_user: int | None = None) -> None:
        if not sketches:
            raise ValueError("a table needs at least one group")
        first = next(iter(sketches.values()))
        for label, s in sketches.items():
            if not isinstance(s, Sketch):
                raise TypeError(f"group {label!r} is a {type(s).__name__}, not a sketch")
            if s.features != first.features:
                raise IncompatibleSketchError(
                    f"group {label!r} has another feature map: {first.features.difference(s.features)}"
                )
        kinds = {bool if isinstance(k, bool) else type(k) for k in sketches if k is not None}
        if len(kinds) > 1:
            raise ValueError(
                f"labels of groups must be of one type, got {', '.join(sorted(k.__name__ for k in kinds))}"
            )
        if kinds - {str, int, bool, datetime.date, datetime.datetime}:
            raise ValueError(f"labels of groups can't be of type {kinds.pop().__name__}")
        # sorted, so that equal tables have equal files whatever the order of the rows
        ordered = sorted((k for k in sketches if k is not None), key=lambda k: k)
        self._sketches = {k: sketches[k] for k in [*ordered, *([None] if None in sketches else [])]}
        self._rows_per_user = rows_per_user

    # -- reading -----------------------------------------------------------------------------

    @property
    def features(self) -> FeatureMap:
        """The feature map of all groups."""
        return next(iter(self._sketches.values())).features

    @property
    def groups(self) -> list[Any]:
        """Labels in order, None (rows without a group) last."""
        return list(self._sketches)

    @property
    def counts(self) -> dict[Any, int | float]:
        """Number of rows of each group."""
        return {label: s.count for label, s in self._sketches.items()}

    @property
    def rows_per_user(self) -> int | None:
        """The largest number of rows of one user in all groups together; None if it was not limited in every group.

        Groups of one pass share its bound.  Bounds of groups that come from several passes add up: one user may have
        rows in all of them.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> bounded = {"group_by": ["a", "b"], "user": [1, 1], "max_rows_per_user": 2}
        >>> table = sl.sketch([[1.0], [2.0]], phi, **bounded)
        >>> table.rows_per_user, sl.SketchTable(dict(table)).rows_per_user
        (2, 4)
        """
        if self._rows_per_user is not None:
            return self._rows_per_user
        return Origin.together([s.origin for s in self._sketches.values()]).rows_per_user

    def __getitem__(self, label: Any) -> Sketch:
        try:
            return self._sketches[label]
        except KeyError:
            some = ", ".join(map(repr, self.groups[:5])) + (", ..." if len(self) > 5 else "")
            raise KeyError(f"there is no group {label!r}; there are {len(self)}: {some}") from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sketches)

    def __len__(self) -> int:
        return len(self._sketches)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SketchTable) and self._sketches == other._sketches

    def __hash__(self) -> int:
        return hash(tuple(self._sketches.items()))

    def __repr__(self) -> str:
        rows = sum(s.count for s in self._sketches.values())
        return f"SketchTable({counted(len(self), 'group')}, {counted(rows, 'row')}, {self.features.size} features)"

    def _repr_html_(self) -> str:
        shown = sorted(self.counts.items(), key=lambda item: -item[1])[:_SHOWN]
        note = f"And {len(self) - len(shown)} more groups." if len(self) > len(shown) else ""
        return html_table(repr(self), ((label, f"{rows:,}") for label, rows in shown), ("group", "rows"), note)

    # -- algebra -----------------------------------------------------------------------------

    def union(self, groups: Iterable[Any] | Callable[[Any], bool] | None = None) -> Sketch:
        """The sketch of the rows of some groups.

        Parameters
        ----------
        groups : iterable of labels, or function of a label, optional
            Which groups; all by default.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> table = sl.sketch(np.arange(6.0)[:, None], phi, group_by=[2019, 2020, 2021] * 2)
        >>> table.union(lambda year: year >= 2020).count
        4
        """
        if groups is None:
            chosen = self.groups
        elif callable(groups):
            chosen = [label for label in self if groups(label)]
        else:
            chosen = list(dict.fromkeys(groups))
        if not chosen:
            raise ValueError("no group was chosen: the union would be empty")
        total = merge(self[label] for label in chosen)
        if self._rows_per_user is None:
            return total
        return replace(total, origin=replace(total.origin, user=self[chosen[0]].origin.user,
                                             rows_per_user=self._rows_per_user))  # fmt: skip

    def __add__(self, other: object) -> SketchTable:
        if not isinstance(other, SketchTable):
            return NotImplemented
        both = dict(self._sketches)
        for label, s in other.items():
            both[label] = both[label] + s if label in both else s
        bounds = self.rows_per_user, other.rows_per_user
        return SketchTable(both, None if None in bounds else sum(b for b in bounds if b is not None))

    # -- travelling --------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """The table as a pyarrow table with the columns group, count and sketch."""
        pa = optional("pyarrow", "files", "a table of sketches")
        blobs = [s.to_bytes() for s in self._sketches.values()]
        h = hashlib.sha256()
        for label, blob in zip(self.groups, blobs, strict=True):
            h.update(_label(label, blob))
        bound = {} if self._rows_per_user is None else {_USERS: str(self._rows_per_user).encode()}
        h.update(bound.get(_USERS, b""))
        return pa.table(
            {
                "group": pa.array(self.groups),
                "count": pa.array([float(s.count) for s in self._sketches.values()]),
                "sketch": pa.array(blobs, pa.binary()),
            }
        ).replace_schema_metadata({_KIND: _VERSION, _CHECKSUM: h.hexdigest().encode(), **bound})

    def to_bytes(self) -> bytes:
        """The bytes of the Parquet file."""
        optional("pyarrow", "files", "a table of sketches")
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(self.to_arrow(), buffer, compression="zstd", write_page_checksum=True)
        return buffer.getvalue()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to a Parquet file, atomically.

        Examples
        --------
        >>> import sketchlearn as sl, tempfile, pathlib
        >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
        >>> table = sl.sketch([[1.0], [2.0]], phi, group_by=["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table.save(pathlib.Path(folder) / "groups.parquet")
        ...     sl.SketchTable.load(pathlib.Path(folder) / "groups.parquet") == table
        True
        """
        write(path, self.to_bytes())

    @staticmethod
    def load(path: str | PathLike[str]) -> SketchTable:
        """Read a table; :class:`~sketchlearn.SketchFileError` if the file is no table of sketches."""
        with open(path, "rb"):  # noqa: PTH123  # errors of the system as they are
            pass
        return _read(os.fspath(path), os.stat(path).st_size, str(path))  # noqa: PTH116

    @staticmethod
    def from_bytes(data: bytes, place: str = "these bytes") -> SketchTable:
        """Inverse of :meth:`to_bytes`; `place` is what errors call it."""
        pa = optional("pyarrow", "files", "a table of sketches")
        return _read(arrow_reader(pa, data), len(data), place)


def is_sketch_table(path: str | PathLike[str]) -> bool:
    """Whether a Parquet file says that it is a table of sketches."""
    pa = optional("pyarrow", "files", "a table of sketches")
    import pyarrow.parquet as pq

    try:
        return _KIND in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return True  # damaged: what reads tables says how


def _read(source: Any, size: int, place: str) -> SketchTable:
    """The table in a Parquet file, which is a path or a file of Arrow."""
    pa = optional("pyarrow", "files", "a table of sketches")
    try:
        return _of_parquet(pa, source, size, place)
    except (SketchFileError, IncompatibleSketchError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SketchFileError(f"{place}: not a table of sketches ({reason})") from None


def _of_parquet(pa: Any, file_: Any, size: int, place: str) -> SketchTable:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file_, pre_buffer=False, page_checksum_verification=True) as source:
        schema = source.schema_arrow
        metadata = schema.metadata or {}
        version = metadata.get(_KIND)
        if version is None or not {"group", "sketch"} <= set(schema.names):
            raise SketchFileError(f"{place}: a Parquet file, but not a table of sketches")
        if version != _VERSION:
            known = version.decode(errors="replace")
            raise SketchFileError(f"{place}: table version {known}; this library reads version 1")
        check(2 * size, place)
        if not (pa.types.is_binary(schema.field("sketch").type)):
            raise SketchFileError(f"{place}: its column 'sketch' doesn't hold sketches")
        found: dict[Any, Sketch] = {}
        left = limit = unpacked(size)
        shared: FeatureMap | None = None
        h = hashlib.sha256()
        for batch in source.iter_batches(_BATCH, columns=["group", "sketch"], use_threads=False):
            left -= batch.nbytes
            if left < 0:
                raise SketchFileError(
                    f"{place}: {size:,} bytes that become more than {limit:,}: no table of sketches is compressed this "
                    f"much (the environment variable {VARIABLE} also limits it)"
                )
            for label, blob in zip(batch.column("group").to_pylist(), batch.column("sketch").to_pylist(), strict=True):
                if label in found or blob is None:
                    raise SketchFileError(f"{place}: groups that appear twice, or without a sketch")
                found[label] = file.decode(blob, f"{place}, group {label!r}", shared)
                shared = shared or found[label].features
                h.update(_label(label, blob))
    bound = metadata.get(_USERS, b"")
    h.update(bound)
    if metadata.get(_CHECKSUM, h.hexdigest().encode()) != h.hexdigest().encode():
        raise SketchFileError(f"{place}: damaged (the checksum of the groups doesn't match)")
    if bound and not (bound.isdigit() and len(bound) < 19):
        raise SketchFileError(f"{place}: damaged (its bound on the rows of one user is no number)")
    return SketchTable(found, int(bound) if bound else None)


def _label(label: Any, blob: bytes) -> bytes:
    """What the checksum of a table is made of: labels, and the checksums of the sketches."""
    return f"{type(label).__name__} {label!r}\n".encode("utf-8", "surrogatepass") + blob[-32:]
