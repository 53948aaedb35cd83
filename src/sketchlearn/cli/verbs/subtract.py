"""``sketchlearn subtract``: take rows out of a sketch again, exactly."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.app import Debug, Json, Output, check_output, emit, read_sketch, usage, write_bytes


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def subtract(
        whole: Annotated[str, typer.Argument(help="Sketch to take rows out of; - for standard input.")],
        parts: Annotated[list[str], typer.Argument(help="Sketches of the rows to take out.")],
        output: Output,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Take the rows of some sketches out of another; they must have been added before."""
        if [whole, *parts].count("-") > 1:
            raise usage("standard input (-) can be read once only")
        check_output(output, whole, *parts)
        rest = read_sketch(whole)
        for path in parts:
            rest = rest - read_sketch(path)
        write_bytes(output, rest.to_bytes())
        if output != "-":
            emit({"output": output, "rows": rest.count}, as_json, f"{output}: {rest.count:,} rows left")
