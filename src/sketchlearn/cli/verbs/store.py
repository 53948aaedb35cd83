"""``sketchlearn store``: sketches by time and group in a database: ingest, query, roll up, forget, watch."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sketchlearn.cli.inputs import names_in, read_features
from sketchlearn.cli.options import ALPHA, Columns, Delimiter, Format, Json, Output, Where, option, verb
from sketchlearn.cli.outputs import Code, check_output, emit, note, usage, warnings_as_notes, working, write_bytes

Place = Annotated[str, typer.Argument(help="DuckDB file, or postgresql://user@host/database.")]
Named = Annotated[str | None, option("Name of the dataset; not needed if there is only one.", "--dataset")]
Since = Annotated[str | None, option("Start of the range, e.g. 2024-05-01 (UTC).", "--since")]
Until = Annotated[str | None, option("End of the range (not included).", "--until")]
Groups = Annotated[
    str | None, option("Condition on the group columns, e.g. 'shop in (a, b) and kind != test'.", "--where")
]
Every = Annotated[str | None, option("Length of a period: 1h, 1d, 1w, 1mo; by default a bucket.", "--every")]
Name = Annotated[str, typer.Argument(help="Name of the publication.")]
Now = Annotated[str | None, option("The current time; by default now.", "--now")]


GROUP = "Keep sketches by time and group in a database."


def _opened(place: str) -> Any:
    import sketchlearn

    return sketchlearn.Store(place)


@verb("store init sketches.duckdb -f map.json --time sold_at --every 1d --group-by shop")
def init(
    place: Place,
    features: Annotated[str, option("Feature map from design, or a sketch.", "--features", "-f")],
    time: Annotated[str | None, option("Column with the time of each row.")] = None,
    every: Annotated[str | None, option("Length of a bucket: 1h, 1d, 1mo.")] = None,
    group_by: Annotated[list[str] | None, option("Group columns, separated by commas.")] = None,
    dataset: Annotated[str, option("Name of the dataset.")] = "main",
    as_json: Json = False,
) -> None:
    """Create a dataset with a feature map, time buckets and group columns."""
    groups = names_in(group_by, "--group-by") or []
    made = _opened(place).create(read_features(features), dataset=dataset, time=time, every=every, group_by=groups)
    emit(_dataset_facts(made), as_json)


@verb("store ingest sketches.duckdb 'sales/*.parquet'")
def ingest(
    place: Place,
    data: Annotated[list[str], typer.Argument(help="Files, globs or folders.")],
    columns: Columns = None,
    where: Where = None,
    format: Format = None,
    delimiter: Delimiter = None,
    source: Annotated[str | None, option("A name for all the data, as one source.")] = None,
    replace: Annotated[bool, option("Replace the rows of files that have changed.")] = False,
    atomic: Annotated[bool, option("Add all files or none.")] = False,
    skip_invalid: Annotated[bool, option("Leave out rows with NaN or nulls.")] = False,
    workers: Annotated[int | None, option("Threads; by default all cores.")] = None,
    progress: Annotated[
        bool | None, option("Show progress; by default only on a terminal.", "--progress/--no-progress")
    ] = None,
    dataset: Named = None,
    as_json: Json = False,
) -> None:
    """Add files, each of them once. To continue after an interruption, run the same command again."""
    opened = _opened(place)
    if not _has_datasets(opened):
        raise usage(f"{place} has no dataset yet: make one first, with 'sketchlearn store init {place} -f map.json'")
    found = opened.ingest(
        data if len(data) > 1 else data[0], dataset=dataset, source=source, replace=replace, atomic=atomic,
        workers=workers, progress=progress, on_invalid="skip" if skip_invalid else "raise",
        columns=names_in(columns), where=where, format=format, delimiter=delimiter,
    )  # fmt: skip
    facts = {"added": len(found.added), "known": len(found.known), "rows": found.rows, "cells": found.cells}
    emit(facts, as_json)


@verb("store info sketches.duckdb")
def info(place: Place, as_json: Json = False) -> None:
    """Show what is in a store."""
    opened = _opened(place)
    facts = {name: {**_dataset_facts(d), **_contents(opened, name)} for name, d in opened.datasets().items()}
    lines = [f"{name}: " + ", ".join(f"{k} {v}" for k, v in one.items()) for name, one in facts.items()]
    emit({"bytes": opened.backend.size(), "datasets": facts}, as_json, "\n".join(lines) or "no datasets")


def _has_datasets(opened: Any) -> bool:
    try:
        return bool(opened.datasets())
    except FileNotFoundError:
        return False


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


@verb("store rollup sketches.duckdb 1mo --older-than 90d")
def rollup(
    place: Place,
    to: Annotated[str, typer.Argument(help="Length of the new buckets, e.g. 1mo.")],
    older_than: Annotated[str | None, option("Only buckets that ended at least this long ago.")] = None,
    keep_sources: Annotated[bool, option("Keep sources apart, so that they can be forgotten by name.")] = False,
    dataset: Named = None,
    now: Now = None,
    as_json: Json = False,
) -> None:
    """Merge cells into longer buckets."""
    count = _opened(place).rollup(to, dataset=dataset, older_than=older_than, now=now, keep_sources=keep_sources)
    emit({"cells": count}, as_json)


@verb("store retain sketches.duckdb 400d")
def retain(
    place: Place,
    age: Annotated[str, typer.Argument(help="How long cells are kept, e.g. 400d.")],
    dataset: Named = None,
    now: Now = None,
    as_json: Json = False,
) -> None:
    """Delete cells that ended longer ago than this."""
    emit({"dropped": _opened(place).retain(age, dataset=dataset, now=now)}, as_json)


@verb("store forget sketches.duckdb sales/2024-05-01.parquet --reason 'request 17'")
def forget(
    place: Place,
    what: Annotated[str, typer.Argument(help="Name of a source, a file with its rows, or a sketch of rows.")],
    time: Annotated[str | None, option("If WHAT is a sketch: a time in its cell.")] = None,
    group: Annotated[list[str] | None, option("If WHAT is a sketch: its group, as column=value; repeatable.")] = None,
    reason: Annotated[str, option("Reason, for the journal.")] = "",
    dataset: Named = None,
    as_json: Json = False,
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


@verb("store export sketches.duckdb copy.duckdb")
def export(
    place: Place,
    other: Annotated[str, typer.Argument(help="Store to copy into: a DuckDB file or a PostgreSQL address.")],
    dataset: Named = None,
    as_json: Json = False,
) -> None:
    """Copy a dataset into another store, except what is already there."""
    emit({"cells": _opened(place).export(other, dataset=dataset)}, as_json)


@verb("store journal sketches.duckdb")
def journal(place: Place, dataset: Named = None, as_json: Json = False) -> None:
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


@verb(
    "store query sketches.duckdb --since 2024-05-01 --until 2024-06-01 -o may.sketch",
    "store query sketches.duckdb --by shop -o shops.parquet",
)
def query(
    place: Place,
    output: Annotated[str | None, option("Sketch to write, or Parquet with --by or --every.", "--output", "-o")] = None,
    since: Since = None,
    until: Until = None,
    where: Groups = None,
    by: Annotated[str | None, option("One sketch for each value of this group column.")] = None,
    every: Annotated[str | None, option("One sketch for each period.")] = None,
    decay: Annotated[str | None, option("Half-life of exponential forgetting.")] = None,
    dataset: Named = None,
    as_json: Json = False,
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


@verb("store drift sketches.duckdb --since 2024-01-01 --every 1d")
def drift(
    place: Place,
    since: Since = None,
    until: Until = None,
    where: Groups = None,
    every: Every = None,
    alpha: Annotated[float, option(ALPHA)] = 0.01,
    dataset: Named = None,
    as_json: Json = False,
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
            {"period": p.period, "p_value": p.p_value, "distance": p.distance, "columns": [c.column for c in p.columns]}
            for p in points
        ],
    }
    emit(facts, as_json, "\n".join(lines) or "no change")
    if points:
        raise typer.Exit(Code.DIFFERENT)


@verb("store check sketches.duckdb --reference 28d")
def check(
    place: Place,
    at: Annotated[str | None, option("A time in the period; by default the latest.")] = None,
    every: Every = None,
    reference: Annotated[str, option("How far back the comparison goes.")] = "28d",
    alpha: Annotated[float, option("Probability of any false alarm within the horizon.")] = 0.1,
    horizon: Annotated[str, option("The period to which alpha applies.")] = "1y",
    min_distance: Annotated[float, option("Smaller distances raise no alarm.")] = 0.0,
    where: Groups = None,
    dataset: Named = None,
) -> None:
    """Compare the latest period with the time before it: one line of JSON, exit code 10 for an alarm.

    Meant for a scheduled job. One check in every period, over the whole horizon, raises a false alarm with a
    probability of at most alpha.
    """
    chosen = _opened(place).query(dataset, where=where)
    with warnings_as_notes():
        found = chosen.check(
            at=at, every=every, reference=reference, alpha=alpha, horizon=horizon, min_distance=min_distance
        )
    typer.echo(json.dumps(found.facts(), allow_nan=False))
    if found.differs:
        raise typer.Exit(Code.DIFFERENT)


@verb("store serve sketches.duckdb --port 8001")
def serve(
    place: Place,
    host: Annotated[str, option("Address to listen on; any address except loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on.")] = 8001,
) -> None:
    """Show a store in the browser: read-only, on this machine.

    If the variable SKETCHLEARN_TOKEN is set, the page asks for this token. An address that other machines can reach
    must have one.
    """
    from sketchlearn.store.web import serve as run

    note(f"http://{host}:{port}/ shows {_opened(place).backend.place}; stop with Ctrl-C")
    run(_opened(place), host, port)


@verb("store publish sketches.duckdb daily --epsilon 1 --periods 365 --first 2026-01-01")
def publish(
    place: Place,
    name: Name,
    epsilon: Annotated[float, option("Epsilon of everything that is ever released under this name.")],
    periods: Annotated[int, option("The largest number of periods.")],
    first: Annotated[str, option("Date on which the first period begins; it is public.")],
    delta: Annotated[float, option("0, or a number far below 1 / (number of people) for less noise.")] = 0.0,
    records_per_user: Annotated[int, option("The largest number of rows of one person, in all periods together.")] = 1,
    features: Annotated[
        str | None, option("The map file from 'design'; it says what the map was chosen from.", "--features", "-f")
    ] = None,
    public_map: Annotated[bool, option("Confirm that the map was chosen without these rows.")] = False,
    ledger: Annotated[str | None, option("File that records what was spent.")] = None,
    people: Annotated[str | None, option("Name of the data in the ledger.")] = None,
    dataset: Annotated[str | None, option("Name of the dataset.")] = None,
    as_json: Json = False,
) -> None:
    """Start a private release of every period, under one guarantee."""
    from sketchlearn.privacy import Ledger

    made = _opened(place).publish(
        name, epsilon=epsilon, delta=delta, periods=periods, first=first, dataset=dataset,
        records_per_user=records_per_user, public_map=public_map,
        features=None if features is None else read_features(features),
        ledger=None if ledger is None else Ledger(ledger), ledger_name=people,
    )  # fmt: skip
    if ledger is None:
        note("note: without a ledger, nothing counts what was released; use --ledger FILE --people NAME")
    emit(made.facts(), as_json)


@verb("store advance sketches.duckdb daily")
def advance(
    place: Place,
    name: Name,
    until: Annotated[str | None, option("Release the periods that end before this time (UTC); by default now.")] = None,
    as_json: Json = False,
) -> None:
    """Release the periods that are over. Run it after each period, for example from a scheduled job."""
    public = _opened(place).published(name)
    emit({"released": public.advance(until), **public.facts()}, as_json)


@verb("store released sketches.duckdb daily -o public.sketch")
def released(
    place: Place,
    name: Name,
    output: Output,
    since: Annotated[str | None, option("First period; by default the first.")] = None,
    until: Annotated[str | None, option("End of the last period.")] = None,
    as_json: Json = False,
) -> None:
    """Write the private sketch of some consecutive periods."""
    check_output(output, place)
    s = _opened(place).published(name).sketch(since, until)
    write_bytes(output, s.to_bytes())
    if output != "-" and s.privacy is not None:
        emit({"output": output, "privacy": s.privacy.to_json()}, as_json, f"{output}\n{s.privacy.explain()}")
