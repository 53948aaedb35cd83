"""``sketchlearn store``: sketches by time and group in a database: ingest, query, roll up, forget, watch."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sketchlearn.cli.app import (
    ALPHA,
    Code,
    Columns,
    Debug,
    Delimiter,
    Format,
    Json,
    Where,
    check_output,
    emit,
    names_in,
    note,
    read_features,
    usage,
    warnings_as_notes,
    working,
    write_bytes,
)
from sketchlearn.cli.help import Commands, examples
from sketchlearn.cli.store_private import add_private

Place = Annotated[str, typer.Argument(help="DuckDB file, or postgresql://user@host/database.")]
Named = Annotated[str | None, typer.Option("--dataset", help="Name of the dataset; not needed if there is only one.")]
Since = Annotated[str | None, typer.Option("--since", help="Start of the range, e.g. 2024-05-01 (UTC).")]
Until = Annotated[str | None, typer.Option("--until", help="End of the range (not included).")]
Groups = Annotated[
    str | None, typer.Option("--where", help="Condition on the group columns, e.g. 'shop in (a, b) and kind != test'.")
]
Every = Annotated[str | None, typer.Option("--every", help="Length of a period: 1h, 1d, 1w, 1mo; by default a bucket.")]
Now = Annotated[str | None, typer.Option("--now", help="The current time; by default now.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    store = typer.Typer(cls=Commands, help="Keep sketches by time and group in a database.", no_args_is_help=True)
    app.add_typer(store, name="store")
    for add in (_filling, _upkeep, _asking, _serving):
        add(store)
    add_private(store, _opened)


def _opened(place: str) -> Any:
    import sketchlearn

    return sketchlearn.Store(place)


def _filling(store: typer.Typer) -> None:
    @store.command(epilog=examples("store init sketches.duckdb -f map.json --time sold_at --every 1d --group-by shop"))
    def init(
        place: Place,
        features: Annotated[str, typer.Option("--features", "-f", help="Feature map from design, or a sketch.")],
        time: Annotated[str | None, typer.Option("--time", help="Column with the time of each row.")] = None,
        every: Annotated[str | None, typer.Option("--every", help="Length of a bucket: 1h, 1d, 1mo.")] = None,
        group_by: Annotated[
            list[str] | None, typer.Option("--group-by", help="Group columns, separated by commas.")
        ] = None,
        dataset: Annotated[str, typer.Option("--dataset", help="Name of the dataset.")] = "main",
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Create a dataset with a feature map, time buckets and group columns."""
        groups = names_in(group_by, "--group-by") or []
        made = _opened(place).create(read_features(features), dataset=dataset, time=time, every=every, group_by=groups)
        emit(_dataset_facts(made), as_json)

    @store.command(epilog=examples("store ingest sketches.duckdb 'sales/*.parquet'"))
    def ingest(
        place: Place,
        data: Annotated[list[str], typer.Argument(help="Files, globs or folders.")],
        columns: Columns = None,
        where: Where = None,
        format: Format = None,
        delimiter: Delimiter = None,
        source: Annotated[str | None, typer.Option("--source", help="A name for all the data, as one source.")] = None,
        replace: Annotated[bool, typer.Option("--replace", help="Replace the rows of files that have changed.")] = (
            False
        ),
        atomic: Annotated[bool, typer.Option("--atomic", help="Add all files or none.")] = False,
        skip_invalid: Annotated[bool, typer.Option("--skip-invalid", help="Leave out rows with NaN or nulls.")] = False,
        workers: Annotated[int | None, typer.Option("--workers", help="Threads; by default all cores.")] = None,
        progress: Annotated[
            bool | None, typer.Option("--progress/--no-progress", help="Show progress; by default only on a terminal.")
        ] = None,
        dataset: Named = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Add files, each of them once. To continue after an interruption, run the same command again."""
        found = _opened(place).ingest(
            data if len(data) > 1 else data[0], dataset=dataset, source=source, replace=replace, atomic=atomic,
            workers=workers, progress=progress, on_invalid="skip" if skip_invalid else "raise",
            columns=names_in(columns), where=where, format=format, delimiter=delimiter,
        )  # fmt: skip
        facts = {"added": len(found.added), "known": len(found.known), "rows": found.rows, "cells": found.cells}
        emit(facts, as_json)

    @store.command(epilog=examples("store info sketches.duckdb"))
    def info(place: Place, as_json: Json = False, debug: Debug = False) -> None:
        """Show what is in a store."""
        opened = _opened(place)
        facts = {name: {**_dataset_facts(d), **_contents(opened, name)} for name, d in opened.datasets().items()}
        lines = [f"{name}: " + ", ".join(f"{k} {v}" for k, v in one.items()) for name, one in facts.items()]
        emit({"bytes": opened.backend.size(), "datasets": facts}, as_json, "\n".join(lines) or "no datasets")


def _dataset_facts(dataset: Any) -> dict[str, Any]:
    return {
        "dataset": dataset.name, "time": dataset.time, "every": dataset.every.text if dataset.every else None,
        "groups": list(dataset.groups), "features": dataset.features.size, "fingerprint": dataset.features.fingerprint,
    }  # fmt: skip


def _contents(store: Any, name: str) -> dict[str, Any]:
    from sketchlearn.store.periods import readable

    query = store.query(name)
    keys = query.cell_keys()
    starts = [a for a, _, _ in keys if a is not None]
    stops = [b for _, b, _ in keys if b is not None]
    return {
        "rows": query.count, "buckets": len({a for a, _, _ in keys}), "groups in use": len({g for _, _, g in keys}),
        "since": readable(min(starts)) if starts else None, "until": readable(max(stops)) if stops else None,
    }  # fmt: skip


def _upkeep(store: typer.Typer) -> None:
    @store.command(epilog=examples("store rollup sketches.duckdb 1mo --older-than 90d"))
    def rollup(
        place: Place,
        to: Annotated[str, typer.Argument(help="Length of the new buckets, e.g. 1mo.")],
        older_than: Annotated[
            str | None, typer.Option("--older-than", help="Only buckets that ended at least this long ago.")
        ] = None,
        keep_sources: Annotated[
            bool, typer.Option("--keep-sources", help="Keep sources apart, so that they can be forgotten by name.")
        ] = False,
        dataset: Named = None,
        now: Now = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Merge cells into longer buckets."""
        count = _opened(place).rollup(to, dataset=dataset, older_than=older_than, now=now, keep_sources=keep_sources)
        emit({"cells": count}, as_json)

    @store.command(epilog=examples("store retain sketches.duckdb 400d"))
    def retain(
        place: Place,
        age: Annotated[str, typer.Argument(help="How long cells are kept, e.g. 400d.")],
        dataset: Named = None,
        now: Now = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Delete cells that ended longer ago than this."""
        emit({"dropped": _opened(place).retain(age, dataset=dataset, now=now)}, as_json)

    @store.command(epilog=examples("store forget sketches.duckdb sales/2024-05-01.parquet --reason 'request 17'"))
    def forget(
        place: Place,
        what: Annotated[str, typer.Argument(help="Name of a source, a file with its rows, or a sketch of rows.")],
        time: Annotated[str | None, typer.Option("--time", help="If WHAT is a sketch: a time in its cell.")] = None,
        group: Annotated[
            list[str] | None,
            typer.Option("--group", help="If WHAT is a sketch: its group, as column=value; repeatable."),
        ] = None,
        reason: Annotated[str, typer.Option("--reason", help="Reason, for the journal.")] = "",
        dataset: Named = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Remove rows, exactly, and write a line into the journal."""
        opened = _opened(place)
        thing: Any = what
        named = {s["name"] for s in opened.sources(dataset)} | {s["identity"] for s in opened.sources(dataset)}
        if what not in named and what.endswith(".sketch"):
            import sketchlearn

            thing = sketchlearn.load(what)
        groups = dict(_pair(text) for text in group or [])
        count = opened.forget(thing, dataset=dataset, time=time, groups=groups, reason=reason)
        emit({"cells": count}, as_json)

    @store.command(epilog=examples("store export sketches.duckdb copy.duckdb"))
    def export(
        place: Place,
        other: Annotated[str, typer.Argument(help="Store to copy into: a DuckDB file or a PostgreSQL address.")],
        dataset: Named = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Copy a dataset into another store, except what is already there."""
        emit({"cells": _opened(place).export(other, dataset=dataset)}, as_json)

    @store.command(epilog=examples("store journal sketches.duckdb"))
    def journal(place: Place, dataset: Named = None, as_json: Json = False, debug: Debug = False) -> None:
        """Show what was forgotten, dropped and rolled up."""
        lines = _opened(place).journal(dataset)
        text = "\n".join(" ".join(f"{k}={v}" for k, v in line.items()) for line in lines)
        emit({"journal": lines}, as_json, text or "nothing was changed")


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign:
        raise usage(f"--group {text}: write column=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _asking(store: typer.Typer) -> None:
    @store.command(
        epilog=examples(
            "store query sketches.duckdb --since 2024-05-01 --until 2024-06-01 -o may.sketch",
            "store query sketches.duckdb --by shop -o shops.parquet",
        )
    )
    def query(
        place: Place,
        output: Annotated[
            str | None, typer.Option("--output", "-o", help="Sketch to write, or Parquet with --by or --every.")
        ] = None,
        since: Since = None,
        until: Until = None,
        where: Groups = None,
        by: Annotated[str | None, typer.Option("--by", help="One sketch for each value of this group column.")] = None,
        every: Annotated[str | None, typer.Option("--every", help="One sketch for each period.")] = None,
        decay: Annotated[str | None, typer.Option("--decay", help="Half-life of exponential forgetting.")] = None,
        dataset: Named = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Merge the selected cells into a sketch, or into one for each group or period."""
        import sketchlearn

        if by is not None and every is not None:
            raise usage("--by and --every: choose one")
        if decay is not None and (by is not None or every is not None):
            raise usage("--decay is for one sketch")
        if output is not None:
            check_output(output, place)
        chosen = _opened(place).query(dataset, since=since, until=until, where=where)
        made: Any
        if by is not None or every is not None:
            made = chosen.table(by) if by is not None else sketchlearn.SketchTable(chosen.timeline(every))
            facts: dict[str, Any] = {"sketches": len(made), "rows": sum(made.counts.values())}
        else:
            made = chosen.sketch(decay=decay)
            facts = {"rows": made.count}
        if output is not None:
            write_bytes(output, made.to_bytes())
            facts["output"] = output
        emit(facts, as_json)

    @store.command(epilog=examples("store drift sketches.duckdb --since 2024-01-01 --every 1d"))
    def drift(
        place: Place,
        since: Since = None,
        until: Until = None,
        where: Groups = None,
        every: Every = None,
        alpha: Annotated[float, typer.Option("--alpha", help=ALPHA)] = 0.01,
        dataset: Named = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Find the periods when the rows changed, and the columns; exit code 10 if there are any."""
        chosen = _opened(place).query(dataset, since=since, until=until, where=where)
        with working("looking for changes"), warnings_as_notes():
            points = chosen.change_points(every, alpha=alpha)
        lines = [
            f"{p.period}  p = {p.p_value:.3g}  distance {p.distance:.3g}  "
            + (", ".join(map(str, p.columns[:5])) or "no single column, but how they go together")
            for p in points
        ]
        facts = {
            "alpha": alpha,
            "changes": [
                {
                    "period": p.period,
                    "p_value": p.p_value,
                    "distance": p.distance,
                    "columns": [c.column for c in p.columns],
                }
                for p in points
            ],
        }
        emit(facts, as_json, "\n".join(lines) or "no change")
        if points:
            raise typer.Exit(Code.DIFFERENT)

    @store.command(epilog=examples("store check sketches.duckdb --reference 28d"))
    def check(
        place: Place,
        at: Annotated[str | None, typer.Option("--at", help="A time in the period; by default the latest.")] = None,
        every: Every = None,
        reference: Annotated[str, typer.Option("--reference", help="How far back the comparison goes.")] = "28d",
        alpha: Annotated[
            float, typer.Option("--alpha", help="Probability of any false alarm within the horizon.")
        ] = 0.1,
        horizon: Annotated[str, typer.Option("--horizon", help="The period to which alpha applies.")] = "1y",
        min_distance: Annotated[float, typer.Option("--min-distance", help="Smaller distances raise no alarm.")] = 0.0,
        where: Groups = None,
        dataset: Named = None,
        debug: Debug = False,
    ) -> None:
        """Compare the latest period with the time before it: one line of JSON, exit code 10 for an alarm.

        Meant for a timer. One check in every period, over the whole horizon, raises a false alarm with a probability of
        at most alpha.
        """
        chosen = _opened(place).query(dataset, where=where)
        with warnings_as_notes():
            found = chosen.check(
                at=at, every=every, reference=reference, alpha=alpha, horizon=horizon, min_distance=min_distance
            )
        typer.echo(json.dumps(found.facts(), allow_nan=False))
        if found.differs:
            raise typer.Exit(Code.DIFFERENT)


def _serving(store: typer.Typer) -> None:
    @store.command(epilog=examples("store serve sketches.duckdb --port 8001"))
    def serve(
        place: Place,
        host: Annotated[str, typer.Option(help="Address to listen on; any address except loopback needs a token.")] = (
            "127.0.0.1"
        ),
        port: Annotated[int, typer.Option(help="Port to listen on.")] = 8001,
        debug: Debug = False,
    ) -> None:
        """Show a store in the browser: read-only, on this machine.

        If the variable SKETCHLEARN_TOKEN is set, the page asks for this token. An address that other machines can reach
        must have one.
        """
        from sketchlearn.store.web import serve as run

        note(f"http://{host}:{port}/ shows {_opened(place).backend.place}; stop with Ctrl-C")
        run(_opened(place), host, port)
