"""``sketchlearn privatize``: add noise, so that the sketch may be published."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from sketchlearn.cli.app import Debug, Json, Output, check_output, emit, is_table, note, read_sketch, usage, write_bytes
from sketchlearn.cli.help import examples


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command(epilog=examples("privatize all.sketch --epsilon 1 --delta 1e-6 --public-map -o public.sketch"))
    def privatize(
        sketch: Annotated[str, typer.Argument(help="Exact sketch; - for standard input.")],
        output: Output,
        epsilon: Annotated[float, typer.Option("--epsilon", help="Privacy loss per person; smaller is safer.")],
        delta: Annotated[
            float, typer.Option("--delta", help="0, or a number far below 1 / (number of people) for less noise.")
        ] = 0.0,
        relation: Annotated[
            Literal["add-remove", "replace-one"],
            typer.Option("--relation", help="What one person changes: a row more or less, or another row."),
        ] = "add-remove",
        records_per_user: Annotated[
            int | None,
            typer.Option(
                "--records-per-user",
                help="The largest number of rows of one person; by default what the pass saw to (sketch --user), or 1.",
            ),
        ] = None,
        rows: Annotated[
            int | None,
            typer.Option("--rows", help="The number of rows as a public number, for replace-one with chosen rows."),
        ] = None,
        group: Annotated[
            list[str] | None,
            typer.Option("--group", help="Of a table: the groups as a public list, one option each."),
        ] = None,
        public_map: Annotated[
            bool,
            typer.Option(
                "--public-map", help="Confirm that the map was chosen without these rows, by 'design' from bounds."
            ),
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
        from sketchlearn.privacy import privatize_table as release_table
        from sketchlearn.sketches import SketchTable

        if ledger is None and not (dataset is None and budget_epsilon is None and budget_delta is None):
            raise usage("--dataset, --budget-epsilon and --budget-delta are for a --ledger")
        if ledger is not None and dataset is None:
            raise usage("--ledger needs --dataset, the name of the data that is spent on")
        if not epsilon > 0 or not 0 <= delta < 1:
            raise usage(f"--epsilon must be positive and --delta in [0, 1), got {epsilon:g} and {delta:g}")
        check_output(output, sketch)
        book = None if ledger is None else Ledger(ledger, budget_epsilon, budget_delta)
        if is_table(sketch):
            if relation != "add-remove" or rows is not None:
                raise usage("a table is released under add-remove: leave out --relation and --rows")
            private = release_table(
                SketchTable.load(sketch), epsilon, delta, groups=group or None, records_per_user=records_per_user,
                public_map=public_map, ledger=book, dataset=dataset,
            )  # fmt: skip
            write_bytes(output, private.to_bytes())
            first = next(iter(private.values())).privacy
            assert first is not None
            told = {"output": output, "groups": private.groups, "privacy": first.to_json()}
            if output != "-":
                emit(told, as_json, f"{output}: {len(private)} groups, one promise for all\n{first.explain()}")
            return
        if group:
            raise usage(f"--group is for tables of sketches, {sketch} is not one")
        exact = read_sketch(sketch)
        noisy = release(
            exact,
            epsilon,
            delta,
            relation=relation,
            records_per_user=records_per_user,
            rows=rows,
            public_map=public_map,
            ledger=book,
            dataset=dataset,
        )
        write_bytes(output, noisy.to_bytes())
        if book is None:
            note(
                "note: no ledger, so nobody adds up what was released of these rows; --ledger FILE --dataset NAME "
                "does, and refuses what exceeds a budget"
            )
        if output != "-" and noisy.privacy is not None:
            facts: dict[str, Any] = {"output": output, "privacy": noisy.privacy.to_json()}
            if book is not None and dataset is not None:
                facts["left"] = book.left(dataset)
            left = "" if "left" not in facts else f"\nleft for {dataset}: epsilon = {facts['left']:.6g}"
            emit(facts, as_json, f"{output}\n{noisy.privacy.explain()}{left}")
