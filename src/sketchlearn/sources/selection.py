"""What to read: one set of options for everything that rows can come from."""

from __future__ import annotations

import ast
import codecs
import hashlib
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from sketchlearn.accepts import NOTHING, whole
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.encoder import Encoder
from sketchlearn.sources.conditions import OPERATORS, Condition, Filter, Junction, parse_condition


class ReadOptions(TypedDict, total=False):
    """Options of :func:`sketchlearn.read`, which :func:`sketchlearn.sketch` takes too."""

    columns: Sequence[str | int] | str | None
    weight_column: str | int | None
    where: Any
    query: str | None
    dataset: str | None
    format: str | None
    dtype: str | None
    delimiter: str | None
    decimal: str | None
    encoding: str | None
    encoder: Encoder | None
    sample_weight: npt.ArrayLike | None
    user: str | int | npt.ArrayLike | None
    max_rows_per_user: int | None
    sample: float | None


TEXT_OPTIONS = ("delimiter", "decimal", "encoding")
"""Options of delimited text alone."""

_INSTEAD = {
    "query": ": it is for databases; the URL duckdb: can query files (SELECT ... FROM 'file.parquet')",
    "dataset": ": it is for HDF5 files and Zarr groups; choose columns with columns",
    "format": ": it is for files",
    "where": ": filter the rows before",
    "weight_column": ": give the weights with the rows",
    "group_by": ": put the rows into a frame with a column of groups",
    "delimiter": ": it is for CSV",
    "decimal": ": it is for CSV",
    "encoding": ": it is for CSV",
    "sample_weight": ": put the weights into a column and use weight_column",
    "user": ": put the rows into a frame or a file with a column of users",
}


