"""``sketchlearn compare``: a drift alarm with an exit code."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sketchlearn.cli.app import Code, Debug, Json, emit, read_model, read_sketch, usage
from sketchlearn.comparison import compare, goodness_of_fit

if TYPE_CHECKING:
    from sketchlearn.decoders.mixture import Mixture


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("compare")
    def compare_(
        a: Annotated[str, typer.Argument(help="A sketch; - for standard input.")],
        b: Annotated[
            str, typer.Argument(help="Another one, of other rows, with the same features; or a model with a mixture.")
        ],
        alpha: Annotated[float, typer.Option("--alpha", help="False-alarm rate of the exit code.")] = 0.01,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Distance of two sketches (MMD), or of a sketch and a model, and its p-value; exit code 10 if they differ."""
        if not 0 < alpha < 1:
            raise usage(f"--alpha must be between 0 and 1, got {alpha}")
        if a == b == "-":
            raise usage("standard input (-) can be read once only")
        first = read_sketch(a)
        model = _model(b)
        result = compare(first, read_sketch(b)) if model is None else goodness_of_fit(first, model)
        differs = result.differs(alpha)
        facts = {
            "distance": result.distance,
            "p_value": result.p_value,
            "differs": differs,
            "alpha": alpha,
            "rows": [count for count in result.counts if math.isfinite(count)],
        }
        what = "the sketches differ" if model is None else "the rows don't follow the model"
        verdict = what if differs else "no difference beyond sampling noise"
        emit(facts, as_json, f"{verdict}: distance {result.distance:.4g}, p-value {result.p_value:.3g}")
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
