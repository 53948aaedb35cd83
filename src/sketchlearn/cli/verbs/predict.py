"""``sketchlearn predict``: apply a model to every row of any source."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from sketchlearn.cli.inputs import read_model
from sketchlearn.cli.options import Json, option, verb
from sketchlearn.cli.outputs import check_output, emit, note, usage, working, writing

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}


@verb("predict model.json 'data/*.parquet' -o labels.parquet")
def predict(
    model: Annotated[str, typer.Argument(help="A model written by 'learn'.")],
    data: Annotated[list[str], typer.Argument(help="Files, globs, folders, a database URL, or - for standard input.")],
    output: Annotated[str, option("Table to write: .parquet or .csv; - for CSV on standard output.", "--output", "-o")],
    proba: Annotated[bool, option("Add the probability of each component.")] = False,
    id_column: Annotated[str | None, option("Column to copy to the output.", "--id")] = None,
    *,
    reading: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Write the cluster, component, score or target of every row, in the order of the rows."""
    kind = "csv" if output == "-" else _KINDS.get(Path(output).suffix.lower())
    if kind is None:
        raise usage(f"{output}: predictions are .parquet or .csv; give the output such a suffix")
    if "-" in data and (len(data) > 1 or model == "-"):
        raise usage("standard input (-) can be read only once, and not together with files")
    check_output(output, model, *data, as_json=as_json)
    from sketchlearn.files import whole
    from sketchlearn.learn.predictions import PredictionWriter, predictions

    learned = read_model(model)
    rows: Any = sys.stdin.buffer if data == ["-"] else data if len(data) > 1 else data[0]
    try:
        batches = predictions(learned, rows, proba=proba, id_column=id_column, **reading)
        with working("labelling rows"):
            if output == "-":
                writer = _written(PredictionWriter(sys.stdout.buffer, kind), batches, output)
            else:
                with ExitStack() as stack:
                    with writing(output):
                        file = stack.enter_context(whole(output))
                    writer = _written(PredictionWriter(file, kind), batches, output)
                    with writing(output):
                        stack.close()
    except TypeError as error:
        if not proba:
            raise
        raise usage(f"--proba: {error}") from None
    missing = f", {writer.invalid:,} of them invalid and without an answer" if writer.invalid else ""
    line = f"{writer.rows:,} rows{missing}"
    if output == "-":
        note(line)
    else:
        emit({"output": output, "rows": writer.rows, "invalid": writer.invalid}, as_json, f"{output}: {line}")


def _written(writer: Any, batches: Any, output: str) -> Any:
    """The writer after all batches; only what goes wrong in writing is about the output."""
    for batch in batches:
        with writing(output):
            writer.write(batch)
    with writing(output):
        writer.close()
    return writer
