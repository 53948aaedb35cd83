"""``sketchlearn privatize``: add noise, so that the sketch may be published."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sketchlearn.cli.app import Debug, Json, Output, check_output, emit, read_sketch, usage, write_bytes


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def privatize(
        sketch: Annotated[str, typer.Argument(help="Exact sketch; - for standard input.")],
        output: Output,
        epsilon: Annotated[float, typer.Option("--epsilon", help="Privacy loss per person; smaller is safer.")],
        delta: Annotated[
            float, typer.Option("--delta", help="0, or a number far below 1 / (number of people) for less noise.")
        ] = 0.0,
        relation: Annotated[
            str, typer.Option("--relation", help="What one person changes: add-remove or replace-one.")
        ] = "add-remove",
        records_per_user: Annotated[
            int, typer.Option("--records-per-user", help="Largest number of rows that belong to one person.")
        ] = 1,
        public_map: Annotated[
            bool,
            typer.Option("--public-map", help="My word that the map was chosen without these rows (design --bounds)."),
        ] = False,
        ledger: Annotated[
            str | None, typer.Option("--ledger", help="File that records what was spent; written before the release.")
        ] = None,
        dataset: Annotated[str | None, typer.Option("--dataset", help="Name of the data in the ledger.")] = None,
        budget_epsilon: Annotated[
            float | None, typer.Option("--budget-epsilon", help="Epsilon budget of each dataset, for a new ledger.")
        ] = None,
        budget_delta: Annotated[
            float | None, typer.Option("--budget-delta", help="Delta budget of each dataset, for a new ledger.")
        ] = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Add the noise that a privacy guarantee needs. The result can be shared with anybody."""
        from sketchlearn.privacy import Ledger
        from sketchlearn.privacy import privatize as release

        if ledger is None and not (dataset is None and budget_epsilon is None and budget_delta is None):
            raise usage("--dataset, --budget-epsilon and --budget-delta are for a --ledger")
        if ledger is not None and dataset is None:
            raise usage("--ledger needs --dataset, the name of the data that is spent on")
        if not epsilon > 0 or not 0 <= delta < 1:
            raise usage(f"--epsilon must be positive and --delta in [0, 1), got {epsilon:g} and {delta:g}")
        check_output(output, sketch)
        exact = read_sketch(sketch)
        book = None if ledger is None else Ledger(ledger, budget_epsilon, budget_delta)
        noisy = release(
            exact,
            epsilon,
            delta,
            relation=relation,
            records_per_user=records_per_user,
            public_map=public_map,
            ledger=book,
            dataset=dataset,
        )
        write_bytes(output, noisy.to_bytes())
        if output != "-" and noisy.privacy is not None:
            facts: dict[str, Any] = {"output": output, "privacy": noisy.privacy.to_json()}
            if book is not None and dataset is not None:
                facts["left"] = book.left(dataset)
            left = "" if "left" not in facts else f"\nleft for {dataset}: epsilon = {facts['left']:.6g}"
            emit(facts, as_json, f"{output}\n{noisy.privacy.explain()}{left}")
