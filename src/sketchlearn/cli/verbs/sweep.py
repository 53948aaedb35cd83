"""``sketchlearn sweep``: find the number of clusters or components that a sketch supports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from sketchlearn.cli.app import Debug, Json, emit, numbers_in, read_sketch, usage, working


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("sweep")
    def sweep_(
        sketch: Annotated[str, typer.Argument(help="A sketch; - for standard input.")],
        ks: Annotated[str, typer.Option("-k", "--ks", help="Numbers of components, e.g. 2:12 or 2,4,8.")] = "1:12",
        task: Annotated[str, typer.Option("--task", help="kmeans, gmm or stable.")] = "kmeans",
        covariance: Annotated[
            str, typer.Option("--covariance", help="For gmm: full, tied, diag or spherical.")
        ] = "full",
        seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="For repeatable results.")] = 0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Try several numbers of components on one sketch, and recommend one."""
        numbers = numbers_in(ks)
        if task not in ("kmeans", "gmm", "stable"):
            raise usage(f"--task {task}: choose kmeans, gmm or stable")
        if covariance not in ("full", "tied", "diag", "spherical"):
            raise usage(f"--covariance {covariance}: choose full, tied, diag or spherical")
        s = read_sketch(sketch)
        from sketchlearn.decoders import sweep

        options = {"covariance_type": covariance} if task == "gmm" else {}
        with working(f"trying {len(numbers)} numbers of components"):
            table = sweep(s, numbers, task=task, random_state=seed, **options)
        rows = [{k: None if v != v else v for k, v in asdict(row).items()} for row in table]  # NaN is not JSON
        facts: dict[str, Any] = {"recommended": table.recommended, "reason": table.reason, "rows": rows}
        emit(facts, as_json, repr(table))
