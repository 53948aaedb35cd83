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
from sketchlearn.cli.outputs import Code, OutputError, emit, note, usage, writing
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
    """Write some Parquet files, sketch them, find clusters and drift, delete a week, and write a report.

    Prints each command before it runs it.
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
    last = f"\nOpen {folder / 'report.html'} in a browser. For your own data, begin with: sketchlearn profile FILE"
    emit({"output": output, "rows": rows, "files": files}, as_json, last)


def _make_customers(folder: Path, rows: int, seed: int) -> None:
    """Customers of five kinds in four weekly files; one kind is rare, and grows in the last week."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    folder.mkdir()
    shares = np.array([0.38, 0.27, 0.2, 0.145, 0.005])
    note(
        f"Made-up data in {folder}: {rows:,} customers of {len(shares)} kinds, one file for each of four weeks. One "
        f"kind is rare: {shares[-1]:.1%} of the rows, and 2% in week 4."
    )
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
    data, sketch, model, weeks = (str(folder / x) for x in ("customers", "all.sketch", "model.json", "weeks.parquet"))
    third, report = str(folder / "week-3.sketch"), str(folder / "report.html")
    columns = ["--columns", ",".join(_NAMES)]
    rows = ["sketch", data, *columns, "--group-by", "week", "-o", weeks]
    steps = [
        ("One pass over the rows, one sketch per week. The other steps need no rows.", rows),
        ("The sketch of all weeks is their sum.", ["merge", weeks, "-o", sketch]),
        ("How many kinds of customers are there?", ["sweep", sketch, "-k", "2:8"]),
        ("Where are they, and how far can we trust the answer?", ["learn", "kmeans", sketch, "-k", "5", "-o", model]),
        ("A page to share.", ["report", model, "--sketch", sketch, "--ks", "1:8", "-o", report]),
    ]
    if pictures:
        steps.append(("A picture.", ["plot", "centers", model, "-o", str(folder / "centers.png")]))
    steps += [
        ("Does a week differ from the first one? Exit code 10 is the alarm.", ["drift", weeks]),
        ("Delete week 3, exactly: take out its sketch ...", ["merge", weeks, "--group", "3", "-o", third]),
        ("... and subtract it.", ["subtract", sketch, third, "-o", str(folder / "without-week-3.sketch")]),
    ]
    for why, step in steps:
        note(f"\n# {why}\n$ sketchlearn {shlex.join(step)}")
        code = run([*step, *extra])
        if code not in (Code.DONE, Code.DIFFERENT):
            raise typer.Exit(code)  # the step has said why
    return sorted(str(p) for p in folder.rglob("*") if p.is_file())
