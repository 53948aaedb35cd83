"""CSV, TSV and JSON lines, compressed or not.

Text is cut into blocks of whole lines here and each block is parsed on its own: memory is that of a block, files
and streams are read alike, and the text of a number is at hand where the number alone can't tell what was written.
"""

from __future__ import annotations

import codecs
import json
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np

from sketchlearn.arrays import EXACT, RowError, too_large
from sketchlearn.exceptions import InputError, Option, SourceError
from sketchlearn.optional import arrow_reader
from sketchlearn.sources.base import Batch, Part, Source
from sketchlearn.sources.columns import Layout, arrow, stream_of
from sketchlearn.sources.paths import (
    COMPRESSIONS,
    Files,
    identity,
    reading,
    refuse_binary,
    register_format,
    stream_name,
)
from sketchlearn.sources.remote import is_remote, open_remote, open_remote_stream
from sketchlearn.sources.selection import Selection

_BLOCK = 2**22  # bytes of text parsed at a time
_LONGEST_LINE = 2**28
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_END = re.compile(rb"\r\n|\n|\r")
_START = re.compile(r"\S")
_CHANGED = re.compile(r"Column\(/?(.*?)\) changed from (\w+) to (\w+) in row (\d+)")


class Grammar(Protocol):
    """How a block of text becomes a table."""

    kind: str
    empty: str
    sparse: bool
    """Fields may be missing: the first file tells the columns of all."""
    encoding: str | None
    """Of the text, if it is not UTF-8."""
    typed: bool
    """Tells text from numbers; otherwise labels of groups are text."""

    def chosen(self, selection: Selection) -> Grammar:
        """A copy with the options of a selection."""
        ...

    def schema(self, first: bytes) -> Any:
        """Names and types that the first block suggests."""
        ...

    def table(self, block: bytes, head: bool, names: list[str], types: dict[str, Any]) -> Any:
        """These columns of a block with these types; `head` for the first block."""
        ...

    def tokens(self, block: bytes, head: bool, names: list[str], column: str) -> list[Any]:
        """What is written in one column, uninterpreted: text or Python values, None for nulls."""
        ...


# -- any text --------------------------------------------------------------------------------------


class _Utf8:
    """Text in another encoding, read as UTF-8."""

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._decoder, self._ended = file, codecs.getincrementaldecoder(encoding)(), False

    def read(self, size: int) -> bytes:
        while not self._ended:
            data = self._file.read(size)
            self._ended = not data
            if text := self._decoder.decode(bytes(data), self._ended):
                return text.encode()
        return b""


def _opened(path: str) -> AbstractContextManager[Any]:
    """The bytes of a file, decompressed if its suffix says so."""
    import pyarrow as pa

    compression = next((name for suffix, name in COMPRESSIONS.items() if path.lower().endswith(suffix)), None)
    if compression == "xz":
        return lzma.open(open_remote(path) if is_remote(path) else path)
    if is_remote(path):
        return open_remote_stream(path, compression)
    return pa.input_stream(path, compression=compression)


def _blocks(file: Any, place: str, encoding: str | None) -> Iterator[bytes]:
    """Pieces of some megabytes that end with a line."""
    rest: list[bytes] = []
    first = True
    if encoding is not None and encoding != "utf-8":
        file = _Utf8(file, encoding)
    while data := file.read(_BLOCK):
        if first:
            refuse_binary(bytes(data[:16]), place)
            first = False
        cut = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1  # \r at the very end may be half of \r\n
        if cut:
            yield b"".join([*rest, data[:cut]])
            rest = []
        rest.append(data[cut:])
        if sum(map(len, rest)) > _LONGEST_LINE:
            raise SourceError(f"{place}: a line is longer than {_LONGEST_LINE >> 20} MB: is this text?")
    if any(rest):
        yield b"".join(rest)


def _filled(file: Any, place: str, grammar: Grammar) -> Iterator[bytes]:
    """Blocks that are more than empty lines."""
    with reading(place, grammar.kind):
        yield from (block for block in _blocks(file, place, grammar.encoding) if not block.isspace())


