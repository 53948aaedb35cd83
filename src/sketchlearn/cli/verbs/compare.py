"""``sketchlearn compare``: compare two sketches; a drift alarm for scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sketchlearn.cli.inputs import is_table, read_group, read_model, read_sketch
from sketchlearn.cli.options import ALPHA, Json, MinEffect, option, verb
from sketchlearn.cli.outputs import Code, emit, usage, warnings_as_notes, working
from sketchlearn.exceptions import ModelFileError

if TYPE_CHECKING:
    from sketchlearn.comparison import Alarm
    from sketchlearn.models.mixture import Mixture
    from sketchlearn.sketches import Sketch


@verb(
    "compare monday.sketch tuesday.sketch",
    "compare days.parquet -g monday -g tuesday   # two groups of a table",
    "compare today.sketch model.json              # do the rows follow a mixture?",
)
def compare_(
    a: Annotated[str, typer.Argument(help="A sketch, or a table of groups; - for standard input.")],
    b: Annotated[
        str | None, typer.Argument(help="A second sketch with the same feature map; or a model with a mixture.")
    ] = None,
    group: Annotated[
        list[str] | None, option("Groups of the table to compare: two, or one against all others.", "--group", "-g")
    ] = None,
    alpha: Annotated[float, option(ALPHA)] = 0.01,
    min_effect: MinEffect = 0.0,
    as_json: Json = False,
) -> None:
    """Compare two sketches, or a sketch and a model: distance (MMD), p-value, and columns that moved.

    The exit code is 10 if they differ.
    """
    if not 0 < alpha < 1:
        raise usage(f"--alpha must be between 0 and 1, got {alpha}")
    if not min_effect >= 0:
        raise usage(f"--min-effect must not be negative, got {min_effect}")
    if a == b == "-":
        raise usage("standard input (-) can be read only once")
    if (b is None) == (not group):
        raise usage("give two sketches, or one table of groups and the groups with --group")
    from sketchlearn.comparison.drift import drift

    model = None if b is None else _model(b)
    if model is not None:
        if min_effect:
            raise usage("--min-effect is for two sketches; a model has no effect")
        alarm = _against_model(a, b or "", model, alpha)
    else:
        with working("comparing"), warnings_as_notes():
            (alarm,) = drift(_pair(a, b, group or []), alpha=alpha, correction="none", min_effect=min_effect)
    change = alarm.change
    verdict = "the sketches differ" if model is None else "the rows don't follow the model"
    text = f"distance {change.distance:.4g}, p-value {change.p_value:.3g}"
    if change.effect == change.effect:
        text = f"distance {change.distance:.4g} (effect {change.effect:.2f}), p-value {change.p_value:.3g}"
    if not alarm.differs:
        verdict = alarm.verdict if alarm.significant else "no difference beyond sampling noise"
    lines = [f"{verdict}: {text}"]
    if alarm.differs and model is None:
        lines.append(alarm.verdict.removeprefix("differs: ").removeprefix("differs, but "))
    emit({**alarm.facts(), "alpha": alpha}, as_json, "\n".join(lines))
    if alarm.differs:
        raise typer.Exit(Code.DIFFERENT)


def _against_model(path: str, name: str, model: Mixture, alpha: float) -> Alarm:
    """How a sketch differs from what a model says."""
    from sketchlearn.comparison import Alarm, Change, goodness_of_fit

    result = goodness_of_fit(read_sketch(path), model)
    change = Change(
        Path(path).stem, Path(name).stem, result.statistic**0.5, result.expected**0.5, result.distance, result.p_value,
        result.counts[0], "model",
    )  # fmt: skip
    return Alarm(change, result.p_value, result.differs(alpha), (), result.differs(alpha))


def _pair(a: str, b: str | None, groups: list[str]) -> dict[str, Sketch]:
    """The two sketches to compare, by name."""
    if b is not None:
        names = [Path(path).stem if path != "-" else "standard input" for path in (a, b)]
        names = names if names[0] != names[1] else [a, f"{b} (second)" if a == b else b]
        return dict(zip(names, (read_sketch(a), read_sketch(b)), strict=True))
    first, second = _groups(a, groups)
    return {groups[0]: first, groups[1] if len(groups) > 1 else "all others": second}


def _model(path: str) -> Mixture | None:
    """The mixture of a model, if the file is one; None for a sketch."""
    if path == "-" or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        if not file.read(64).lstrip().startswith(b"{"):
            return None
    model = read_model(path)
    if model.mixture is None:
        raise ModelFileError(f"{path}: a {model.task} model has no density that rows could follow")
    return model.mixture


def _groups(path: str, names: list[str]) -> tuple[Sketch, Sketch]:
    """Two groups of a table, or one of them and all the others together."""
    if not is_table(path):
        raise usage(f"--group is for tables of sketches, {path} is not one")
    if len(names) > 2 or len(set(names)) < len(names):
        raise usage("--group takes two different groups, or one group that is compared with all others")
    first = read_group(path, names[0])
    if len(names) == 2:
        return first, read_group(path, names[1])
    from sketchlearn.sketches import SketchTable

    table = SketchTable.load(path)
    return first, table.union(lambda label: str(label) != names[0])
