"""What is in a table, and how to sketch it: types, gaps, ranges, and the columns, encoder and map to take."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sketchlearn.designs import default_size
from sketchlearn.designs.spread import remarks
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.pilot_table import MOST, as_table, mostly_distinct, text_of
from sketchlearn.models.table import Column, Table, number
from sketchlearn.sources.base import read
from sketchlearn.sources.tables import first_rows
from sketchlearn.words import counted, html_table, listed, one_line

_ROWS = 100_000  # that are looked at
_FEW = 3  # values that are named
_CLUSTERS = 20  # that a suggested map is for


@dataclass(frozen=True)
class ColumnProfile:
    """What one column holds.

    Attributes
    ----------
    name, kind : str
        Its name; ``"number"``, ``"integer"``, ``"yes or no"``, ``"text"``, ``"date"``, or another type in words.
    missing : float
        Share of the rows without a value.
    distinct : int
        Number of different values.
    values : str
        Smallest and largest value, or the most frequent ones.
    use : str
        What to do with it: ``"number"``, ``"category"``, or why to leave it out.
    """

    name: str
    kind: str
    missing: float
    distinct: int
    values: str
    use: str

    @property
    def kept(self) -> bool:
        """Whether the column is suggested for a sketch."""
        return self.use in ("number", "category")


@dataclass(frozen=True)
class Profile:
    """What :func:`sketchlearn.profile` found.

    Attributes
    ----------
    rows : int
        Rows that were looked at.
    columns : tuple of ColumnProfile
        All columns.
    encoder : Encoder or None
        For the suggested columns, where some are categories or have missing values.
    standardize : bool
        Whether the units of the columns differ so much that one column would dominate distances.
    size : int
        Number of features for 20 clusters of the suggested columns.
    nbytes : int
        Size of such a sketch.
    """

    rows: int
    columns: tuple[ColumnProfile, ...]
    encoder: Encoder | None
    standardize: bool
    size: int
    nbytes: int
    _given: str = field(default="", repr=False)

    @property
    def suggested(self) -> tuple[str, ...]:
        """Names of the columns to sketch."""
        return tuple(column.name for column in self.columns if column.kept)

    def facts(self) -> dict[str, Any]:
        """Everything by name, as values of JSON."""
        return {
            "rows": self.rows,
            "columns": [{**asdict(column), "kept": column.kept} for column in self.columns],
            "encode": self.encoder is not None,
            "standardize": self.standardize,
            "features": self.size,
            "bytes": self.nbytes,
            "command": self.command,
        }

    @property
    def command(self) -> str:
        """The command that makes the suggested sketch, for rows in memory a call; empty if no column is suggested."""
        if not self.suggested:
            return ""
        if not self._given:
            return self._call
        chosen = ["-c", listed(self.suggested)] if len(self.suggested) < len(self.columns) else []
        options = ["--encode"] * (self.encoder is not None) + ["--standardize"] * self.standardize
        return shlex.join(["sketchlearn", "sketch", self._given, *chosen, *options, "-o", "all.sketch"])

    @property
    def _call(self) -> str:
        """How to sketch rows in memory: a call in Python."""
        some = len(self.suggested) < len(self.columns)
        rows = f"data[{list(self.suggested)}]" if some else "data"
        encoder = f"encoder=sl.Encoder.fit({rows})" if self.encoder is not None else ""
        if not self.standardize:
            return f"sl.sketch({', '.join(filter(None, [rows, encoder]))})"
        design = ", ".join(filter(None, [rows, f"n_components={_CLUSTERS}", encoder, "standardize=True"]))
        return f"sl.sketch({rows}, sl.design({design}))"

    @property
    def advice(self) -> str:
        """What to do, in words."""
        if not self.suggested:
            return "No column can be sketched as it is."
        parts = [f"Sketch {counted(len(self.suggested), 'column')}"]
        if self.encoder is not None:
            wider = self.encoder.dim > len(self.suggested)
            wide = f" ({counted(self.encoder.dim, 'column')} of numbers)" if wider else ""
            parts.append(f"with an encoder for categories and missing values{wide}")
        if self.standardize:
            parts.append("with columns in units of their spread")
        size = f"{self.size:,} features for up to {_CLUSTERS} clusters, {self.nbytes / 1000:,.0f} kB"
        large = " That is more than the table itself: for few rows, keep the rows." if self._is_larger else ""
        return f"{', '.join(parts)}: {size}.{large}"

    @property
    def _is_larger(self) -> bool:
        """Whether the sketch takes more bytes than all of the rows as float32, as far as they were read."""
        return self.rows < _ROWS and self.nbytes > 4 * self.rows * len(self.suggested)

    def table(self) -> Table:
        """The columns as a table."""
        shares = [column.missing for column in self.columns]
        return Table(
            "columns",
            f"{counted(len(self.columns), 'column')}, {counted(self.rows, 'row')} read",
            (
                Column("column", [column.name for column in self.columns], "text"),
                Column("type", [column.kind for column in self.columns], "text"),
                Column("missing", shares, "share"),
                Column("distinct", [column.distinct for column in self.columns], "count"),
                Column("values", [column.values for column in self.columns], "text"),
                Column("use", [column.use for column in self.columns], "text"),
            ),
        )

    def __str__(self) -> str:
        table = self.table()
        return f"{table.title}\n{table.text(rows=1000)}\n{self.advice}" + (
            f"\n  {self.command}" if self.command else ""
        )

    def _repr_html_(self) -> str:
        table = self.table()
        rows = ([column.text(i) for column in table.columns] for i in range(len(table)))
        return html_table(table.title, rows, [column.name for column in table.columns], self.advice)


def profile(data: Any, *, format: str | None = None, **text: str | None) -> Profile:
    """Look at a table before sketching it: what its columns hold, which of them to use, and how.

    Parameters
    ----------
    data : path, list of paths, frame, Arrow table or array
        Files of any format that :func:`sketchlearn.read` knows, or rows in memory. At most 100 000 rows are read, from
        the beginning of up to 32 files.
    format, delimiter, decimal, encoding : str, optional
        Of files; see :func:`sketchlearn.read`.

    Returns
    -------
    Profile

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> people = pa.table({
    ...     "id": [f"p{i}" for i in range(500)],
    ...     "age": [None if i % 10 == 0 else float(x) for i, x in enumerate(rng.normal(40, 10, 500))],
    ...     "income": rng.normal(30_000, 9000, 500),
    ...     "plan": rng.choice(["free", "paid"], 500).tolist(),
    ... })
    >>> found = sl.profile(people)
    >>> [(column.name, column.use) for column in found.columns][:2]
    [('id', 'leave out: nearly every row has its own value'), ('age', 'number')]
    >>> found.suggested
    ('age', 'income', 'plan')
    >>> rows = people.select(found.suggested)
    >>> phi = sl.design(rows, encoder=found.encoder, standardize=found.standardize)
    >>> sl.sketch(rows, phi).count
    500
    """
    table = _rows(data, format, text)
    given = [data] if isinstance(data, str | os.PathLike) else data if isinstance(data, list) else []
    names = [os.fsdecode(name) for name in given if isinstance(name, str | os.PathLike)]
    columns = tuple(_of_column(name, table.column(name)) for name in dict.fromkeys(table.schema.names))
    kept = [column.name for column in columns if column.kept]
    gaps = any(column.missing or column.use == "category" for column in columns if column.kept)
    encoder = Encoder.fit(table.select(kept)) if kept and gaps else None
    numbers = [column.name for column in columns if column.use == "number"]
    dim = encoder.dim if encoder is not None else len(kept)
    size = default_size(_CLUSTERS, dim) if kept else 0
    return Profile(table.num_rows, columns, encoder, _uneven(table, numbers), size, 16 * size, " ".join(names))


def _rows(data: Any, format: str | None, text: dict[str, str | None]) -> Any:
    """Some rows as an Arrow table."""
    import pyarrow as pa

    paths = [data] if isinstance(data, str | os.PathLike) else data
    if isinstance(paths, list | tuple) and paths and all(isinstance(path, str | os.PathLike) for path in paths):
        from sketchlearn.sources.paths import find_files, format_of

        names = [os.fsdecode(path) for path in paths]
        if format_of(tuple(find_files(names, format).paths), format) in ("parquet", "arrow", "jsonl", "csv", "tsv"):
            return first_rows(names, _ROWS, format=format, **text)
        source = read(names, format=format)
    elif hasattr(data, "columns") or hasattr(data, "schema"):
        table = as_table(data)
        return table.slice(0, _ROWS) if isinstance(table, pa.Table) else pa.Table.from_batches([table]).slice(0, _ROWS)
    else:
        source = read(data)
    rows = next(iter(source), np.empty((0, 0)))[:_ROWS]
    known = source.names if source.names and len(source.names) == rows.shape[1] else map(str, range(rows.shape[1]))
    return pa.table(dict(zip(known, rows.T, strict=True)))


def _of_column(name: str, column: Any) -> ColumnProfile:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.combine_chunks() if hasattr(column, "num_chunks") else column
    types, kind, rows = pa.types, column.type, len(column)
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return _of_numbers(name, column, types.is_integer(kind))
    gaps = column.null_count / max(rows, 1)
    if types.is_temporal(kind):
        edges = [str(value) for value in pc.min_max(column).as_py().values()] if gaps < 1 else []
        use = "leave out: a date (a group or a time bucket?)"
        return ColumnProfile(name, "date", gaps, pc.count_distinct(column).as_py(), " to ".join(edges), use)
    try:
        labels = text_of(column)
    except ValueError:
        return ColumnProfile(name, str(kind), gaps, 0, "", f"leave out: {kind} is neither number nor category")
    frequent = sorted(pc.value_counts(labels.drop_null()).to_pylist(), key=lambda one: (-one["counts"], one["values"]))
    shown = ", ".join(one_line(one["values"])[:20] for one in frequent[:_FEW]) + (
        ", ..." if len(frequent) > _FEW else ""
    )
    word = "yes or no" if types.is_boolean(kind) else "text"
    use = "category"
    if len(frequent) < 2:
        use = "leave out: no value" if not frequent else "leave out: one value only"
    elif mostly_distinct(len(frequent), rows - column.null_count):
        use = "leave out: nearly every row has its own value"
    elif (rest := 1.0 - sum(one["counts"] for one in frequent[:MOST]) / (rows - column.null_count)) > 0.5:
        use = f"leave out: {rest:.0%} of the rows have none of the {MOST} most frequent values"
    return ColumnProfile(name, word, gaps, len(frequent), shown, use)


def _of_numbers(name: str, column: Any, whole: bool) -> ColumnProfile:
    import pyarrow as pa

    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    known = values[np.isfinite(values)]
    distinct = len(np.unique(known))
    word, missing = "integer" if whole else "number", 1.0 - len(known) / max(len(values), 1)
    if not len(known):
        return ColumnProfile(name, word, 1.0, 0, "", "leave out: no value")
    use = "number"
    if distinct == 1:
        use = "leave out: one value only"
    elif whole and distinct == len(values) > 2 and (np.diff(known) > 0).all():
        use = "leave out: numbers the rows"
    ends = (f"{v:.0f}" if whole else number(v) for v in (known.min(), known.max()))
    return ColumnProfile(name, word, missing, distinct, " to ".join(ends), use)


def _uneven(table: Any, names: list[str]) -> bool:
    """Whether one of these columns has so much of the variance that distances are about it alone."""
    import pyarrow as pa

    if len(names) < 2:
        return False
    parts = [
        np.asarray(table.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) for name in names
    ]
    rows = np.stack(parts, axis=1)
    rows = rows[np.isfinite(rows).all(axis=1)]
    return len(rows) > 1 and any("standardize" in remark.options for remark in remarks(rows, names, True))
