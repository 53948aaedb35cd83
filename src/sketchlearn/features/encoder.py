"""Missing values and categories: what a row of a table becomes before a feature map sees it.

An encoder is a list of columns, each with a rule, and nothing else: a number with what stands for a missing one, or a
category as indicators of known values or of hashed ones.  Its constants come from a pilot and are part of the map's
recipe, so that everybody who sketches with the map encodes alike and sketches of other encodings don't add.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Flags, Ints

VERSION = 1
_MOST_VALUES = 10_000  # indicators of one column


@dataclass(frozen=True)
class Number:
    """A numeric column.

    Attributes
    ----------
    name : str
        The column.
    fill : float or None
        What stands for a missing value; None leaves it missing (an invalid row).
    indicator : bool
        One more column that is 1 where the value was missing.
    """

    name: str
    fill: float | None = None
    indicator: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def encode(self, values: Array) -> list[Array]:
        """The encoded columns of some numbers, NaN where they are missing."""
        missing = np.isnan(values)
        filled = values if self.fill is None else np.where(missing, self.fill, values)
        return [filled, missing.astype(np.float64)] if self.indicator else [filled]


@dataclass(frozen=True)
class Category:
    """A column of labels as indicators, one for each known value and one for all others; a missing label has none.

    Attributes
    ----------
    name : str
        The column.
    values : tuple of str
        Known values, as text.
    buckets : int
        Instead of known values: number of columns that labels are hashed into.
    """

    name: str
    values: tuple[str, ...] = ()
    buckets: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.buckets:
            return tuple(f"{self.name} #{i}" for i in range(self.buckets))
        other = "other"
        while other in self.values:
            other = f"any {other}"
        return (*(f"{self.name}={value}" for value in self.values), f"{self.name}={other}")

    def place(self, label: str | None) -> int:
        """Which of the encoded columns is 1 for a label, -1 for none."""
        if label is None:
            return -1
        if self.buckets:
            return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "little") % self.buckets
        return self.values.index(label) if label in self.values else len(self.values)

    def encode(self, codes: Ints, labels: list[str | None]) -> list[Array]:
        """The encoded columns of labels given by their places in a list."""
        places = np.array([self.place(label) for label in labels] or [-1], np.int64)[codes]
        return [(places == i).astype(np.float64) for i in range(len(self.names))]


@dataclass(frozen=True)
class Encoder:
    """The columns of a table and the rules that turn them into numbers.

    Parameters
    ----------
    rules : tuple of Number and Category
        One for each column that is read, in order.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, sketchlearn as sl
    >>> people = pa.table({"age": [20.0, None, 40.0, 30.0], "plan": ["free", "paid", None, "free"]})
    >>> encoder = sl.Encoder.fit(people, missing="mean")
    >>> encoder.names
    ('age', 'plan=free', 'plan=paid', 'plan=other')
    >>> sl.read(people, encoder=encoder).sample(4)
    array([[20.,  1.,  0.,  0.],
           [30.,  0.,  1.,  0.],
           [40.,  0.,  0.,  0.],
           [30.,  1.,  0.,  0.]])
    """

    rules: tuple[Number | Category, ...]

    def __post_init__(self) -> None:
        if not self.rules:
            raise ValueError("an encoder needs at least one column")
        for rule in self.rules:
            if isinstance(rule, Number):
                good = rule.fill is None or math.isfinite(rule.fill)
            else:
                good = 0 <= rule.buckets <= _MOST_VALUES and len(rule.values) <= _MOST_VALUES
                good = good and bool(rule.buckets) != bool(rule.values) and len(set(rule.values)) == len(rule.values)
            if not good:
                raise ValueError(f"the rule of column {rule.name!r} is invalid: {str(rule)[:100]}")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("an encoder has every column once")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        return tuple(rule.name for rule in self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns; a name that is already taken gets a number."""
        found: dict[str, None] = {}
        for name in (name for rule in self.rules for name in rule.names):
            free, number = name, 2
            while free in found:
                free, number = f"{name} ({number})", number + 1
            found[free] = None
        return tuple(found)

    @property
    def indicators(self) -> Flags:
        """Which of the encoded columns are 0 or 1."""
        return np.array([isinstance(r, Category) or i > 0 for r in self.rules for i in range(len(r.names))])

    @property
    def dim(self) -> int:
        """Number of encoded columns."""
        return len(self.names)

    @classmethod
    def fit(
        cls,
        sample: Any,
        *,
        columns: Any = None,
        missing: str | Mapping[str, float] = "mean",
        indicator: bool = False,
        categories: str = "onehot",
        most: int = 20,
        buckets: int = 16,
    ) -> Encoder:
        """Rules from a pilot sample of a table.

        Parameters
        ----------
        sample : frame or Arrow table
            Some rows.
        columns : sequence of str, optional
            Columns to encode; by default all.
        missing : {"mean", "median", "error"} or mapping
            The value that replaces missing numbers: a statistic of the sample, or a number for each column. ``"error"``
            refuses missing numbers.
        indicator : bool
            Add a column for each numeric column with missing values in the sample. It is 1 where the value is missing.
        categories : {"onehot", "hash"}
            Columns of text, booleans, dates or categoricals (also of numbers) as indicators of their most frequent
            values, or hashed.
        most : int
            The number of values that get their own indicator; all others share one.
        buckets : int
            The number of columns into which labels are hashed.

        Returns
        -------
        Encoder
        """
        from sketchlearn.features import pilot_table

        return cls(pilot_table.rules(sample, columns, missing, indicator, categories, most, buckets))

    # -- recipe ------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The encoder as JSON-able values."""
        listed: list[dict[str, Any]] = []
        for rule in self.rules:
            if isinstance(rule, Number):
                listed.append({"number": rule.name, "fill": rule.fill, "indicator": rule.indicator})
            elif rule.buckets:
                listed.append({"category": rule.name, "buckets": rule.buckets})
            else:
                listed.append({"category": rule.name, "values": list(rule.values)})
        return {"version": VERSION, "columns": listed}

    @classmethod
    def from_json(cls, value: Any) -> Encoder:
        """Inverse of :meth:`to_json`; ValueError if it is none."""
        if (
            not isinstance(value, dict)
            or set(value) != {"version", "columns"}
            or not isinstance(value["columns"], list)
        ):
            raise ValueError("the encoder of a recipe should have a version and columns")
        if value["version"] != VERSION or isinstance(value["version"], bool):
            raise ValueError(f"encoder version {value['version']!r} is not known to this version of the library")
        return cls(tuple(_rule(item) for item in value["columns"]))


