"""``sketchlearn synthesize``: make synthetic rows from a sketch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sketchlearn.cli.inputs import names_in, read_sketch
from sketchlearn.cli.options import Json, Output, option, verb
from sketchlearn.cli.outputs import check_output, emit, usage, working, write_bytes


@verb("synthesize all.sketch -n 10000 -o rows.parquet")
def synthesize(
    sketch: Annotated[str, typer.Argument(help="A sketch of Fourier features; - for standard input.")],
    output: Output,
    n: Annotated[int, option("Number of rows.", "-n", "--rows")] = 100,
    method: Annotated[
        str, option("mixture (random draws), points (moved to fit), or auto: points up to 500 rows.")
    ] = "auto",
    integers: Annotated[
        list[str] | None, option("Columns of whole numbers (names or numbers), separated by commas.")
    ] = None,
    columns: Annotated[
        str | None, option("A sketch of histograms (design --task columns); the rows take its values.")
    ] = None,
    seed: Annotated[int, option("Seed, for repeatable rows.", min=0, max=2**32 - 1)] = 0,
    as_json: Json = False,
) -> None:
    """Write synthetic rows with the distribution of the sketched rows. They are private only if the sketch is.

    Writes Parquet if the name of the output ends with .parquet, otherwise CSV.
    """
    if method not in ("auto", "mixture", "points"):
        raise usage(f"--method {method}: choose auto, mixture or points")
    if n < 1:
        raise usage(f"-n {n}: ask for at least one row")
    check_output(output, *filter(None, (sketch, columns)), as_json=as_json)
    s = read_sketch(sketch)
    single = None if columns is None else read_sketch(columns)
    from sketchlearn.comparison import synthesize as make_rows

    with working(f"making {n} rows"):
        known = s.features.columns or ()
        whole = [c if c in known or not c.isdigit() else int(c) for c in names_in(integers, "--integers") or []]
        rows = make_rows(s, n, method=method, integers=whole, columns=single, random_state=seed)
    names = s.features.columns or [f"column {i}" for i in range(s.features.dim)]
    write_bytes(output, (_parquet if Path(output).suffix.lower() in (".parquet", ".pq") else _csv)(names, rows))
    if output != "-":
        emit({"output": output, "rows": n, "columns": s.features.dim}, as_json, f"{output}: {n:,} rows")


def _csv(names: Sequence[str], rows: Any) -> bytes:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([repr(float(v)) for v in row] for row in rows)
    return text.getvalue().encode()


def _parquet(names: Sequence[str], rows: Any) -> bytes:
    from sketchlearn.optional import optional

    pa, pq = (optional(name, "files", "Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    made = pa.table([rows[:, i] for i in range(rows.shape[1])], names=list(names))
    out = pa.BufferOutputStream()
    pq.write_table(made.replace_schema_metadata({"sketchlearn": "rows made up"}), out)  # a file that may be replaced
    data: bytes = out.getvalue().to_pybytes()
    return data
