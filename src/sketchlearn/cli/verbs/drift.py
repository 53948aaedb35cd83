"""``sketchlearn drift``: find the sketches in a sequence that differ, and the columns that moved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from sketchlearn.cli.inputs import labelled_sketches
from sketchlearn.cli.options import ALPHA, Json, MinEffect, option, verb
from sketchlearn.cli.outputs import Code, check_output, emit, usage, warnings_as_notes, working, write_bytes
from sketchlearn.words import one_line


@verb(
    "drift day1.sketch day2.sketch day3.sketch",
    "drift days.parquet --against previous --min-effect 0.3",
    "drift days.parquet -o drift.html               # as a page",
)
def drift_(
    sketches: Annotated[list[str], typer.Argument(help="Sketches in order, or one table of groups.")],
    against: Annotated[Literal["first", "previous", "rest"], option("What each sketch is compared with.")] = "first",
    alpha: Annotated[float, option(ALPHA)] = 0.01,
    correction: Annotated[
        Literal["holm", "fdr", "none"],
        option(
            "What alpha bounds. holm: the probability of any false alarm; fdr: the share of false ones among "
            "all alarms; none: the probability in each comparison."
        ),
    ] = "holm",
    min_distance: Annotated[float, option("Ignore smaller distances, even if they are significant.")] = 0.0,
    min_effect: MinEffect = 0.0,
    output: Annotated[
        str | None, option("Write a page with tables and a picture to this file.", "--output", "-o")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a sequence of sketches; exit code 10 if any differs."""
    from sketchlearn.comparison.drift import drift

    if not 0 < alpha < 1:
        raise usage(f"--alpha must be between 0 and 1, got {alpha}")
    for flag, number in (("--min-distance", min_distance), ("--min-effect", min_effect)):
        if not number >= 0:
            raise usage(f"{flag} must not be negative, got {number}")
    if output is not None:
        check_output(output, *sketches, as_json=as_json)
    given = labelled_sketches(sketches)
    with working(f"comparing {len(given)} sketches"), warnings_as_notes():
        found = drift(given, against=against, alpha=alpha, correction=correction, min_distance=min_distance,
                      min_effect=min_effect)  # fmt: skip
    if output is not None:
        from sketchlearn.plots import drift_report

        write_bytes(output, drift_report(found, alpha=alpha).encode())
    differ = [alarm for alarm in found if alarm.differs]
    facts = {
        "against": against, "alpha": alpha, "correction": correction, "min_distance": min_distance,
        "min_effect": min_effect,
        "differ": len(differ), "changes": [alarm.facts() for alarm in found],
    }  # fmt: skip
    if output != "-":
        emit(facts, as_json, _text(found, against))
    if differ:
        raise typer.Exit(Code.DIFFERENT)


def _text(found: list[Any], against: str) -> str:
    """A line for each comparison."""
    labels = [one_line(alarm.change.label) for alarm in found]
    width = max(5, *map(len, labels))
    lines = [f"{'':<{width}}  {'rows':>12}  {'distance':>9}  {'effect':>6}  {'p-value':>9}  verdict"]
    for label, alarm in zip(labels, found, strict=True):
        change = alarm.change
        numbers = f"{change.distance:>9.4g}  {change.effect:>6.2f}  {alarm.adjusted:>9.3g}"
        lines.append(f"{label:<{width}}  {change.rows:>12,}  {numbers}  {one_line(alarm.verdict)}")
    count = sum(alarm.differs for alarm in found)
    reference = {"first": found[0].change.reference, "previous": "the one before", "rest": "all others"}[against]
    lines.append(f"{count} of {len(found)} differ from {reference}")
    if count:
        lines.append(
            "effect: the shift, in standard deviations (sd), that would move the rows as far; below 0.3 small, above "
            "0.5 large"
        )
    return "\n".join(lines)
