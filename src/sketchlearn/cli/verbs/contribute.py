"""``sketchlearn contribute``: take part in a round of secure aggregation with rows that stay here."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from sketchlearn.cli.inputs import names_in, read_features
from sketchlearn.cli.options import Columns, Format, Json, Where, option, verb
from sketchlearn.cli.outputs import emit, note, usage


@verb("contribute http://host:8000 rows.parquet --name north --epsilon 1 --delta 1e-6 -f map.json")
def contribute(
    url: Annotated[str, typer.Argument(help="Address of the endpoint: http://host:8000")],
    data: Annotated[list[str], typer.Argument(help="Files of rows, globs, folders, a database URL.")],
    name: Annotated[str, option("Your name in this round; it must be unique.")],
    epsilon: Annotated[float, option("The agreed epsilon; rounds with another value are refused.")],
    delta: Annotated[float, option("The agreed delta; rounds with another value are refused.")],
    honest: Annotated[int | None, option("The agreed number of honest participants.")] = None,
    features: Annotated[
        str | None, option("The agreed feature map; rounds with another map are refused.", "--features", "-f")
    ] = None,
    columns: Columns = None,
    where: Where = None,
    format: Format = None,
    ledger: Annotated[str | None, option("File that records what is spent, before anything is sent.")] = None,
    dataset: Annotated[str | None, option("Name of the data in the ledger.")] = None,
    timeout: Annotated[float, option("Give up after this many seconds.")] = 3600.0,
    as_json: Json = False,
) -> None:
    """Send masked, noisy sums. The server learns only the total of all participants.

    If the variable SKETCHLEARN_TOKEN is set, it is sent as Authorization: Bearer.
    """
    from sketchlearn.federation import contribute as take_part
    from sketchlearn.privacy import Ledger
    from sketchlearn.sketching import sketch

    if (ledger is None) != (dataset is None):
        raise usage("--ledger and --dataset go together: where to write, and the name of the data")
    reading = {"columns": names_in(columns), "where": where, "format": format}
    chosen: dict[str, Any] = {k: v for k, v in reading.items() if v is not None}
    rows: Any = data if len(data) > 1 else data[0]
    count = 0

    def made(phi: Any) -> Any:
        nonlocal count
        found = sketch(rows, phi, **chosen)
        count = int(found.count)
        return found

    terms = take_part(
        url, name, made, epsilon=epsilon, delta=delta, honest=honest,
        features=None if features is None else read_features(features),
        token=os.environ.get("SKETCHLEARN_TOKEN"), timeout=timeout,
        ledger=None if ledger is None else Ledger(ledger), dataset=dataset,
    )  # fmt: skip
    if ledger is None:
        note("note: without a ledger, nothing counts what was spent on these rows; use --ledger FILE --dataset NAME")
    facts = {"rows": count, "epsilon": terms.epsilon, "delta": terms.delta, "features": terms.features.size}
    emit(facts, as_json, f"{name}: {count:,} rows are in the total of the round, under epsilon = {terms.epsilon:g}")
