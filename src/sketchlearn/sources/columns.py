"""From named columns (Arrow batches, or lists from a database cursor) to blocks of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.optional import optional
from sketchlearn.sources.base import Batch, Condition, Labels, Selection

_EXACT = 2**53


def arrow(purpose: str) -> Any:
    """The package pyarrow."""
    return optional("pyarrow", "files", purpose)


class Layout:
    """Which columns of a table are the numbers, the weight and the group, and how they become batches.

    Parameters
    ----------
    names : sequence of str
        All columns that the table has.
    selection : Selection
        What the user asked for.
    place : str
        File or table, for error messages.
    optional : sequence of str
        Columns that are only read when they are named (partition keys of a folder).
    labels : Labels, optional
        Where the groups are numbered; shared by all files of a source.
    """

    def __init__(
        self,
        names: Sequence[str],
        selection: Selection,
        place: str,
        optional: Sequence[str] = (),
        labels: Labels | None = None,
    ) -> None:
        self.selection, self.place = selection, place
        self.labels = labels
        twice = {n for n in names if list(names).count(n) > 1}
        group = selection.group_by
        if group is not None and not isinstance(group, str):
            raise ValueError(f"{place}: group_by must be the name of a column here")
        wanted: Sequence[str | int] | None = selection.columns
        if wanted is None:
            wanted = selection.expected
        if wanted is None:
            wanted = [n for n in names if n not in (selection.weight_column, group) and n not in optional]
        chosen = []
        for name in wanted:
            if isinstance(name, int):
                if not -len(names) <= name < len(names):
                    raise ValueError(f"{place} has {len(names)} columns, there is no column number {name}")
                name = names[name]
            chosen.append(name)
        self.numbers = tuple(chosen)
        self.extra = [n for n in (selection.weight_column, group) if n is not None]
        for name in [*self.numbers, *self.extra, *(c.column for c in selection.where)]:
            if name not in names:
                raise ValueError(f"{place} has no column {name!r}; it has {_listed(names)}")
            if name in twice:
                raise ValueError(f"{place} has more than one column named {name!r}")
        if not self.numbers:
            raise ValueError(f"{place} has no columns left to read")

    def agree_with(self, first: Layout) -> None:
        """Read the columns in the order of the first file; refuse files that have others."""
        if set(self.numbers) != set(first.numbers):
            odd = sorted(set(self.numbers) ^ set(first.numbers))
            raise ValueError(
                f"{self.place} and {first.place} have different columns ({', '.join(map(repr, odd[:5]))}): "
                "choose columns that all files have"
            )
        self.numbers = first.numbers

    @property
    def needed(self) -> list[str]:
        """Columns to ask the reader for."""
        return list(dict.fromkeys([*self.numbers, *self.extra, *(c.column for c in self.selection.where)]))

    # -- Arrow -------------------------------------------------------------------------------

    def check(self, schema: Any) -> None:
        """Refuse columns whose type is not a number before any row is read."""
        pa = arrow("this")
        types = pa.types
        for name in self.numbers:
            t = schema.field(name).type
            if types.is_dictionary(t):
                t = t.value_type
            embedding = _is_list(types, t)
            if embedding and len(self.numbers) > 1:
                raise ValueError(
                    f"{self.place}: column {name!r} holds lists; a column of embeddings must be the only column "
                    f"that is read: columns=[{name!r}]"
                )
            value = t.value_type if embedding else t
            if not (
                types.is_floating(value) or types.is_integer(value) or types.is_boolean(value)
                or types.is_decimal(value) or types.is_null(value)
            ):  # fmt: skip
                numeric = [f.name for f in schema if types.is_floating(f.type) or types.is_integer(f.type)]
                hint = f"choose numeric columns, e.g. columns={numeric[:3]}" if numeric else "there is no numeric one"
                raise ValueError(f"{self.place}: column {name!r} holds {_word(t)}, not numbers; {hint}")
        if self.selection.weight_column:
            t = schema.field(self.selection.weight_column).type
            if not (types.is_floating(t) or types.is_integer(t) or types.is_decimal(t) or types.is_null(t)):
                raise ValueError(f"{self.place}: the weights in {self.selection.weight_column!r} are {_word(t)}")

    def expression(self) -> Any:
        """The row filter as an Arrow expression, or None."""
        return filter_expression(self.selection.where) if self.selection.where else None

    def batch(self, table: Any, filtered: bool = False) -> Batch:
        """Numbers, weights and groups of an Arrow record batch."""
        pa = arrow("this")
        if self.selection.where and not filtered:
            try:
                table = table.filter(self.expression())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise ValueError(f"{self.place}: the condition can't be applied: {first_line(error)}") from None
        columns = [_whole(table.column(name)) for name in self.numbers]
        if len(columns) == 1 and _is_list(pa.types, columns[0].type):
            rows = self._embedding(pa, columns[0])
        else:
            rows = self._block(pa, columns, table.num_rows)
        weights = groups = None
        if self.selection.weight_column:
            name = self.selection.weight_column
            weights = self._column(pa, _whole(table.column(name)), name).astype(np.float64, copy=False)
        if self.labels is not None:
            groups = self._groups(pa, _whole(table.column(str(self.selection.group_by))))
        return Batch(rows, weights, groups)

    def _block(self, pa: Any, columns: list[Any], rows: int) -> npt.NDArray[np.floating]:
        values = [self._column(pa, c, n) for c, n in zip(columns, self.numbers, strict=True)]
        dtype = self.selection.dtype or ("f4" if all(v.dtype == np.float32 for v in values) else "f8")
        # column by column is how it comes; the kernel reads any strides
        block = np.empty((len(values), rows), dtype)
        for line, column in zip(block, values, strict=True):
            line[:] = column
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
        if types.is_boolean(t) or types.is_decimal(t):
            return (
                column.cast(pa.uint8() if types.is_boolean(t) else pa.float64())
                .cast(pa.float64())
                .to_numpy(zero_copy_only=False)
            )
        if types.is_integer(t):
            if t.bit_width == 64 and len(column):
                import pyarrow.compute as pc

                limits = pc.min_max(column).as_py()
                worst = max((limits["min"], limits["max"]), key=lambda v: abs(v or 0))
                if worst is not None and abs(worst) > _EXACT:
                    raise self._too_large(name, worst)
            return column.to_numpy(zero_copy_only=False).astype(np.float64)
        raise ValueError(f"{self.place}: column {name!r} holds {_word(t)}, not numbers")

    def _too_large(self, name: str, value: Any) -> OverflowError:
        return OverflowError(
            f"{self.place}: column {name!r} has the integer {value}, beyond 2**53: it can't be a number with "
            "53 bits; leave the column out (is it an identifier?) or scale it"
        )

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
                raise ValueError(
                    f"{self.place}: the lists in column {name!r} have different lengths: {width} and "
                    f"{int(lengths[bad])}; embeddings must all have the same"
                )
            flat = column.flatten()
            if not len(present):
                raise ValueError(f"{self.place}: column {name!r} has only nulls in {rows} rows: its width is not known")
        values = self._column(pa, flat, name)
        if self.selection.dtype:
            values = values.astype(self.selection.dtype, copy=False)
        if not nulls.any():
            return values.reshape(rows, width)
        block = np.full((rows, width), np.nan, values.dtype)
        fixed = pa.types.is_fixed_size_list(column.type)
        block[~nulls] = values.reshape(-1, width)[~nulls] if fixed else values.reshape(-1, width)
        return block

    def _groups(self, pa: Any, column: Any) -> npt.NDArray[np.int64]:
        assert self.labels is not None
        types, t = pa.types, column.type
        if types.is_dictionary(t):
            t = t.value_type
        if types.is_floating(t) or types.is_nested(t):
            raise ValueError(
                f"{self.place}: group_by={self.selection.group_by!r} holds {_word(t)}; groups must be text, whole "
                "numbers, booleans or dates"
            )
        encoded = column if types.is_dictionary(column.type) else column.dictionary_encode()
        numbers = self.labels.encode(encoded.dictionary.to_pylist())
        codes = encoded.indices
        if codes.null_count:
            numbers = np.append(numbers, self.labels.number(None))
            codes = codes.fill_null(len(numbers) - 1)
        return numbers[codes.to_numpy(zero_copy_only=False)]

    # -- lists of tuples ---------------------------------------------------------------------

    def tuples(self, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Batch:
        """Numbers, weights and groups of the rows of a database cursor."""
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        block = np.empty((len(self.numbers), len(rows)), self.selection.dtype or "f8")
        for line, name in zip(block, self.numbers, strict=True):
            line[:] = self._values(columns[name], name)
        weights = groups = None
        if self.selection.weight_column:
            weights = self._values(columns[self.selection.weight_column], self.selection.weight_column)
        if self.labels is not None:
            groups = self.labels.encode(columns[str(self.selection.group_by)])
        return Batch(block.T, weights, groups)

    def _values(self, values: Sequence[Any], name: str) -> npt.NDArray[np.float64]:
        try:
            array = np.array(values)
        except ValueError:
            array = np.array(values, object)
        if array.dtype.kind in "fb":
            return array.astype(np.float64, copy=False)
        if array.dtype.kind == "O":
            bad = next((v for v in values if isinstance(v, str | bytes | list | dict)), None)
            if bad is None:
                large = next((v for v in values if isinstance(v, int) and abs(v) > _EXACT), None)
                if large is not None:
                    raise self._too_large(name, large)
                try:
                    return np.array([np.nan if v is None else float(v) for v in values])
                except (TypeError, ValueError):
                    bad = next(v for v in values if v is not None)
            raise ValueError(f"{self.place}: column {name!r} holds {type(bad).__name__} values, not numbers")
        if array.dtype.kind in "iu":
            worst = max(int(array.max(initial=0)), -int(array.min(initial=0)))
            if worst > _EXACT:
                raise self._too_large(name, worst)
            return array.astype(np.float64)
        raise ValueError(f"{self.place}: column {name!r} holds text, not numbers; choose numeric columns")


def stream_of(layout: Layout, tables: Iterable[Any], filtered: bool = False) -> Iterator[Batch]:
    """Batches of a stream of Arrow record batches."""
    for table in tables:
        if table.num_rows:
            batch = layout.batch(table, filtered)
            if len(batch.rows):
                yield batch


def filter_expression(conditions: Sequence[Condition]) -> Any:
    """Conditions as one Arrow expression."""
    arrow("a row filter")
    import pyarrow.compute as pc

    whole = None
    for column, operator, value in conditions:
        column_ = pc.field(column)
        one = {
            "==": lambda c=column_, v=value: c == v,
            "!=": lambda c=column_, v=value: c != v,
            "<": lambda c=column_, v=value: c < v,
            "<=": lambda c=column_, v=value: c <= v,
            ">": lambda c=column_, v=value: c > v,
            ">=": lambda c=column_, v=value: c >= v,
            "in": lambda c=column_, v=value: c.isin(list(v)),
            "not in": lambda c=column_, v=value: ~c.isin(list(v)),
        }[operator]()
        whole = one if whole is None else whole & one
    return whole


def first_line(error: BaseException) -> str:
    """The first line of what a foreign library says."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def _whole(column: Any) -> Any:
    """A column of a record batch as it is, of a table in one piece."""
    return column.combine_chunks() if hasattr(column, "num_chunks") else column


def _is_list(types: Any, t: Any) -> bool:
    return types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t)


def _word(t: Any) -> str:
    text = str(t)
    return "text" if text.startswith(("string", "large_string", "string_view")) else f"values of type {text}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
