"""One sketch per group, in one value and one file: any union of groups can be learned from later."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import write
from sketchlearn.optional import optional
from sketchlearn.sketches import file
from sketchlearn.sketches.value import Sketch, merge

_KIND = b"sketchlearn.table"
_VERSION = b"1"


class SketchTable(Mapping[Any, Sketch]):
    """Sketches by group label, all with the same feature map.

    Made by ``sl.sketch(data, phi, group_by=...)``, or from a dictionary.  The file is Parquet with the columns
    ``group``, ``count`` and ``sketch`` (bytes of the .sketch format), so that any tool can select groups.

    Parameters
    ----------
    sketches : mapping of label to Sketch
        Labels are text, whole numbers, booleans, dates or None (rows without a group), of one type.

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

    def __init__(self, sketches: Mapping[Any, Sketch]) -> None:
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
        return f"SketchTable({len(self)} groups, {rows:,} rows, {self.features.size} features)"

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
        return merge(self[label] for label in chosen)

    def __add__(self, other: object) -> SketchTable:
        if not isinstance(other, SketchTable):
            return NotImplemented
        both = dict(self._sketches)
        for label, s in other.items():
            both[label] = both[label] + s if label in both else s
        return SketchTable(both)

    # -- travelling --------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """The table as a pyarrow table with the columns group, count and sketch."""
        pa = optional("pyarrow", "files", "a table of sketches")
        return pa.table(
            {
                "group": pa.array(self.groups),
                "count": pa.array([float(s.count) for s in self._sketches.values()]),
                "sketch": pa.array([s.to_bytes() for s in self._sketches.values()], pa.binary()),
            }
        ).replace_schema_metadata({_KIND: _VERSION})

    def to_bytes(self) -> bytes:
        """The bytes of the Parquet file."""
        optional("pyarrow", "files", "a table of sketches")
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(self.to_arrow(), buffer, compression="zstd")
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
        with open(path, "rb") as source:  # noqa: PTH123
            return SketchTable.from_bytes(source.read(), str(path))

    @staticmethod
    def from_bytes(data: bytes, place: str = "these bytes") -> SketchTable:
        """Inverse of :meth:`to_bytes`; `place` is what errors call it."""
        pa = optional("pyarrow", "files", "a table of sketches")
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(pa.BufferReader(data))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SketchFileError(f"{place}: not a table of sketches ({str(error).splitlines()[0]})") from None
        version = (table.schema.metadata or {}).get(_KIND)
        if version is None or not {"group", "sketch"} <= set(table.schema.names):
            raise SketchFileError(f"{place}: a Parquet file, but not a table of sketches")
        if version != _VERSION:
            raise SketchFileError(f"{place}: table version {version.decode()}; this library reads version 1")
        labels, blobs = table.column("group").to_pylist(), table.column("sketch").to_pylist()
        if len(set(labels)) != len(labels) or None in blobs:
            raise SketchFileError(f"{place}: groups that appear twice, or without a sketch")
        return SketchTable({k: file.decode(v, f"{place}, group {k!r}") for k, v in zip(labels, blobs, strict=True)})
