"""``sketchlearn sweep``: find the number of clusters or components that a sketch supports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from sketchlearn.cli.help import Covariance
from sketchlearn.cli.inputs import numbers_in, read_sketch
from sketchlearn.cli.options import Budget, Json, Seed, option, verb
from sketchlearn.cli.outputs import emit, working


@verb("sweep all.sketch -k 2:20")
def sweep_(
    sketch: Annotated[str, typer.Argument(help="A sketch; - for standard input.")],
    ks: Annotated[str, option("Numbers of components, e.g. 2:12 or 2,4,8.", "-k", "--ks")] = "1:12",
    task: Annotated[Literal["kmeans", "gmm", "stable"], option("What to count.")] = "kmeans",
    covariance: Annotated[Covariance, option("For gmm: shape of the components.")] = "full",
    seed: Seed = 0,
    budget: Budget = None,
    as_json: Json = False,
) -> None:
    """Try several numbers of components on one sketch, and recommend one."""
    numbers = numbers_in(ks)
    s = read_sketch(sketch)
    from sketchlearn.decoders import sweep

    options: dict[str, Any] = {"covariance_type": covariance} if task == "gmm" else {}
    with working(f"trying {len(numbers)} numbers of components"):
        table = sweep(s, numbers, task=task, random_state=seed, **options)
    rows = [{k: None if v != v else v for k, v in asdict(row).items()} for row in table]  # NaN is not JSON
    facts: dict[str, Any] = {"recommended": table.recommended, "reason": table.reason, "rows": rows}
    emit(facts, as_json, repr(table))
