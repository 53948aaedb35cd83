"""``sketchlearn profile``: look at a table, and suggest how to sketch it."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.app import Debug, Decimal, Delimiter, Encoding, Format, Json, emit
from sketchlearn.cli.help import examples


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("profile", epilog=examples("profile sales.parquet", "profile 'days/*.csv' --delimiter ';'"))
    def profile_(
        data: Annotated[list[str], typer.Argument(help="Files, globs or folders.")],
        format: Format = None,
        delimiter: Delimiter = None,
        decimal: Decimal = None,
        encoding: Encoding = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Show types, missing values and ranges of the columns, and suggest columns, encoder and map.

        Up to 100 000 rows are read.
        """
        from sketchlearn.profiling import profile

        found = profile(data, format=format, delimiter=delimiter, decimal=decimal, encoding=encoding)
        emit(found.facts(), as_json, str(found))
