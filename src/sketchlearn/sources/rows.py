"""Tables that can be cut at any row: frames in memory, structured arrays, columns of arrays on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import as_weights
from sketchlearn.sources.base import Batch, Source, coded
from sketchlearn.sources.columns import Layout, arrow, coded_groups, stream_of
from sketchlearn.sources.selection import Selection
from sketchlearn.sources.users import of_array as users_of_array


def of_rows(
    tables: Callable[[int, int], Any],
    rows: int,
    selection: Selection,
    place: str,
    names: Sequence[str],
    *,
    optional: Sequence[str] = (),
) -> Source:
    """A source from a function that gives the rows `start` to `stop` as an Arrow table with all columns.

    `optional` columns are read only when they are named.
    """
    beside = Beside.of(selection, rows)
    grouped = selection.group_by is not None
    if beside.users is not None:
        selection.refuse("rows whose users are an array; put the users into a column", "where")
        selection = replace(selection, user=None)
    if beside.groups is not None:
        selection = replace(selection, group_by=None)
    layout = Layout(names, selection, place, optional)
    layout.check(tables(0, min(rows, 1)).schema)
    if beside.weights is not None:
        selection.refuse("rows that have sample_weight; put the weights into a column", "weight_column", "where")
    if beside.groups is not None:
        selection.refuse("rows grouped by an array; group by a column", "where")
    length = None if selection.where else rows
    return Source(_Tables(tables, rows, layout, beside), length, names=layout.numbers, grouped=grouped)


Coded = tuple[npt.NDArray[np.int64], tuple[Any, ...]]
"""The group of each row as its place among the labels, and the labels."""


class Beside(NamedTuple):
    """What is known of all rows beforehand: their weights, groups with labels, and users."""

    weights: npt.NDArray[np.float64] | None = None
    groups: Coded | None = None
    users: npt.NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, selection: Selection, rows: int) -> Beside:
        """From the arrays in a selection, which may have names of columns instead."""
        groups, users = selection.group_by, selection.user
        return cls(
            as_weights(selection.sample_weight, rows),
            None if groups is None or isinstance(groups, str) else numbered(groups, rows),
            None if users is None or isinstance(users, str | int) else users_of_array(users, rows),
        )

    def joined(self, batch: Batch, start: int) -> Batch:
        """A batch whose first row is number `start`, with what is known of its rows."""
        at = slice(start, start + len(batch.rows))
        weights = batch.weights if self.weights is None else self.weights[at]
        users = batch.users if self.users is None else self.users[at]
        groups, labels = (batch.groups, batch.labels) if self.groups is None else (self.groups[0][at], self.groups[1])
        return Batch(batch.rows, weights, groups, labels, users)


@dataclass(frozen=True)
class _Tables:
    """Batches of a table that can be cut at any row."""

    tables: Callable[[int, int], Any]
    rows: int
    layout: Layout
    beside: Beside

    def __call__(self, size: int) -> Iterator[Batch]:
        for i in range(0, self.rows, size):
            for batch in stream_of(self.layout, [self.tables(i, min(self.rows, i + size))]):
                yield self.beside.joined(batch, i)


def numbered(group_by: Any, rows: int) -> Coded:
    """Groups and labels from an array with a label for each row: those that a column of a frame would have."""
    # a list of text and NaN would become text as an array
    values = np.array([*group_by, None], object)[:-1] if isinstance(group_by, list | tuple) else np.asarray(group_by)
    if values.shape != (rows,):
        raise ValueError(f"group_by must have one label per row, got shape {values.shape} for {rows} rows")
    if not (isinstance(group_by, np.ndarray) and values.dtype.kind in "iubSUf"):
        column = _arrow_labels(values if isinstance(group_by, list | tuple) else group_by)
        if column is not None:
            return coded_groups(column, "group_by")
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        if (known != np.rint(known)).any():
            raise ValueError(
                "group_by holds numbers with decimals; groups must be text, whole numbers, booleans or dates"
            )
        whole = len(known) == rows
        values = values.astype(np.int64) if whole else np.array([None if v != v else int(v) for v in values], object)
    if values.dtype.kind == "O":
        return coded(None if _is_missing(v) else v for v in values.tolist())
    if values.dtype.kind in "iub" and rows:
        kind = bool if values.dtype.kind == "b" else int
        low, high = int(values.min()), int(values.max())
        if high - low < max(rows, 2**16) and abs(low) < 2**62 > abs(high):  # count instead of sorting
            offsets = values.astype(np.int64) - low
            present = np.flatnonzero(np.bincount(offsets))
            code_of = np.zeros(high - low + 1, np.int64)
            code_of[present] = np.arange(len(present))
            return code_of[offsets], tuple(kind(v + low) for v in present.tolist())
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64, copy=False), tuple(distinct.tolist())


def _arrow_labels(labels: Any) -> Any:
    """Labels as an Arrow array, with nulls for all that is missing; None if they are of several types."""
    if find_spec("pyarrow") is None:
        return None
    pa = arrow("this")
    try:
        if hasattr(labels, "to_arrow"):  # polars
            return labels.to_arrow()
        return pa.array(labels, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT, and what pandas has for a missing value."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def record_batch(columns: Mapping[str, npt.NDArray[Any]], group: str | None = None) -> Any:
    """Columns of arrays (numbers, text, blocks) as an Arrow record batch."""
    pa = arrow("choosing columns of arrays by name, or filtering and grouping arrays")
    made = {name: _as_arrow(pa, values, name, name == group) for name, values in columns.items()}
    return pa.RecordBatch.from_arrays(list(made.values()), list(made))


def _as_arrow(pa: Any, values: npt.NDArray[Any], name: str, is_group: bool) -> Any:
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.ndim == 2:
        flat = _as_arrow(pa, np.ascontiguousarray(values).ravel(), name, False)
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    kind = values.dtype.kind
    if values.ndim != 1 or kind not in "fiubOSUM":
        raise ValueError(f"column {name!r} must hold real numbers, got dtype {values.dtype}")
    if kind in "OSU":
        return pa.array([v.decode() if isinstance(v, bytes) else v for v in values.tolist()])
    if values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    if is_group and kind == "f" and np.array_equal(values, np.rint(values)) and (np.abs(values) < 2.0**53).all():
        values = values.astype(np.int64)  # whole numbers in an array of floats
    return pa.array(np.ascontiguousarray(values))
