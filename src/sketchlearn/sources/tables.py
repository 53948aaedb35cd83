"""The first rows of files as a table, with all their columns: what an encoder is fitted to."""

from __future__ import annotations

from os import PathLike
from typing import Any

from sketchlearn.exceptions import SourceError
from sketchlearn.sources.base import library_of
from sketchlearn.sources.columns import arrow
from sketchlearn.sources.paths import find_files, format_of, reading
from sketchlearn.sources.remote import is_remote, place_of

_FILES = 32  # that are looked at


def first_rows(given: list[str], rows: int, *, format: str | None = None, **text: str | None) -> Any:
    """Rows of Parquet, Arrow, CSV or JSON-lines files, as many from each of the first few files, as an Arrow table.

    `given`: paths, globs or folders. `rows`: how many at most. `format`: the format, if the suffix does not tell it.
    `**text`: `delimiter`, `decimal` and `encoding` of CSV.
    """
    pa = arrow("fitting an encoder")
    import pyarrow.dataset as ds

    paths = list(find_files(given, format).paths)
    kind = format_of(tuple(paths), format)
    readable = {"parquet": "parquet", "arrow": "ipc", "jsonl": "json", "csv": None, "tsv": None}
    if kind not in readable:
        raise SourceError(f"an encoder is fitted to Parquet, Arrow, CSV or JSON-lines files, not to {kind}")
    reader = readable[kind] or _delimited("\t" if kind == "tsv" else ",", **text)
    system = place_of(paths[0]).system if is_remote(paths[0]) else None
    paths = [place_of(path).path for path in paths] if system is not None else paths
    with reading(paths[0], kind):
        dataset = ds.dataset(paths, format=reader, filesystem=system)
        each = -(-rows // min(len(paths), _FILES))
        heads = [part.head(each) for part in list(dataset.get_fragments())[:_FILES]]
        return pa.concat_tables(heads, promote_options="permissive")


def _delimited(
    usual: str, delimiter: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Any:
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

    return ds.CsvFileFormat(
        csv.ParseOptions(delimiter=delimiter or (";" if decimal == usual else usual)),
        convert_options=csv.ConvertOptions(decimal_point=decimal or ".", strings_can_be_null=True),
        read_options=csv.ReadOptions(encoding=encoding or "utf8"),
    )


def columns_of(data: Any, **text: str | None) -> dict[str, str] | None:
    """Names of the columns of a file or frame, and whether each holds ``"numbers"`` or ``"labels"``.

    Only types that are written down count: text without types holds numbers, until somebody says otherwise.  None if
    the rows have no names.
    """
    from sketchlearn.features.pilot_table import as_table
    from sketchlearn.sources.base import open_source
    from sketchlearn.sources.selection import Selection

    paths = [data] if isinstance(data, str | PathLike) else data
    if isinstance(paths, list | tuple) and paths and all(isinstance(p, str | PathLike) for p in paths):
        given = [str(p) for p in paths]
        kind = format_of(tuple(find_files(given, text.get("format")).paths), text.get("format"))
        if kind not in ("parquet", "arrow"):
            names = open_source(data, Selection.of(**text)).names
            return None if names is None else dict.fromkeys(names, "numbers")
        schema = first_rows(given, 1, format=text.get("format")).schema
    elif hasattr(data, "schema") or hasattr(data, "__arrow_c_stream__") or library_of(data) == "pandas":
        schema = as_table(data).schema
    else:
        names = open_source(data, Selection.of(**text)).names
        return None if names is None else dict.fromkeys(names, "numbers")
    types = arrow("the types of columns").types
    numeric = types.is_floating, types.is_integer, types.is_decimal
    return {f.name: "numbers" if any(of(f.type) for of in numeric) else "labels" for f in schema}
