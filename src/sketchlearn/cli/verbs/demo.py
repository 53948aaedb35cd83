"""``sketchlearn demo``: a tour from rows to a report, on made-up data."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from sketchlearn.cli.options import Json, State, option, verb
from sketchlearn.cli.outputs import OutputError, emit, note, usage, writing
from sketchlearn.optional import optional

_NAMES = ("age", "income", "visits", "basket", "discount", "distance")
_KINDS = (  # years, thousands a year, visits a year, money a visit, percent, kilometres
    (23, 18, 60, 14, 35, 8), (41, 55, 30, 62, 22, 16), (68, 33, 45, 30, 27, 9), (36, 88, 18, 48, 12, 22),
    (52, 125, 32, 115, 14, 35),
)  # fmt: skip
_WIDTH = 3.0
_FEWEST = 10_000


@verb("demo -o tour")
def demo(
    output: Annotated[str, option("Folder to create.", "--output", "-o")] = "sketchlearn-demo",
    rows: Annotated[int, option("Number of rows to make up.")] = 400_000,
    seed: Annotated[int, option("Seed of the made-up rows.", min=0, max=2**32 - 1)] = 0,
    as_json: Json = False,
) -> None:
    """Write some Parquet files, sketch them, find clusters, draw them and write a report.

    Prints each command that it runs.
    """
    if rows < _FEWEST:
        raise usage(f"--rows must be at least {_FEWEST}, got {rows}: the rare kind needs some")
    folder = Path(output)
    if folder.exists():
        raise OutputError(f"{output}: exists already; give another folder with -o, or remove it")
    optional("pyarrow", "files", "the demo")
    with writing(output):
        folder.mkdir()
    try:
        with writing(output):
            _make_customers(folder / "customers", rows, seed)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            files = _walk(folder, ["--debug"] if State.debug else [])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    emit({"output": output, "rows": rows, "files": files}, as_json, f"open {folder / 'report.html'} in a browser")


def _make_customers(folder: Path, rows: int, seed: int) -> None:
    """Customers of five kinds in four weekly files; one kind is rare, and grows in the last week."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    folder.mkdir()
    shares = np.array([0.38, 0.27, 0.2, 0.145, 0.005])
    note(f"made up: {rows:,} customers of {len(shares)} kinds, {shares[-1]:.1%} of a rare one (2% in week 4): {folder}")
    for part, count in enumerate(np.diff(np.linspace(0, rows, 5).astype(int))):
        if part == 3:
            shares[[0, 4]] += -0.015, 0.015
        values = np.array(_KINDS, float)[rng.choice(5, count, p=shares)] + _WIDTH * rng.normal(
            size=(count, len(_NAMES))
        )
        columns = {name: values[:, j] for j, name in enumerate(_NAMES)}
        columns["week"] = np.full(count, part + 1)
        pq.write_table(pa.table(columns), folder / f"week-{part + 1}.parquet")


def _walk(folder: Path, extra: list[str]) -> list[str]:
    """The commands that a person would type."""
    from sketchlearn.cli.app import run

    try:
        optional("matplotlib", "plots", "a picture")
        pictures = True
    except ImportError:
        pictures = False
        note("(no pictures: matplotlib is not installed; the report needs none)")
    data, sketch, model = folder / "customers", folder / "all.sketch", folder / "model.json"
    columns = ["--columns", ",".join(_NAMES)]
    steps = [
        ["sketch", str(data), *columns, "-o", str(sketch)],
        ["info", str(sketch)],
        ["learn", "kmeans", str(sketch), "-k", "5", "-o", str(model)],
        ["report", str(model), "--sketch", str(sketch), "--ks", "1:8", "-o", str(folder / "report.html")],
    ]
    if pictures:
        steps += [
            ["plot", "centers", str(model), "-o", str(folder / "centers.png")],
            ["plot", "residual", str(model), "-o", str(folder / "residual.png")],
        ]
    weeks = folder / "weeks.parquet"
    steps.append(["sketch", str(data), *columns, "--group-by", "week", "-f", str(sketch), "-o", str(weeks)])
    if pictures:
        steps.append(["plot", "drift", str(weeks), "-o", str(folder / "drift.png")])
    for step in steps:
        note("\n$ sketchlearn " + shlex.join(step))
        code = run([*step, *extra])
        if code:
            raise typer.Exit(code)  # the step has said why
    return sorted(str(p) for p in folder.rglob("*") if p.is_file())
