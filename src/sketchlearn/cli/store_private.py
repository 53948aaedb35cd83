"""Private releases of a store on the command line: publish, advance, released."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sketchlearn.cli.app import Debug, Json, Output, check_output, emit, note, read_features, write_bytes
from sketchlearn.cli.help import examples

Place = Annotated[str, typer.Argument(help="DuckDB file, or postgresql://user@host/database.")]
Name = Annotated[str, typer.Argument(help="Name of the publication.")]


def add_private(store: typer.Typer, opened: Any) -> None:
    """Add the commands; `opened` gives the store at a place."""

    @store.command(epilog=examples("store publish sketches.duckdb daily --epsilon 1 --periods 365 --first 2026-01-01"))
    def publish(
        place: Place,
        name: Name,
        epsilon: Annotated[
            float, typer.Option("--epsilon", help="Epsilon of everything that is ever released under this name.")
        ],
        periods: Annotated[int, typer.Option("--periods", help="The largest number of periods.")],
        first: Annotated[str, typer.Option("--first", help="Date on which the first period begins; it is public.")],
        delta: Annotated[
            float, typer.Option("--delta", help="0, or a number far below 1 / (number of people) for less noise.")
        ] = 0.0,
        records_per_user: Annotated[
            int,
            typer.Option(
                "--records-per-user", help="The largest number of rows of one person, in all periods together."
            ),
        ] = 1,
        features: Annotated[
            str | None,
            typer.Option("--features", "-f", help="The map file from 'design'; it says what the map was chosen from."),
        ] = None,
        public_map: Annotated[
            bool, typer.Option("--public-map", help="Confirm that the map was chosen without these rows.")
        ] = False,
        ledger: Annotated[str | None, typer.Option("--ledger", help="File that records what was spent.")] = None,
        people: Annotated[str | None, typer.Option("--people", help="Name of the data in the ledger.")] = None,
        dataset: Annotated[str | None, typer.Option("--dataset", help="Name of the dataset.")] = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Start a private release of every period, under one guarantee."""
        from sketchlearn.privacy import Ledger

        made = opened(place).publish(
            name, epsilon=epsilon, delta=delta, periods=periods, first=first, dataset=dataset,
            records_per_user=records_per_user, public_map=public_map,
            features=None if features is None else read_features(features),
            ledger=None if ledger is None else Ledger(ledger), ledger_name=people,
        )  # fmt: skip
        if ledger is None:
            note("note: without a ledger, nothing counts what was released; use --ledger FILE --people NAME")
        emit(made.facts(), as_json)

    @store.command(epilog=examples("store advance sketches.duckdb daily"))
    def advance(
        place: Place,
        name: Name,
        until: Annotated[
            str | None,
            typer.Option("--until", help="Release the periods that end before this time (UTC); by default now."),
        ] = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Release the periods that are over. Run it after each period, for example from a timer."""
        public = opened(place).published(name)
        emit({"released": public.advance(until), **public.facts()}, as_json)

    @store.command(epilog=examples("store released sketches.duckdb daily -o public.sketch"))
    def released(
        place: Place,
        name: Name,
        output: Output,
        since: Annotated[str | None, typer.Option("--since", help="First period; by default the first.")] = None,
        until: Annotated[str | None, typer.Option("--until", help="End of the last period.")] = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Write the private sketch of some consecutive periods."""
        check_output(output, place)
        s = opened(place).published(name).sketch(since, until)
        write_bytes(output, s.to_bytes())
        if output != "-" and s.privacy is not None:
            emit({"output": output, "privacy": s.privacy.to_json()}, as_json, f"{output}\n{s.privacy.explain()}")