def _pinned(layout: Layout, schema: Any, grammar: Grammar) -> dict[str, Any]:
    """Types that no later block can change: the first rows never decide what the last must be.

    Only columns that filter and do nothing else keep the type that the first block suggests.
    """
    import pyarrow as pa

    selection = layout.selection
    real = pa.float32() if selection.dtype == "float32" else pa.float64()
    types = {name: schema.field(name).type for name in layout.needed}
    for name in layout.numeric:
        suggested = types[name]
        if pa.types.is_list(suggested):
            types[name] = pa.list_(real)
        elif not pa.types.is_boolean(suggested):
            types[name] = real
    types |= {name: pa.string() for name in layout.inputs if name not in layout.numeric}  # categories
    if layout.weight is not None:
        types[layout.weight] = pa.float64()
    for label in (layout.group, layout.user):
        if label is None or label in layout.numeric:  # a label that is also a number is read once, as that
            continue
        if not grammar.typed or pa.types.is_null(types[label]):
            types[label] = pa.string()
    return types


def _batches(
    blocks: Iterator[bytes], grammar: Grammar, layout: Layout, names: list[str], types: dict[str, Any]
) -> Iterator[Batch]:
    import pyarrow as pa

    head = True
    for block in blocks:
        with reading(layout.place, grammar.kind):
            try:
                table = grammar.table(block, head, names, types)
            except pa.ArrowInvalid as error:
                _name_the_culprit(grammar, layout, block, head, names, error)
                raise
            _refuse_rounded(grammar, layout, table, block, head, names)
            yield from stream_of(layout, table.to_batches())
        head = False


def _name_the_culprit(
    grammar: Grammar, layout: Layout, block: bytes, head: bool, names: list[str], error: Exception
) -> None:
    """Where a block can't be converted: the column, the text and the row."""
    if "onversion error" not in str(error):
        return
    for name in [*layout.numeric, *([layout.weight] if layout.weight is not None else [])]:
        found = _first_word(grammar, block, head, names, name)
        if found is not None:
            row, token = found
            raise RowError(
                f"column {name!r} holds {token!r}, not a number", None if layout.selection.where else row
            ) from None


def _first_word(grammar: Grammar, block: bytes, head: bool, names: list[str], column: str) -> tuple[int, str] | None:
    """Row and text of the first entry that is not a number."""
    for row, token in enumerate(grammar.tokens(block, head, names, column)):
        if isinstance(token, str) and not _is_number(token):
            return row, token
    return None


def _check(grammar: Grammar, layout: Layout, schema: Any, first: bytes) -> None:
    """Refuse columns that are not numbers; of text, say where it is."""
    import pyarrow as pa

    try:
        layout.check(schema)
    except ValueError as error:
        for name in layout.numeric:
            if pa.types.is_string(schema.field(name).type) and f"column {name!r}" in str(error):
                found = _first_word(grammar, first, True, schema.names, name)
                if found is not None:
                    where = f"; the first text is {found[1][:40]!r} in row {found[0]} (counting from 0)"
                    raise InputError(*getattr(error, "parts", (str(error),)), where) from None
        raise


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token


def _refuse_rounded(grammar: Grammar, layout: Layout, table: Any, block: bytes, head: bool, names: list[str]) -> None:
    """Integers that were rounded on their way to float64 are errors; only where there are large numbers at all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in layout.numeric:
        column = table.column(name)
        nested = pa.types.is_list(column.type)
        limits = pc.min_max(pc.list_flatten(column) if nested else column).as_py()
        if max(abs(limits["min"] or 0), abs(limits["max"] or 0)) < EXACT:
            continue
        for row, token in enumerate(grammar.tokens(block, head, names, name)):
            for value in token if isinstance(token, list) else [token]:
                if value is not None and _was_rounded(value):
                    raise too_large(f"column {name!r}", value, None if layout.selection.where else row)


def _was_rounded(token: Any) -> bool:
    """True for an integer that float64 can't hold."""
    if isinstance(token, str):
        if len(token) < 16 or not _INTEGER.fullmatch(token):
            return False
        token = int(token)
    return isinstance(token, int) and abs(token) > EXACT and int(np.float64(token)) != token


