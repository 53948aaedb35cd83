"""``sketchlearn report``: one self-contained page about a model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import sketchlearn
from sketchlearn.cli.app import Debug, Json, check_output, emit, read_model, read_sketch, usage, working, write_bytes
from sketchlearn.cli.verbs.plot import numbers_in


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def report(
        model: Annotated[str, typer.Argument(help="A model that 'learn' wrote; - for standard input.")],
        output: Annotated[str, typer.Option("--output", "-o", help="Page to write; - for standard output.")] = (
            "report.html"
        ),
        title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
        sketch: Annotated[
            str | None, typer.Option("--sketch", help="Its sketch: adds how the misfit depends on k.")
        ] = None,
        ks: Annotated[str, typer.Option("--ks", help="Numbers of components to try on the sketch.")] = "1:12",
        seed: Annotated[int, typer.Option("--seed", help="For repeatable results.")] = 0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Write a page with tables and interactive pictures that works offline, in light and dark."""
        check_output(output)
        if model == "-" and sketch == "-":
            raise usage("standard input (-) can be read once only")
        learned = read_model(model)
        table = None
        if sketch is not None:
            if learned.task not in ("kmeans", "gmm"):
                raise usage(f"--sketch adds a choice of k, a {learned.task} model has none")
            kind, numbers = learned.learned.get("covariance_type", "full"), numbers_in(ks)
            with working(f"trying {len(numbers)} numbers of components"):
                s = read_sketch(sketch)
                table = sketchlearn.sweep(s, numbers, task=learned.task, covariance_type=kind, random_state=seed)
        page = sketchlearn.plots.report(learned, title=title, sweep=table)
        write_bytes(output, page.encode())
        if output != "-":
            facts = {"output": output, "task": learned.task, "bytes": len(page.encode())}
            emit(facts, as_json, f"{output}: {learned.headline}; open it in a browser")
        else:
            sys.stdout.flush()
