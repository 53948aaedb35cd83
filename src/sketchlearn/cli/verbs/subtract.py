"""``sketchlearn subtract``: remove rows from a sketch, exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sketchlearn.cli.inputs import about, read_sketch
from sketchlearn.cli.options import Json, Output, option, verb
from sketchlearn.cli.outputs import check_output, emit, note, usage, write_bytes
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.sketches.value import Sketch


@verb("subtract all.sketch tuesday.sketch -o rest.sketch")
def subtract(
    whole: Annotated[str, typer.Argument(help="Sketch to remove rows from; - for standard input.")],
    parts: Annotated[list[str], typer.Argument(help="Sketches of the rows to remove.")],
    output: Output,
    force: Annotated[bool, option("Remove parts even if the record says that they were removed before.")] = False,
    as_json: Json = False,
) -> None:
    """Remove the rows of some sketches from another. They must have been added before."""
    if [whole, *parts].count("-") > 1:
        raise usage("standard input (-) can be read only once")
    check_output(output, whole, *parts)
    rest = read_sketch(whole).tracked()
    unknown: list[str] = []
    for path in parts:
        rest = _without(rest, read_sketch(path), path, whole, force, unknown)
    write_bytes(output, rest.to_bytes())
    if output != "-":
        facts = {"output": output, "rows": rest.count, "unknown": unknown}
        emit(facts, as_json, f"{output}: {counted(rest.count, 'row')} left")


def _without(rest: Sketch, part: Sketch, path: str, whole: str, force: bool, unknown: list[str]) -> Sketch:
    """What is left without a part, as far as the record allows it."""
    record = rest.parts
    assert record is not None
    known = record.knows(part)
    if known is False and not force:
        raise ValueError(
            f"{path} was already removed from {whole}, or is given twice; use --force if its rows were added more than "
            "once"
        )
    with about(f"{whole} and {path}"):
        left = replace(replace(rest, parts=None) - part, parts=record.without(part))
    if known is None:
        unknown.append(path)
        note(
            f"note: {whole} has no record that {path} was added as a part. Its sums allow the subtraction; a second "
            "one will be refused"
        )
    return left