def _files(plain: Grammar) -> Callable[[Files, Selection], Source]:
    def read(files: Files, selection: Selection) -> Source:
        arrow(f"reading {plain.kind}")
        grammar = plain.chosen(selection)
        selection.refuse(grammar.kind, "query", "dataset")
        parts: list[Part] = []
        first: Layout | None = None
        schema, start = None, b""
        for path in files.paths:
            if schema is None or not grammar.sparse:
                with reading(path, grammar.kind), _opened(path) as file:
                    start = next(_filled(file, path, grammar), b"")
                schema = _schema(start, grammar, path, selection)
            layout = Layout(schema.names, selection, path)
            _check(grammar, layout, schema, start)
            first = first or layout
            layout.agree_with(first)
            types = _pinned(layout, schema, grammar)
            reader = _TextFile(path, grammar, layout, schema.names, types)
            parts.append(Part(files.short(path), reader, None, identity(path)))
        assert first is not None
        return replace(Source.of_parts(parts, first.numbers, first.group is not None), delimited=not grammar.typed)

    return read


@dataclass(frozen=True)
class _TextFile:
    """The lines of a file."""

    path: str
    grammar: Grammar
    layout: Layout
    names: list[str]
    types: dict[str, Any]

    def __call__(self, size: int) -> Iterator[Batch]:
        with reading(self.path, self.grammar.kind), _opened(self.path) as file:
            blocks = _filled(file, self.path, self.grammar)
            yield from _batches(blocks, self.grammar, self.layout, self.names, self.types)


def _stream(plain: Grammar) -> Callable[[Any, Selection], Source]:
    def read(file: Any, selection: Selection) -> Source:
        arrow(f"reading {plain.kind}")
        grammar = plain.chosen(selection)
        place = stream_name(file)
        blocks = _filled(file, place, grammar)
        first = next(blocks, b"")
        schema = _schema(first, grammar, place, selection)
        layout = Layout(schema.names, selection, place)
        _check(grammar, layout, schema, first)
        types = _pinned(layout, schema, grammar)

        def batches(size: int) -> Iterator[Batch]:
            return _batches(chain([first], blocks), grammar, layout, schema.names, types)

        source = Source.of_stream(batches, layout.numbers, layout.group is not None)
        return replace(source, delimited=not grammar.typed)

    return read


def _schema(first: bytes, grammar: Grammar, place: str, selection: Selection) -> Any:
    if not first:
        raise SourceError(f"{place}: can't be read as {grammar.kind}: {grammar.empty}")
    try:
        with reading(place, grammar.kind):
            schema = grammar.schema(first)
            list(schema.names)  # decodes them
    except RowError as error:
        raise ValueError(f"{place}, row {error.row} (counting from 0): {error}") from None
    except SourceError:
        raise
    except ValueError as error:
        raise InputError(f"{place}: ", *(error.parts if isinstance(error, InputError) else [str(error)])) from None
    if selection.columns is None and selection.expected is None and _looks_like_data(schema.names):
        shown = ", ".join(schema.names[:3])
        raise InputError(
            f"{place}: the first line holds numbers ({shown}) and no names of columns: put a line with names before "
            "it, or, if these are the names, choose them with ",
            Option("columns"),
        )
    return schema


def _looks_like_data(names: list[str]) -> bool:
    """Numbers, and not those that count columns or years."""
    if not all(map(_is_number, names)):
        return False
    if not all(map(str.isdecimal, names)):
        return True
    whole = [int(name) for name in names]
    return any(b <= a for a, b in pairwise(whole))


# -- delimited text --------------------------------------------------------------------------------


