"""``sketchlearn independence``: test whether two groups of columns are independent."""

from __future__ import annotations

from typing import Annotated

import typer

from sketchlearn.cli.inputs import read_sketch
from sketchlearn.cli.options import ALPHA, Json, option, verb
from sketchlearn.cli.outputs import Code, emit, usage


@verb(
    "design data.parquet --first age,income -o map.json",
    "sketch data.parquet -f map.json -o all.sketch",
    "independence all.sketch",
)
def independence_(
    sketch: Annotated[str, typer.Argument(help="A sketch with a map from 'design --first'; - for standard input.")],
    alpha: Annotated[float, option(ALPHA)] = 0.01,
    as_json: Json = False,
) -> None:
    """Test whether two groups of columns are independent; exit code 10 if they are not."""
    if not 0 < alpha < 1:
        raise usage(f"--alpha must be between 0 and 1, got {alpha}")
    s = read_sketch(sketch)
    from sketchlearn.comparison import independence

    found = independence(s)
    dependent = found.dependent(alpha)
    facts = {
        "dependence": found.dependence,
        "p_value": found.p_value,
        "dependent": dependent,
        "alpha": alpha,
        "rows": found.count,
    }
    verdict = "the groups depend on each other" if dependent else "no dependence beyond sampling noise"
    emit(facts, as_json, f"{verdict}: dependence {found.dependence:.4g}, p-value {found.p_value:.3g}")
    if dependent:
        raise typer.Exit(Code.DIFFERENT)
