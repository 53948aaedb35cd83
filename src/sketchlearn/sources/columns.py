"""From named columns (Arrow batches, or lists from a database cursor) to blocks of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import EXACT, RowError, narrowed, too_large
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.encoder import Number
from sketchlearn.features.pilot_table import encoded_rows
from sketchlearn.optional import optional
from sketchlearn.sources.base import Batch, coded
from sketchlearn.sources.conditions import arrow_expression, columns_in
from sketchlearn.sources.derived import Derived
from sketchlearn.sources.selection import Selection
from sketchlearn.sources.users import of_arrow as users_of


def arrow(purpose: str) -> Any:
    """The package pyarrow."""
    return optional("pyarrow", "files", purpose)


class Layout:
    """Which columns of a table are the numbers, the weight and the group, and how they become batches.

    `names`: all columns that the table has. `selection`: what the user asked for. `place`: file or table, for error
    messages. `optional`: columns that are only read when they are named (partition keys of a folder).
    """

    def __init__(
        self,
        names: Sequence[str],
        selection: Selection,
        place: str,
        optional: Sequence[str] = (),
    ) -> None:
        self.place = place
        twice = {n for n in names if list(names).count(n) > 1} if len(set(names)) < len(names) else set()
        if selection.group_by is not None and not isinstance(selection.group_by, str | int):
            raise ValueError(f"{place}: group_by must be the name of a column here")
        self.weight = self._name(names, selection.weight_column)
        self.group = self._name(names, selection.group_by)
        if selection.user is not None and not isinstance(selection.user, str | int):
            raise ValueError(f"{place}: user must be the name of a column here")
        self.user = self._name(names, selection.user)
        self.selection = replace(selection, weight_column=self.weight, group_by=self.group, user=self.user)
        grouping = self.group.columns if isinstance(self.group, Derived) else (self.group,)
        wanted: Sequence[str | int] | None = selection.columns
        if wanted is None:
            wanted = selection.expected
        if wanted is None:
            beside = (self.weight, self.user, *grouping)
            wanted = [n for n in names if n not in beside and n not in optional]
        self.inputs = tuple(str(self._name(names, c)) for c in wanted)
        """Columns that are read."""
        self.encoder = selection.encoder
        self.numeric = self.inputs
        """Those of them that must be numbers."""
        self.numbers = self.inputs
        """Columns of the rows."""
        if self.encoder is not None:
            self.numbers = self.encoder.names
            self.numeric = tuple(rule.name for rule in self.encoder.rules if isinstance(rule, Number))
        self.extra = [n for n in (self.weight, *grouping, self.user) if n is not None]
        for name in [*self.inputs, *self.extra, *columns_in(selection.where)]:
            if name not in names:
                raise ValueError(f"{place} has no column {name!r}; it has {_listed(names)}")
            if name in twice:
                raise ValueError(f"{place} has more than one column named {name!r}")
        if not self.numbers:
            raise ValueError(f"{place} has no columns left to read")

    def _name(self, names: Sequence[str], column: str | int | None) -> str | None:
        """The name of a column that is given by its name or its number."""
        if not isinstance(column, int):
            return column
        if not -len(names) <= column < len(names):
            raise ValueError(f"{self.place} has {len(names)} columns, there is no column number {column}")
        return names[column]

    def agree_with(self, first: Layout) -> None:
        """Read the columns in the order of the first file; refuse files that have others."""
        if set(self.inputs) != set(first.inputs):
            odd = sorted(set(self.inputs) ^ set(first.inputs))
            raise ValueError(
                f"{self.place} and {first.place} have different columns ({', '.join(map(repr, odd[:5]))}): "
                "choose columns that all files have"
            )
        self.inputs, self.numeric, self.numbers = first.inputs, first.numeric, first.numbers

    @property
    def needed(self) -> list[str]:
        """Columns to ask the reader for."""
        return list(dict.fromkeys([*self.inputs, *self.extra, *columns_in(self.selection.where)]))

    # -- Arrow -------------------------------------------------------------------------------

    def check(self, schema: Any) -> None:
        """Refuse columns whose type is not a number before any row is read."""
        pa = arrow("this")
        types = pa.types
        for name in self.numeric:
            t = schema.field(name).type
            if types.is_dictionary(t):
                t = t.value_type
            embedding = _is_list(types, t)
            if embedding and len(self.numbers) > 1:
                raise InputError(
                    f"{self.place}: column {name!r} holds lists; a column of embeddings must be the only column that "
                    "is read: ",
                    Option("columns", [name]),
                )
            value = t.value_type if embedding else t
            if not (
                types.is_floating(value) or types.is_integer(value) or types.is_boolean(value)
                or types.is_decimal(value) or types.is_null(value)
            ):  # fmt: skip
                numeric = [f.name for f in schema if types.is_floating(f.type) or types.is_integer(f.type)]
                few = ("read numeric columns only, with ", Option("columns", numeric[:20]), ", or ") if numeric else ()
                raise InputError(
                    f"{self.place}: column {name!r} holds {_word(t)}, not numbers: ",
                    *few,
                    "make numbers of categories with ",
                    Option("encoder", "sl.Encoder.fit(sample)", code=True),
                )
        if self.weight is not None:
            t = schema.field(self.weight).type
            if not (types.is_floating(t) or types.is_integer(t) or types.is_decimal(t) or types.is_null(t)):
                raise ValueError(f"{self.place}: the weights in {self.weight!r} are {_word(t)}")
        if isinstance(self.group, Derived):
            self.group.check(schema, self.place)
        elif self.group is not None:
            _check_groups(types, schema.field(str(self.group)).type, f"{self.place}: group_by={self.group!r}")

    def expression(self, schema: Any) -> Any:
        """The row filter as an Arrow expression for a table of this schema, or None."""
        return arrow_expression(self.selection.where, schema) if self.selection.where else None

    def batch(self, table: Any, filtered: bool = False) -> Batch:
        """Numbers, weights and groups of an Arrow record batch."""
        pa = arrow("this")
        if self.selection.where and not filtered:
            try:
                table = _filterable(table.select(self.needed))
                table = table.filter(self.expression(table.schema))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise ValueError(f"{self.place}: the condition can't be applied: {first_line(error)}") from None
        columns = [_whole(table.column(name)) for name in self.inputs]
        if self.encoder is not None:
            encoded = encoded_rows(table, self.encoder, lambda column, name: self._column(pa, column, name))
            rows = narrowed(encoded, self.selection.dtype)
        elif len(columns) == 1 and _is_list(pa.types, columns[0].type):
            rows = self._embedding(pa, columns[0])
        else:
            rows = self._block(pa, columns, table.num_rows)
        weights = groups = labels = None
        if self.weight is not None:
            column = _whole(table.column(self.weight))
            weights = self._column(pa, column, self.weight).astype(np.float64, copy=False)
        if isinstance(self.group, Derived):
            groups, labels = self.group.codes(table)
        elif self.group is not None:
            groups, labels = coded_groups(table.column(self.group), f"{self.place}: group_by={self.group!r}")
        users = None if self.user is None else users_of(pa, _whole(table.column(self.user)), self.user)
        return Batch(rows, weights, groups, labels, users)

    def _block(self, pa: Any, columns: list[Any], rows: int) -> npt.NDArray[np.floating]:
        values = [self._column(pa, c, n) for c, n in zip(columns, self.numbers, strict=True)]
        dtype = self.selection.dtype or ("f4" if all(v.dtype == np.float32 for v in values) else "f8")
        # column by column is how it comes; the kernel reads any strides
        block = np.empty((len(values), rows), dtype)
        for line, column in zip(block, values, strict=True):
            line[:] = narrowed(column, self.selection.dtype)
        return block.T

    def _column(self, pa: Any, column: Any, name: str) -> npt.NDArray[np.floating]:
        """One column as float32 or float64; nulls become NaN."""
        types = pa.types
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        t = column.type
        if types.is_float16(t):
            return column.to_numpy(zero_copy_only=False).astype(np.float32)
        if types.is_floating(t):
            return column.to_numpy(zero_copy_only=False)
        if types.is_null(t):
            return np.full(len(column), np.nan)
        if types.is_boolean(t):
            return column.cast(pa.uint8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        if types.is_integer(t) or types.is_decimal(t):
            plain = column.cast(pa.float64()) if types.is_decimal(t) else column
            numbers = plain.to_numpy(zero_copy_only=False).astype(np.float64)
            if t.scale <= 0 if types.is_decimal(t) else t.bit_width == 64:
                # 2**53 + 1 becomes 2**53: look at the integers that are close
                for row in np.flatnonzero(np.abs(numbers) >= EXACT).tolist():
                    value = column[row].as_py()
                    if abs(value) > EXACT:
                        raise too_large(f"column {name!r}", value, row)
            return numbers
        raise ValueError(f"{self.place}: column {name!r} holds {_word(t)}, not numbers")

    def _embedding(self, pa: Any, column: Any) -> npt.NDArray[np.floating]:
        """A column of lists as a block; a null list is an invalid row."""
        name, rows = self.numbers[0], len(column)
        if pa.types.is_fixed_size_list(column.type):
            width = column.type.list_size
            nulls = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
            flat = column.values.slice(column.offset * width, rows * width)
        else:
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            nulls = np.isnan(lengths.astype(np.float64))
            present = lengths[~nulls]
            width = int(present[0]) if len(present) else 0
            if len(present) and (present != width).any():
                bad = int(np.flatnonzero(~nulls & (lengths != width))[0])
                raise RowError(
                    f"the lists in column {name!r} have different lengths: {width} and {int(lengths[bad])}; embeddings "
                    "must all have the same",
                    bad,
                )
            flat = column.flatten()
            if not len(present):
                raise ValueError(f"{self.place}: column {name!r} has only nulls in {rows} rows: its width is not known")
        try:
            values = narrowed(self._column(pa, flat, name), self.selection.dtype)
        except RowError as error:
            raise RowError(str(error), None if error.row is None or nulls.any() else error.row // width) from None
        if not nulls.any():
            return values.reshape(rows, width)
        block = np.full((rows, width), np.nan, values.dtype)
        fixed = pa.types.is_fixed_size_list(column.type)
        block[~nulls] = values.reshape(-1, width)[~nulls] if fixed else values.reshape(-1, width)
        return block

    # -- lists of tuples ---------------------------------------------------------------------

    def tuples(self, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Batch:
        """Numbers, weights and groups of the rows of a database cursor."""
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        if self.encoder is not None or self.user is not None or isinstance(self.group, Derived):
            return self.batch(arrow("encoding").table({name: list(columns[name]) for name in self.needed}))
        block = np.empty((len(self.numbers), len(rows)), self.selection.dtype or "f8")
        for line, name in zip(block, self.numbers, strict=True):
            line[:] = self._values(columns[name], name)
        weights = groups = labels = None
        if self.weight is not None:
            weights = self._values(columns[self.weight], self.weight)
        if self.group is not None:
            groups, labels = coded(columns[self.group])
        return Batch(block.T, weights, groups, labels)

    def _values(self, values: Sequence[Any], name: str) -> npt.NDArray[np.float64]:
        odd = [t for t in set(map(type, values)) if not issubclass(t, (Real, Decimal, type(None)))]
        if odd:
            row = next(i for i, v in enumerate(values) if type(v) in odd)
            raise RowError(f"column {name!r} holds {_python_word(values[row])}, not numbers", row)
        try:
            array = np.array(values, np.float64)  # None becomes NaN
        except OverflowError:
            array = np.array([np.inf if isinstance(v, int) and abs(v) > EXACT else v for v in values], np.float64)
        for row in np.flatnonzero(np.abs(array) >= EXACT).tolist():
            value = values[row]
            if not isinstance(value, float) and abs(value) > EXACT and value == int(value):
                raise too_large(f"column {name!r}", value, row)
        return array


def coded_groups(column: Any, what: str) -> tuple[npt.NDArray[np.int64], tuple[Any, ...]]:
    """The group of each row as its place among the labels, and the labels, from an Arrow array; a null is None."""
    pa = arrow("this")
    column = _whole(column)
    types = pa.types
    _check_groups(types, column.type, what)
    if types.is_floating(column.type):
        column = _whole_labels(column, what)
    if types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)  # what Python's own dates can hold
    encoded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    labels = tuple(encoded.dictionary.to_pylist())
    codes = encoded.indices.cast(pa.int64())
    if codes.null_count:
        codes = codes.fill_null(len(labels))
        labels = (*labels, None)
    return codes.to_numpy(zero_copy_only=False), labels


def _whole_labels(column: Any, what: str) -> Any:
    """Whole numbers that are stored as floating-point ones (a text file, a column of pandas with gaps) as integers."""
    pa = arrow("this")
    import pyarrow.compute as pc

    column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        known = column.drop_null()
        value = known.filter(pc.not_equal(known, pc.round(known)))[0].as_py()
        raise ValueError(
            f"{what} holds numbers with decimals, such as {value:g}; groups must be text, whole numbers, booleans or "
            "dates"
        ) from None


def _check_groups(types: Any, t: Any, what: str) -> None:
    if types.is_dictionary(t):
        t = t.value_type
    if not (
        types.is_string(t) or types.is_large_string(t) or types.is_string_view(t) or types.is_integer(t)
        or types.is_floating(t) or types.is_boolean(t) or types.is_date(t) or types.is_timestamp(t) or types.is_null(t)
    ):  # fmt: skip
        raise ValueError(f"{what} holds {_word(t)}; groups must be text, whole numbers, booleans or dates")


def stream_of(layout: Layout, tables: Iterable[Any], filtered: bool = False) -> Iterator[Batch]:
    """Batches of a stream of Arrow record batches."""
    for table in tables:
        if table.num_rows:
            batch = layout.batch(table, filtered)
            if len(batch.rows):
                yield batch


def first_line(error: BaseException) -> str:
    """The first line of what a foreign library says."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def _whole(column: Any) -> Any:
    """A column of a record batch as it is, of a table in one piece."""
    return column.combine_chunks() if hasattr(column, "num_chunks") else column


def _filterable(table: Any) -> Any:
    """The table without string views (polars has them), which Arrow can't filter."""
    pa = arrow("this")
    fields = [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _is_list(types: Any, t: Any) -> bool:
    return types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t)


def _word(t: Any) -> str:
    text = str(t)
    if text in ("binary", "large_binary"):
        return "bytes (or text that is not UTF-8)"
    return "text" if text.startswith(("string", "large_string", "string_view")) else f"values of type {text}"


def _python_word(value: Any) -> str:
    return {"str": "text", "bytes": "binary values", "memoryview": "binary values"}.get(
        type(value).__name__, f"{type(value).__name__} values"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