class _Delimited:
    kind = "delimited text"
    empty = "Empty CSV file"
    sparse = typed = False

    def __init__(self, delimiter: str, decimal: str = ".", encoding: str | None = None) -> None:
        self._delimiter, self._decimal, self.encoding = delimiter, decimal, encoding

    def chosen(self, selection: Selection) -> Grammar:
        decimal = selection.decimal or "."
        delimiter = selection.delimiter or (";" if self._delimiter == decimal else self._delimiter)
        return _Delimited(delimiter, decimal, selection.encoding)

    def schema(self, first: bytes) -> Any:
        import pyarrow as pa
        import pyarrow.csv as csv

        options = csv.ParseOptions(delimiter=self._delimiter)
        header = self._split(first)[0]
        other = next((c for c in ";\t|," if c.encode() in header), None)
        if self._delimiter.encode() not in header and other is not None:
            raise InputError(
                f"the names {header.decode(errors='replace')[:40]!r} are separated by {other!r} and not by "
                f"{self._delimiter!r}: give ",
                Option("delimiter", other),
            )
        some = first[: first.rfind(b"\n", 0, 2**20) + 1] or first + b"\n"
        convert = csv.ConvertOptions(decimal_point=self._decimal)
        return csv.read_csv(arrow_reader(pa, some), None, options, convert).schema

    def table(self, block: bytes, head: bool, names: list[str], types: dict[str, Any]) -> Any:
        import pyarrow as pa
        import pyarrow.csv as csv

        body = self._split(block)[1] if head else block
        if not body or body.isspace():
            return pa.schema(types.items()).empty_table()
        return csv.read_csv(
            arrow_reader(pa, body),
            csv.ReadOptions(block_size=min(len(body), 2**30) + 1, column_names=names, use_threads=False),
            csv.ParseOptions(delimiter=self._delimiter),
            csv.ConvertOptions(
                include_columns=list(types), column_types=types, strings_can_be_null=True, decimal_point=self._decimal
            ),
        )  # fmt: skip

    def tokens(self, block: bytes, head: bool, names: list[str], column: str) -> list[Any]:
        import pyarrow as pa

        found = self.table(block, head, names, {column: pa.string()}).column(column).to_pylist()
        if self._decimal == ".":
            return found
        return [v if v is None else v.replace(self._decimal, ".") for v in found]

    def _split(self, first: bytes) -> tuple[bytes, bytes]:
        """The header line and the rest of the first block."""
        text = first.lstrip(b"\r\n")
        end = _END.search(text)
        return (text[: end.start()], text[end.end() :]) if end else (text, b"")


# -- JSON lines ------------------------------------------------------------------------------------


class _JsonLines:
    kind = "JSON lines"
    empty = "Empty file, there are no JSON lines"
    sparse = typed = True
    encoding: str | None = None

    def chosen(self, selection: Selection) -> Grammar:
        return self

    def schema(self, first: bytes) -> Any:
        return self._parsed(first, None).schema

    def table(self, block: bytes, head: bool, names: list[str], types: dict[str, Any]) -> Any:
        import pyarrow as pa

        return self._parsed(block, pa.schema(types.items()))

    def _parsed(self, block: bytes, schema: Any) -> Any:
        import pyarrow as pa
        import pyarrow.json as arrow_json

        # a field that is missing is null; fields that nobody asked for are not even parsed
        unexpected = "infer" if schema is None else "ignore"
        try:
            return arrow_json.read_json(
                arrow_reader(pa, block),
                arrow_json.ReadOptions(block_size=len(block) + 1, use_threads=False),
                arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
            )
        except pa.ArrowInvalid as error:
            changed = _CHANGED.search(str(error))
            if changed is None:
                raise
            name, before, after, row = changed.groups()
            if not name:
                raise RowError(f"each line must be an object {{...}}, this is {after}", int(row)) from None
            raise RowError(f"column {name!r} changes from {before} to {after}", int(row)) from None

    def tokens(self, block: bytes, head: bool, names: list[str], column: str) -> list[Any]:
        decoder, text, found, position = json.JSONDecoder(), block.decode(), [], 0
        while match := _START.search(text, position):
            value, position = decoder.raw_decode(text, match.start())
            found.append(value.get(column))
        return found


for _name, _delimiter, _suffixes in (("csv", ",", (".csv",)), ("tsv", "\t", (".tsv", ".tab"))):
    _grammar = _Delimited(_delimiter)
    register_format(_name, *_suffixes, stream=_stream(_grammar))(_files(_grammar))
register_format("jsonl", ".jsonl", ".ndjson", stream=_stream(_JsonLines()))(_files(_JsonLines()))
