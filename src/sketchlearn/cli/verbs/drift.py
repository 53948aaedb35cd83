"""``sketchlearn drift``: find the sketches in a sequence that differ, and the columns that moved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from sketchlearn.cli.app import Code, Debug, Json, emit, labelled_sketches, usage, warnings_as_notes, working
from sketchlearn.words import one_line


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("drift")
    def drift_(
        sketches: Annotated[list[str], typer.Argument(help="Sketches in order, or one table of groups.")],
        against: Annotated[
            str, typer.Option("--against", help="Compare with the first, the previous, or the rest.")
        ] = "first",
        alpha: Annotated[float, typer.Option("--alpha", help="False-alarm rate of the whole sequence.")] = 0.01,
        correction: Annotated[
            str,
            typer.Option(
                "--correction",
                help="Correction for many tests: holm (any false alarm), fdr (share of false alarms), none.",
            ),
        ] = "holm",
        min_distance: Annotated[
            float, typer.Option("--min-distance", help="Ignore smaller distances, even if they are significant.")
        ] = 0.0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Compare a sequence of sketches; exit code 10 if any differs."""
        from sketchlearn.comparison.drift import CORRECTIONS, drift

        for option, value, choices in (
            ("--against", against, ("first", "previous", "rest")),
            ("--correction", correction, CORRECTIONS),
        ):
            if value not in choices:
                raise usage(f"{option} {value}: choose one of {', '.join(choices)}")
        if not 0 < alpha < 1:
            raise usage(f"--alpha must be between 0 and 1, got {alpha}")
        if not min_distance >= 0:
            raise usage(f"--min-distance must not be negative, got {min_distance}")
        given = labelled_sketches(sketches)
        with working(f"comparing {len(given)} sketches"), warnings_as_notes():
            found = drift(given, against=against, alpha=alpha, correction=correction, min_distance=min_distance)
        differ = [alarm for alarm in found if alarm.differs]
        facts = {
            "against": against, "alpha": alpha, "correction": correction, "min_distance": min_distance,
            "differ": len(differ), "changes": [_facts(alarm) for alarm in found],
        }  # fmt: skip
        emit(facts, as_json, _text(found, against))
        if differ:
            raise typer.Exit(Code.DIFFERENT)


def _facts(alarm: Any) -> dict[str, Any]:
    columns = [{k: None if v != v else v for k, v in asdict(c).items()} for c in alarm.columns]  # NaN is not JSON
    return {**alarm.change.facts(), "adjusted": alarm.adjusted, "differs": alarm.differs, "columns": columns}


def _text(found: list[Any], against: str) -> str:
    """A line for each comparison."""
    labels = [one_line(alarm.change.label) for alarm in found]
    width = max(5, *map(len, labels))
    lines = [f"{'':<{width}}  {'rows':>12}  {'distance':>9}  {'p-value':>9}  verdict"]
    for label, alarm in zip(labels, found, strict=True):
        change = alarm.change
        verdict = "differs" if alarm.differs else "-"
        if alarm.columns:
            verdict += ": " + ", ".join(map(str, alarm.columns[:5])) + (", ..." if len(alarm.columns) > 5 else "")
        elif alarm.differs:
            verdict += ": no single column, but how they go together"
        lines.append(
            f"{label:<{width}}  {change.rows:>12,}  {change.distance:>9.4g}  {alarm.adjusted:>9.3g}  {verdict}"
        )
    count = sum(alarm.differs for alarm in found)
    reference = {"first": found[0].change.reference, "previous": "the one before", "rest": "all others"}[against]
    lines.append(f"{count} of {len(found)} differ from {reference}")
    return "\n".join(lines)