def _rule(item: Any) -> Number | Category:
    known: dict[frozenset[str], Callable[[dict[str, Any]], Number | Category | None]] = {
        frozenset(("number", "fill", "indicator")): _number,
        frozenset(("category", "buckets")): _hashed,
        frozenset(("category", "values")): _one_hot,
    }
    make = known.get(frozenset(item)) if isinstance(item, dict) else None
    rule = make(item) if make is not None else None
    if rule is None:
        raise ValueError(f"a column of an encoder can't be {str(item)[:60]}")
    return rule


def _number(item: dict[str, Any]) -> Number | None:
    fill, name = item["fill"], item["number"]
    numeric = fill is None or (isinstance(fill, int | float) and not isinstance(fill, bool))
    if not numeric or not isinstance(item["indicator"], bool) or not isinstance(name, str):
        return None
    return Number(name, None if fill is None else float(fill), item["indicator"])


def _hashed(item: dict[str, Any]) -> Category | None:
    buckets = item["buckets"]
    good = isinstance(buckets, int) and not isinstance(buckets, bool) and isinstance(item["category"], str)
    return Category(item["category"], buckets=buckets) if good else None


def _one_hot(item: dict[str, Any]) -> Category | None:
    values = item["values"]
    good = isinstance(values, list) and all(isinstance(v, str) for v in values) and isinstance(item["category"], str)
    return Category(item["category"], tuple(values)) if good else None
