"""The first rows of files as a table, with all their columns: what an encoder is fitted to."""

from __future__ import annotations

from typing import Any

from sketchlearn.exceptions import SourceError
from sketchlearn.sources.columns import arrow
from sketchlearn.sources.paths import find_files, format_of, reading
from sketchlearn.sources.remote import is_remote, place_of

_FILES = 32  # that are looked at


def first_rows(given: list[str], rows: int, *, format: str | None = None, **text: str | None) -> Any:
    """Rows of Parquet, Arrow, CSV or JSON-lines files, as many from each of the first few files, as an Arrow table.

    Parameters
    ----------
    given : list of str
        Paths, globs or folders.
    rows : int
        How many at most.
    format : str, optional
        The format, if the suffix does not tell it.
    **text : str, optional
        `delimiter`, `decimal` and `encoding` of CSV.
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
