"""``sketchlearn report``: write a self-contained page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sketchlearn
from sketchlearn.cli.inputs import numbers_in, read_model, read_sketch
from sketchlearn.cli.options import Json, Seed, option, verb
from sketchlearn.cli.outputs import check_output, emit, usage, working, write_bytes
from sketchlearn.exceptions import IncompatibleSketchError

if TYPE_CHECKING:
    from sketchlearn.models import Model
    from sketchlearn.sketches import Sketch


@verb("report model.json", "report model.json --sketch all.sketch --ks 1:12 -o report.html")
def report(
    model: Annotated[str, typer.Argument(help="A model written by 'learn'; - for standard input.")],
    output: Annotated[str, option("Page to write; - for standard output.", "--output", "-o")] = "report.html",
    title: Annotated[str | None, option("Heading of the page.")] = None,
    sketch: Annotated[str | None, option("The sketch of the model: adds the misfit for each k.")] = None,
    ks: Annotated[str | None, option("With --sketch: numbers of components to try, e.g. 1:12.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write a page with tables and interactive pictures that works offline, in light and dark."""
    check_output(output, model, sketch, as_json=as_json)
    if output != "-" and Path(output).suffix.lower() not in ("", ".html", ".htm"):
        raise usage(f"{output}: a report is an HTML page; give it a name that ends with .html")
    if ks is not None and sketch is None:
        raise usage("--ks needs --sketch: the sweep decodes the sketch")
    if model == "-" and sketch == "-":
        raise usage("standard input (-) can be read only once")
    learned = read_model(model)
    table = None
    if sketch is not None:
        from sketchlearn.decoders import sweep

        options, numbers = learned.sweep_options(), numbers_in(ks or "1:12")
        if options is None:
            raise usage(f"--sketch adds a choice of k, and {learned.task} models have no k")
        s = read_sketch(sketch)
        _check_same(learned, s)
        with working(f"trying {len(numbers)} numbers of components"):
            table = sweep(s, numbers, task=learned.task, random_state=seed, **options)
    page = sketchlearn.plots.report(learned, title=title, sweep=table)
    write_bytes(output, page.encode())
    if output != "-":
        facts = {"output": output, "task": learned.task, "bytes": len(page.encode())}
        emit(facts, as_json, f"{output}: {learned.headline}; open it in a browser")


def _check_same(model: Model, sketch: Sketch) -> None:
    """Refuse a sketch that the model was not learned from, as far as that can be told."""
    own = model.sketch
    if model.privacy != sketch.privacy:
        which = ("exact", "private") if model.privacy is None else ("private", "exact or another release")
        raise IncompatibleSketchError(
            f"the model was learned from a sketch that is {which[0]}, this one is {which[1]}: the guarantee on the "
            "page would not cover everything on it"
        )
    for what, mine, other in (
        ("feature map", own.get("fingerprint"), sketch.features.fingerprint),
        ("number of rows", model.rows, sketch.count),
        ("lower bounds", own.get("lower"), sketch.lower.tolist()),
        ("upper bounds", own.get("upper"), sketch.upper.tolist()),
    ):
        if mine is not None and mine != other:
            text = f"the model was learned from another sketch: its {what} is {mine}, not {other}"
            raise IncompatibleSketchError(text)