@dataclass(frozen=True)
class Selection:
    """Which rows and columns to read, and how; see :func:`sketchlearn.read` for the meaning of the fields."""

    columns: tuple[str | int, ...] | None = None
    expected: tuple[str, ...] | None = None
    """Columns of the feature map: chosen by name where the data has names and `columns` says nothing."""
    weight_column: str | int | None = None
    group_by: Any = None
    where: tuple[Filter, ...] = ()
    query: str | None = None
    dataset: str | None = None
    format: str | None = None
    dtype: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    encoder: Encoder | None = None
    """Rules by which columns become numbers; those of the feature map."""
    sample_weight: Any = None
    user: Any = None
    max_rows_per_user: int | None = None
    sample: float | None = None

    @classmethod
    def of(cls, **options: Any) -> Selection:
        """Checked and in canonical form."""
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            known = [f.name for f in fields(cls) if f.name != "expected"]
            inside = [name for name in known if unknown[0].rstrip("s") in name]
            near = get_close_matches(unknown[0], known, 1, 0.7) or inside
            guess = f"did you mean {' or '.join(map(repr, near))}?"
            hint = guess if near else f"the options for rows are {', '.join(known)}"
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}: {hint}")
        columns = options.pop("columns", None)
        if columns is not None:
            columns = (columns,) if isinstance(columns, str | int) else tuple(columns)
            columns = tuple(c if isinstance(c, str) else operator.index(c) for c in columns)
            if not columns:
                raise ValueError("columns is empty: name at least one column")
            if len(set(columns)) != len(columns):
                twice = next(c for c in columns if columns.count(c) > 1)
                raise ValueError(f"columns names {twice!r} twice")
        where = options.pop("where", None)
        if where is None:
            where = ()
        elif isinstance(where, str | Condition | Junction) or _is_triple(where):
            where = (where,)
        dtype = options.pop("dtype", None)
        if dtype is not None:
            try:
                dtype = np.dtype(dtype).name
            except TypeError:
                dtype = str(dtype)
            if dtype not in ("float32", "float64"):
                raise InputError(Option("dtype", dtype), ": rows are read as float32 or float64")
        _check_text(options)
        _check_user(options)
        if options.get("encoder") is not None:
            if columns is not None:
                raise ValueError("columns and an encoder: the encoder says which columns are read")
            options["expected"] = options["encoder"].columns
        return cls(columns=columns, where=tuple(map(parse_condition, where)), dtype=dtype, **options)

    @classmethod
    def for_map(cls, features: FeatureMap | None, **options: Any) -> Selection:
        """Rows for a feature map, if there is one yet: its columns by name, encoded as its recipe says."""
        if features is None:
            return cls.of(**options)
        given = options.pop("encoder", None)
        if given is not None and given != features.encoder:
            has = "has no encoder" if features.encoder is None else "has another encoder"
            raise InputError(f"the feature map {has}: leave out ", Option("encoder"), ", or design a map with it")
        return cls.of(expected=features.input_columns, encoder=features.encoder, **options)

    def refuse(self, kind: str, *names: str) -> None:
        """Options that make no sense for this kind of data are errors, not silently ignored."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, tuple) and not value):
                hint = "" if ":" in kind or ";" in kind else _INSTEAD.get(name, "")
                raise InputError(Option(name), f" doesn't apply to {kind}{hint}")

    def settings(self) -> dict[str, str]:
        """What a checkpoint must agree on: everything that decides which rows count and how."""
        values = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("sample_weight", "expected", "encoder")
        }
        return {k: _setting(v) for k, v in values.items() if v is not None and not (isinstance(v, tuple) and not v)}


_WHOLE_TABLE = re.compile(
    r"""\s*(select\s+(?!distinct\b|top\b)[\w\s,"*.]+\s)?\s*from\s+[\w."'/-]+\s*;?\s*""", re.IGNORECASE
)


def selects(settings: Mapping[str, str]) -> bool:
    """Whether options that a source was opened with choose rows by what is in them.

    A query does, unless it reads some columns of one table.

    Examples
    --------
    >>> from sketchlearn.sources.selection import Selection, selects
    >>> [selects(Selection.of(query=f"SELECT x FROM t{rest}").settings()) for rest in ("", " WHERE x > 0")]
    [False, True]
    """
    query = settings.get("query")
    return "where" in settings or (query is not None and not _WHOLE_TABLE.fullmatch(ast.literal_eval(query)))


def _is_triple(where: Any) -> bool:
    return isinstance(where, tuple) and len(where) == 3 and where[1] in (*OPERATORS, "=")


def _check_text(options: dict[str, Any]) -> None:
    """Refuse options of delimited text that make no sense."""
    delimiter, decimal, encoding = (options.get(name) for name in TEXT_OPTIONS)
    if delimiter in ("tab", "\\t"):
        delimiter = options["delimiter"] = "\t"
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise InputError(Option("delimiter", delimiter), ": give one character, such as ';' or 'tab'")
    if decimal is not None and decimal not in (".", ","):
        raise InputError(Option("decimal", decimal), ": numbers are written with '.' or ','")
    if decimal is not None and decimal == delimiter:
        raise InputError(Option("delimiter"), " and ", Option("decimal"), f" are both {decimal!r}")
    if encoding is not None:
        try:
            options["encoding"] = codecs.lookup(encoding).name
        except LookupError:
            raise InputError(
                Option("encoding", encoding), " is not known; give utf-8, utf-16, latin-1, cp1252, ..."
            ) from None


def _check_user(options: dict[str, Any]) -> None:
    """Whose rows they are and how many of each user count go together."""
    user, most = options.get("user"), options.get("max_rows_per_user")
    if (user is None) != (most is None):
        raise ValueError("user and max_rows_per_user go together: whose rows they are, and how many of each user count")
    (whole() | NOTHING).check("max_rows_per_user", most)
    if options.get("sample") is not None:
        if user is not None:
            raise ValueError("sample and user can't be combined: rows are sampled one by one")
        if options.get("weight_column") is not None or options.get("sample_weight") is not None:
            raise ValueError("sample and weights can't be combined: sampled rows have weight 1")
    if user is not None and (options.get("weight_column") is not None or options.get("sample_weight") is not None):
        raise ValueError("user and weights can't be combined: a weight counts as that many rows of its user")


def _setting(value: Any) -> str:
    """A value in words; of labels for each row only a checksum."""
    if isinstance(value, str | int | tuple):
        return repr(value)
    labels = np.asarray(value)
    found = hashlib.blake2b(labels.dtype.str.encode(), digest_size=32)
    plain = labels.dtype.kind in "biufSUM"  # a million labels must not become a million Python objects, or be copied
    found.update(np.ascontiguousarray(labels).view(np.uint8).data if plain else repr(labels.tolist()).encode())
    return found.hexdigest()
