"""``sketchlearn compare``: compare two sketches; a drift alarm for scripts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sketchlearn.cli.app import Code, Debug, Json, emit, is_table, read_group, read_model, read_sketch, usage

if TYPE_CHECKING:
    from sketchlearn.models.mixture import Mixture
    from sketchlearn.sketches import Sketch


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("compare")
    def compare_(
        a: Annotated[str, typer.Argument(help="A sketch, or a table of groups; - for standard input.")],
        b: Annotated[
            str | None,
            typer.Argument(help="A second sketch with the same feature map; or a model with a mixture."),
        ] = None,
        group: Annotated[
            list[str] | None,
            typer.Option("--group", "-g", help="Groups of the table to compare: two, or one against all others."),
        ] = None,
        alpha: Annotated[float, typer.Option("--alpha", help="False-alarm rate of the exit code.")] = 0.01,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Compare two sketches, or a sketch and a model: distance (MMD), p-value, and columns that moved.

        The exit code is 10 if they differ.
        """
        if not 0 < alpha < 1:
            raise usage(f"--alpha must be between 0 and 1, got {alpha}")
        if a == b == "-":
            raise usage("standard input (-) can be read once only")
        if (b is None) == (not group):
            raise usage("give two sketches, or one table of groups and the groups with --group")
        from sketchlearn.comparison import compare, goodness_of_fit, moved_columns
        from sketchlearn.comparison.drift import adjusted

        model = None if b is None else _model(b)
        second: Sketch | None = None
        if b is None:
            first, second = _groups(a, group or [])
        else:
            first = read_sketch(a)
            second = None if model is not None else read_sketch(b)
        if second is not None:
            result = compare(first, second)
        else:
            assert model is not None
            result = goodness_of_fit(first, model)
        differs = result.differs(alpha)
        moved = moved_columns(first, second) if differs and second is not None else []
        moved = [c for c, p in zip(moved, adjusted([c.p_value for c in moved], "holm"), strict=True) if p < alpha]
        facts = {
            "distance": result.distance,
            "p_value": result.p_value,
            "differs": differs,
            "alpha": alpha,
            "rows": [count for count in result.counts if math.isfinite(count)],
            "columns": [c.column for c in moved],
        }
        what = "the sketches differ" if model is None else "the rows don't follow the model"
        verdict = what if differs else "no difference beyond sampling noise"
        where = f"; moved: {', '.join(map(str, moved[:8]))}" + (", ..." if len(moved) > 8 else "") if moved else ""
        emit(facts, as_json, f"{verdict}: distance {result.distance:.4g}, p-value {result.p_value:.3g}{where}")
        if differs:
            raise typer.Exit(Code.DIFFERENT)


def _model(path: str) -> Mixture | None:
    """The mixture of a model, if the file is one; None for a sketch."""
    if path == "-" or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        if not file.read(64).lstrip().startswith(b"{"):
            return None
    model = read_model(path)
    if model.mixture is None:
        raise usage(f"{path}: a {model.task} model has no density that rows could follow")
    return model.mixture


def _groups(path: str, names: list[str]) -> tuple[Sketch, Sketch]:
    """Two groups of a table, or one of them and all the others together."""
    if not is_table(path):
        raise usage(f"--group is for tables of sketches, {path} is not one")
    if len(names) > 2 or len(set(names)) < len(names):
        raise usage("--group names two groups that differ, or one that is compared with all others")
    first = read_group(path, names[0])
    if len(names) == 2:
        return first, read_group(path, names[1])
    from sketchlearn.sketches import SketchTable

    table = SketchTable.load(path)
    return first, table.union(lambda label: str(label) != names[0])
