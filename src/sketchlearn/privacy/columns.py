"""The columns of a table that private preparation goes through, several times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features.encoder import Category, Encoder, Number
from sketchlearn.features.pilot_table import text_of
from sketchlearn.optional import optional
from sketchlearn.sources import Selection, Source, open_source
from sketchlearn.sources.base import Batch
from sketchlearn.sources.tables import columns_of
from sketchlearn.sources.users import Bounded

_BATCH = 2**16


@dataclass(frozen=True)
class Table:
    """Which columns there are, and how to go through them."""

    data: Any
    named: bool
    order: tuple[str, ...]
    numbers: tuple[str, ...]
    labels: tuple[str, ...]
    public: Mapping[str, tuple[str, ...]]
    bounds: Mapping[str, tuple[float, float]]
    reading: Mapping[str, Any]

    @classmethod
    def of(cls, data: Any, columns: Any, categories: Any, bounds: Any, reading: Mapping[str, Any]) -> Table:
        if isinstance(data, Source):
            raise TypeError("preparation reads the rows several times: give the file, frame or array itself")
        public = {k: tuple(map(str, v)) for k, v in categories.items()} if isinstance(categories, Mapping) else {}
        user = reading.get("user")
        beside = user if isinstance(user, str) else None
        known = columns_of(data, **{k: v for k, v in reading.items() if k in ("format", "delimiter", "encoding")})
        if known is None:
            if columns is not None or categories:
                raise ValueError("columns and categories are names, and these rows have none")
            source = open_source(data, Selection.of(**reading))
            if source.once is not None:
                raise ValueError(
                    "preparation reads the rows several times, but a stream can be read only once: write it to a file"
                )
            first = next(iter(source.stream(1)), None)
            if first is None:
                raise ValueError("there are no rows in the data: nothing to prepare")
            names = tuple(str(i) for i in range(first.rows.shape[1]))
            return cls(data, False, names, names, (), {}, public_bounds(bounds, names), reading)
        names = tuple(n for n in known if n != beside) if columns is None else tuple(columns)
        for name in (*names, *categories):
            if name not in known:
                raise ValueError(f"there is no column {name!r}; there are {', '.join(known)}")
        labels = tuple(n for n in names if n in categories or known[n] == "labels")
        numbers = tuple(n for n in names if n not in labels)
        return cls(data, True, names, numbers, labels, public, public_bounds(bounds, numbers), reading)

    def batches(self, **selected: Any) -> Iterator[Batch]:
        """Batches of some columns, at most so many rows of each user."""
        source = open_source(self.data, Selection.of(**{**self.reading, **selected}))
        if source.once is not None:
            raise ValueError(
                "preparation reads the rows several times, but a stream can be read only once: write it to a file"
            )
        most = source.max_rows_per_user
        with nullcontext(source) if most is None else Bounded(source, most) as rows:
            yield from rows.stream(_BATCH)

    def of_numbers(self) -> Iterator[Array]:
        """Blocks of the columns of numbers, NaN where a value is missing."""
        named = {"encoder": Encoder(tuple(map(Number, self.numbers)))} if self.named else {}
        for batch in self.batches(**named):
            yield np.asarray(batch.rows, np.float64)

    def of_labels(self, name: str) -> dict[str, int]:
        """How many rows have each label of a column."""
        pa = optional("pyarrow", "files", "preparing labels")
        counts: Counter[str] = Counter()
        for batch in self.batches(group_by=name, encoder=Encoder((Category(name, buckets=1),))):
            assert batch.labels is not None
            there = [label is not None for label in batch.labels]
            texts = text_of(pa.array([label for label in batch.labels if label is not None])).to_pylist()
            rows = np.bincount(batch.groups, minlength=len(batch.labels))[there]  # type: ignore[arg-type]
            counts.update(dict(zip(texts, rows.tolist(), strict=True)))
        return dict(counts)


def public_bounds(bounds: Any, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        lower, upper = (np.broadcast_to(np.asarray(b, np.float64), (len(names),)).tolist() for b in bounds)
        bounds = dict(zip(names, zip(lower, upper, strict=True), strict=True))
    for name, (low, high) in bounds.items():
        if name not in names:
            raise ValueError(f"bounds are given for {name!r}, which is not a column of numbers")
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"bounds of {name!r} are {low} and {high}: the lower bound must be below the upper bound")
    return {name: (float(low), float(high)) for name, (low, high) in bounds.items()}
