"""``sketchlearn compare``: a drift alarm with an exit code."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.app import Code, Debug, Json, emit, read_sketch, usage
from sketchlearn.comparison import compare


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("compare")
    def compare_(
        a: Annotated[str, typer.Argument(help="A sketch; - for standard input.")],
        b: Annotated[str, typer.Argument(help="Another one, of other rows, with the same features.")],
        alpha: Annotated[float, typer.Option("--alpha", help="False-alarm rate of the exit code.")] = 0.01,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Distance of two sketches (MMD) and its p-value; exit code 10 if they differ."""
        if not 0 < alpha < 1:
            raise usage(f"--alpha must be between 0 and 1, got {alpha}")
        if a == b == "-":
            raise usage("standard input (-) can be read once only")
        result = compare(read_sketch(a), read_sketch(b))
        differs = result.differs(alpha)
        facts = {
            "distance": result.distance,
            "p_value": result.p_value,
            "differs": differs,
            "alpha": alpha,
            "rows": list(result.counts),
        }
        verdict = "the sketches differ" if differs else "no difference beyond sampling noise"
        emit(facts, as_json, f"{verdict}: distance {result.distance:.4g}, p-value {result.p_value:.3g}")
        if differs:
            raise typer.Exit(Code.DIFFERENT)
