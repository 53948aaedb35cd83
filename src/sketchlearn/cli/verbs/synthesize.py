"""``sketchlearn synthesize``: rows made from a sketch."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.app import Debug, Json, Output, check_output, emit, read_sketch, usage, working, write_bytes


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def synthesize(
        sketch: Annotated[str, typer.Argument(help="A sketch of Fourier features; - for standard input.")],
        output: Output,
        n: Annotated[int, typer.Option("-n", "--rows", help="Number of rows.")] = 100,
        method: Annotated[
            str, typer.Option("--method", help="mixture (draws), points (moved to fit), auto: points up to 500 rows.")
        ] = "auto",
        seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="For repeatable rows.")] = 0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Write rows with the distribution of those behind a sketch, as CSV; private only if the sketch is."""
        if method not in ("auto", "mixture", "points"):
            raise usage(f"--method {method}: choose auto, mixture or points")
        if n < 1:
            raise usage(f"-n {n}: ask for at least one row")
        check_output(output, sketch, as_json=as_json)
        s = read_sketch(sketch)
        import csv
        import io

        from sketchlearn.comparison import synthesize as make_rows

        with working(f"making {n} rows"):
            rows = make_rows(s, n, method=method, random_state=seed)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(s.features.columns or [f"column {i}" for i in range(s.features.dim)])
        writer.writerows([repr(float(v)) for v in row] for row in rows)
        write_bytes(output, text.getvalue().encode())
        if output != "-":
            emit({"output": output, "rows": n, "columns": s.features.dim}, as_json, f"{output}: {n:,} rows")
