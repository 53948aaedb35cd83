"""``sketchlearn profile``: look at a table, and suggest how to sketch it."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.options import Decimal, Delimiter, Encoding, Format, Json, verb
from sketchlearn.cli.outputs import emit


@verb("profile sales.parquet", "profile 'days/*.csv' --delimiter ';'")
def profile_(
    data: Annotated[list[str], typer.Argument(help="Files, globs or folders.")],
    format: Format = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Show types, missing values and ranges of the columns, and suggest columns, encoder and map.

    Up to 100 000 rows are read.
    """
    from sketchlearn.profiling import profile

    found = profile(data, format=format, delimiter=delimiter, decimal=decimal, encoding=encoding)
    emit(found.facts(), as_json, str(found))
