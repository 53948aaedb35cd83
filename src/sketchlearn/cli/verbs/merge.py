"""``sketchlearn merge``: the sketch of all rows behind several sketches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sketchlearn.cli.app import Debug, Json, Output, check_output, emit, read_sketch, usage, write_bytes
from sketchlearn.sketch import Sketch, SketchTable, merge


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("merge")
    def merge_(
        sketches: Annotated[list[str], typer.Argument(help="Sketches, or tables of sketches (.parquet).")],
        output: Output,
        group: Annotated[
            list[str] | None, typer.Option("--group", "-g", help="Take only these groups of tables; repeatable.")
        ] = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Add up sketches; of tables, all groups or those named by --group."""
        check_output(output)
        total = merge(_all(sketches, group))
        write_bytes(output, total.to_bytes())
        if output != "-":
            emit(
                {"output": output, "rows": total.count, "merged": len(sketches)},
                as_json,
                f"{output}: {total.count:,} rows from {len(sketches)} files",
            )


def _all(paths: list[str], groups: list[str] | None) -> Iterator[Sketch]:
    for path in paths:
        if path != "-" and Path(path).suffix == ".parquet":
            table = SketchTable.load(path)
            chosen = {str(label): label for label in table}
            for name in groups or chosen:
                if name not in chosen:
                    some = ", ".join(list(chosen)[:5]) + (", ..." if len(chosen) > 5 else "")
                    raise ValueError(f"{path} has no group {name!r}; it has {len(chosen)}: {some}")
                yield table[chosen[name]]
        elif groups:
            raise usage(f"--group is for tables of sketches (.parquet), {path} is not one")
        else:
            yield read_sketch(path)
