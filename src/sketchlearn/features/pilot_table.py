"""Rules of an encoder from a pilot table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sketchlearn.exceptions import DataWarning, Option, warn
from sketchlearn.features.encoder import Category, Encoder, Number
from sketchlearn.optional import optional

_LABELS = 50  # different labels that may be categories in a small table, too


def as_table(sample: Any) -> Any:
    """A frame as an Arrow table."""
    pa = optional("pyarrow", "files", "encoding categories and missing values")
    if isinstance(sample, pa.Table | pa.RecordBatch):
        return sample
    if hasattr(sample, "__arrow_c_stream__"):
        return pa.table(sample)
    if type(sample).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(sample, preserve_index=False)
    raise TypeError(f"an encoder is fitted to a frame or an Arrow table, got {type(sample).__name__}")


def rules(
    sample: Any,
    columns: Any,
    missing: str | Mapping[str, float],
    indicator: bool,
    categories: str,
    most: int,
    buckets: int,
) -> tuple[Number | Category, ...]:
    """One rule for each column; see :meth:`sketchlearn.Encoder.fit`."""
    if isinstance(missing, str) and missing not in ("mean", "median", "error"):
        raise ValueError(f"missing={missing!r}: choose 'mean', 'median', 'error' or a number for each column")
    if categories not in ("onehot", "hash"):
        raise ValueError(f"categories={categories!r}: choose 'onehot' or 'hash'")
    if most < 1 or buckets < 1:
        raise ValueError("most and buckets must be positive")
    pa = optional("pyarrow", "files", "encoding categories and missing values")
    table = as_table(sample)
    found: list[Number | Category] = []
    left_out: list[str] = []
    for name in table.schema.names if columns is None else columns:
        if name not in table.schema.names:
            raise ValueError(f"the sample has no column {name!r}")
        column = table.column(name)
        column = column.combine_chunks() if hasattr(column, "num_chunks") else column
        kind = column.type  # of a categorical, whatever its categories are: a dictionary
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            found.append(_number(name, column.cast(pa.float64()), missing, indicator))
        elif categories == "hash":
            found.append(Category(name, buckets=buckets))
        else:
            labels = text_of(column)
            if columns is None and mostly_distinct(len(labels.unique().drop_null()), len(labels) - labels.null_count):
                left_out.append(name)
                continue
            found.append(Category(name, _frequent(labels, name, most)))
    if left_out:
        named = ", ".join(map(repr, left_out))
        said = f"nearly every row has its own value in {named}: left out as identifiers; name all columns with "
        warn(DataWarning(said, Option("columns"), " to keep them"))
    return tuple(found)


MOST = 20
"""Labels of a column that get an indicator of their own, if no other number is given."""


def mostly_distinct(distinct: int, rows: int) -> bool:
    """Whether labels are identifiers rather than categories: more than half of the rows have a value of their own."""
    return distinct > _LABELS and 2 * distinct > rows


def text_of(column: Any) -> Any:
    """Labels as text, the same whatever they are stored as."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = _whole_numbers(column)
    try:
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"values of type {column.type} can't be categories") from None


def _whole_numbers(column: Any) -> Any:
    """Numbers of floating point as integers if they are whole: a column of integers with gaps becomes one of floats."""
    import pyarrow as pa

    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    missing = np.isnan(values)
    if (np.rint(values[~missing]) != values[~missing]).any() or (np.abs(values[~missing]) > 2.0**53).any():
        return column
    return pa.array(np.where(missing, 0.0, values).astype(np.int64), mask=missing)


def _number(name: str, column: Any, missing: str | Mapping[str, float], indicator: bool) -> Number:
    values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    gaps = bool(np.isnan(values).any())
    if not isinstance(missing, str):
        fill = missing.get(name)
        return Number(name, None if fill is None else float(fill), indicator and gaps)
    if missing == "error":
        return Number(name)
    known = values[np.isfinite(values)]
    if not len(known):
        raise ValueError(f"column {name!r} has no value in the sample: leave it out, or say what stands for it")
    # of sorted values: the order of the rows can't change a last bit
    statistic = np.median(known) if missing == "median" else np.sort(known).mean()
    return Number(name, float(statistic), indicator and gaps)


def _frequent(column: Any, name: str, most: int) -> tuple[str, ...]:
    """The most frequent labels, in alphabetical order."""
    import pyarrow.compute as pc

    counts = [(-pair["counts"], pair["values"]) for pair in pc.value_counts(column).to_pylist()]
    labels = sorted(label for _, label in sorted(pair for pair in counts if pair[1] is not None)[:most])
    if not labels:
        raise ValueError(f"column {name!r} has no value in the sample: leave it out")
    return tuple(labels)


def encoded_rows(table: Any, encoder: Encoder, number: Any = None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Columns of an Arrow table as numbers, (n, dim); `number` turns a numeric column and its name into float64."""
    import pyarrow as pa

    parts: list[Any] = []
    for rule in encoder.rules:
        column = table.column(rule.name)
        column = column.combine_chunks() if hasattr(column, "num_chunks") else column
        if isinstance(rule, Number):
            plain = (
                column.cast(pa.float64()).to_numpy(zero_copy_only=False)
                if number is None
                else number(column, rule.name)
            )
            parts += rule.encode(np.asarray(plain, np.float64))
            continue
        encoded = text_of(column).dictionary_encode()
        labels = encoded.dictionary.to_pylist()
        codes = encoded.indices.cast(pa.int64()).fill_null(len(labels)).to_numpy(zero_copy_only=False)
        parts += rule.encode(codes, [*labels, None])
    return np.stack(parts).T
