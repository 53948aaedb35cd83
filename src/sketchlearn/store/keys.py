"""Which cell a row belongs to: the bucket of its time and the values of its group columns, as one label."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import RowError
from sketchlearn.optional import optional
from sketchlearn.sources.derived import Derived
from sketchlearn.sources.rows import numbered
from sketchlearn.store.periods import Period

_DAY = 86_400_000_000  # microseconds

Label = str | int | bool | None
"""A value of a group column; dates are their text of ISO 8601."""


class Keys(Derived):
    """The column of cell labels: JSON lists of the beginning of the bucket and the values of the group columns.

    `time`: column with the time of each row. `every`: length of a bucket. `by`: group columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sketchlearn.store.keys import Keys
    >>> from sketchlearn.store.periods import Period
    >>> keys = Keys("ts", Period.of("1d"), ["shop"])
    >>> table = pa.table({"ts": ["1970-01-01T05:00", "1970-01-02T06:00"], "shop": ["a", "a"]})
    >>> keys.codes(table)[1]
    ('[0,"a"]', '[86400000000,"a"]')
    """

    time: str | None
    every: Period | None
    by: tuple[str, ...]

    def __new__(cls, time: str | None, every: Period | None, by: Sequence[str]) -> Keys:
        """The column of these keys; a text, so that readers can treat it as a name."""
        made = super().__new__(cls, f"cells of {time} every {every.text if every else None} by {list(by)}")
        made.time, made.every, made.by = time, every, tuple(by)
        made.columns = (*([time] if time is not None else []), *made.by)
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.time, self.every, self.by

    def check(self, schema: Any, place: str) -> None:
        """Refuse columns that hold neither times nor labels."""
        pa = optional("pyarrow", "store", "a store of sketches")
        if self.time is not None and not _timely(pa, schema.field(self.time).type):
            raise ValueError(f"{place}: time={self.time!r} holds {schema.field(self.time).type}, not times")
        for name in self.by:
            t = schema.field(name).type
            t = t.value_type if pa.types.is_dictionary(t) else t
            types = pa.types
            if not (
                types.is_string(t) or types.is_large_string(t) or types.is_string_view(t) or types.is_integer(t)
                or types.is_boolean(t) or types.is_date(t) or types.is_null(t)
            ):  # fmt: skip
                raise ValueError(
                    f"{place}: group column {name!r} holds {t}; groups must be text, whole numbers, booleans or dates"
                )

    def codes(self, table: Any) -> tuple[npt.NDArray[np.int64], tuple[Any, ...]]:
        """Cells of the rows of an Arrow table."""
        pa = optional("pyarrow", "store", "a store of sketches")
        self.check(table.schema, "the data")
        levels: list[list[Label]] = []
        codes = np.zeros(table.num_rows, np.int64)
        if self.time is not None and self.every is not None:
            starts = self.every.floor(_micros(pa, table.column(self.time)))
            unit = self.every.micros or _DAY  # months begin with a day
            first = int(starts.min(initial=np.iinfo(np.int64).max)) if len(starts) else 0
            codes, steps = numbered((starts - first) // unit, len(starts))
            levels.append([first + unit * step for step in steps])
        for name in self.by:
            values, places = _levels(pa, table.column(name))
            levels.append(values)
            # a number for each combination that occurs: products of the numbers of values might not fit int64
            codes, found = numbered(codes * len(values) + places, len(codes))
            rest, last = np.divmod(np.array(found, np.int64), max(len(values), 1))
            levels = _combined(levels, rest, last)
        if not levels:
            return codes, (cell_label(None, ()),)
        if not self.by:
            return codes, tuple(cell_label(start, ()) for start in levels[0])  # type: ignore[arg-type]
        timed = self.time is not None
        rows = zip(*levels, strict=True)
        return codes, tuple(
            cell_label(row[0] if timed else None, row[1:] if timed else row)
            for row in rows  # type: ignore[arg-type]
        )


def _combined(levels: list[list[Label]], rest: Any, last: Any) -> list[list[Label]]:
    """Values of each column for every combination; all but the last are lists of the earlier combinations."""
    *before, values = levels
    return [*([column[i] for i in rest.tolist()] for column in before), [values[i] for i in last.tolist()]]


def _levels(pa: Any, column: Any) -> tuple[list[Label], npt.NDArray[np.int64]]:
    column = column.combine_chunks() if hasattr(column, "num_chunks") else column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = [as_label(v) for v in encoded.dictionary.to_pylist()]
    indices = encoded.indices.cast(pa.int64())
    if indices.null_count:
        values.append(None)
        indices = indices.fill_null(len(values) - 1)
    return values, indices.to_numpy(zero_copy_only=False)


def _timely(pa: Any, t: Any) -> bool:
    types = pa.types
    return bool(
        types.is_timestamp(t) or types.is_date(t) or types.is_string(t) or types.is_large_string(t)
        or types.is_string_view(t)
    )  # fmt: skip


def _micros(pa: Any, column: Any) -> npt.NDArray[np.int64]:
    column = column.combine_chunks() if hasattr(column, "num_chunks") else column
    t = column.type
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        raise RowError("there is no time", int(missing[0]))
    if pa.types.is_date(t):
        column = column.cast(pa.timestamp("s"))
    elif not pa.types.is_timestamp(t):
        try:
            column = column.cast(pa.string()).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            column = column.cast(pa.string()).cast(pa.timestamp("us", "UTC"))
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_numpy(zero_copy_only=False)


def as_label(value: Any) -> Label:
    """A value of a group column as it is kept."""
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    raise ValueError(f"labels of groups can't be of type {type(value).__name__}")


def cell_label(start: int | None, groups: Sequence[Label]) -> str:
    """The label of a cell: compact JSON."""
    return json.dumps([start, *groups], separators=(",", ":"), ensure_ascii=False)


def cell_of(label: str) -> tuple[int | None, tuple[Label, ...]]:
    """Inverse of :func:`cell_label`."""
    start, comma, rest = label[1:-1].partition(",")
    return None if start == "null" else int(start), _groups_of(rest if comma else "")


@lru_cache(2**16)
def _groups_of(text: str) -> tuple[Label, ...]:
    return tuple(json.loads(f"[{text}]"))


def labels_of_arrays(rows: int, time: Any, every: Period | None, groups: Mapping[str, Any]) -> npt.NDArray[np.object_]:
    """Cell labels of rows in memory whose times and groups are arrays beside them."""
    pa = optional("pyarrow", "store", "a store of sketches")
    columns = {name: pa.array(np.asarray(values).tolist()) for name, values in groups.items()}
    if time is not None:
        columns["\0time"] = pa.array(np.asarray(time, "M8[us]"))
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"{name.strip(chr(0))} has {len(column)} values for {rows} rows")
    keys = Keys("\0time" if time is not None else None, every, list(groups))
    codes, labels = keys.codes(pa.table(columns))
    return np.array(labels, object)[codes] if rows else np.empty(0, object)
