"""``sketchlearn privatize``: add noise, so that the sketch may be published."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from sketchlearn.cli.help import Task
from sketchlearn.cli.inputs import is_table, names_in, read_sketch
from sketchlearn.cli.options import Columns, Format, Json, Output, Where, option, verb
from sketchlearn.cli.outputs import check_output, emit, note, usage, write_bytes
from sketchlearn.cli.private_rows import bounds_in, categories_in, holds_sketches, release_rows, with_map


@verb("privatize all.sketch --epsilon 1 --delta 1e-6 --public-map -o public.sketch")
def privatize(
    data: Annotated[list[str], typer.Argument(help="An exact sketch (- for standard input), or files of rows.")],
    output: Output,
    epsilon: Annotated[float, option("Privacy loss per person; smaller is safer.")],
    delta: Annotated[float, option("0, or a number far below 1 / (number of people) for less noise.")] = 0.0,
    relation: Annotated[
        Literal["add-remove", "replace-one"], option("What one person changes: a row more or less, or another row.")
    ] = "add-remove",
    records_per_user: Annotated[
        int | None,
        option("The largest number of rows of one person; by default that of the pass (sketch --user), or 1."),
    ] = None,
    rows: Annotated[
        int | None, option("For replace-one: a public number of rows, if their number depends on the data.")
    ] = None,
    sample: Annotated[float | None, option("The share of the rows that 'sketch --sample' used.")] = None,
    group: Annotated[list[str] | None, option("For a table: a public list of the groups; repeatable.")] = None,
    features: Annotated[
        str | None, option("The map file from 'design'; it says what the map was chosen from.", "--features", "-f")
    ] = None,
    components: Annotated[
        int, option("For rows: largest number of components to learn later.", "--components", "-k")
    ] = 20,
    task: Annotated[Task, option("For rows: what to learn later.")] = "kmeans",
    seed: Annotated[int, option("For rows: seed of the features.", min=0, max=2**32 - 1)] = 0,
    share: Annotated[float, option("For rows: share of the budget for ranges, units and labels of columns.")] = 0.1,
    columns: Columns = None,
    category: Annotated[
        list[str] | None, option("For rows: a column of labels; NAME=a,b,c for a public list of them.")
    ] = None,
    bounds: Annotated[list[str] | None, option("For rows: public bounds of a column, NAME=LOWER,UPPER.")] = None,
    user: Annotated[str | None, option("For rows: column that says to which user a row belongs.")] = None,
    max_rows_per_user: Annotated[
        int | None, option("For rows: the largest number of rows of one user that are used.")
    ] = None,
    where: Where = None,
    format: Format = None,
    public_map: Annotated[
        bool, option("Confirm that the map was chosen without these rows, by 'design' from bounds.")
    ] = False,
    ledger: Annotated[str | None, option("File that records what was spent; written before the release.")] = None,
    dataset: Annotated[str | None, option("Name of the data in the ledger.")] = None,
    budget_epsilon: Annotated[float | None, option("Epsilon budget of each dataset, for a new ledger.")] = None,
    budget_delta: Annotated[float | None, option("Delta budget of each dataset, for a new ledger.")] = None,
    as_json: Json = False,
) -> None:
    """Add the noise that a privacy guarantee needs. The result can be shared with anybody.

    Give a sketch, or rows. For rows, the command spends a share of the budget on ranges, units and labels of the
    columns. Then it sketches the rows and releases the sketch, all under one guarantee.
    """
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
    check_output(output, *data)
    book = None if ledger is None else Ledger(ledger, budget_epsilon, budget_delta)
    sketch = data[0]
    told: dict[str, Any]
    if not holds_sketches(data):
        if group or (public_map and features is None):
            raise usage("--group and --public-map are for sketches; for rows, the command makes a map from the budget")
        if rows is not None or sample is not None:
            raise usage("--rows and --sample are for sketches")
        reading = {
            "columns": names_in(columns), "categories": categories_in(category), "bounds": bounds_in(bounds),
            "user": user, "max_rows_per_user": max_rows_per_user, "where": where, "format": format,
        }  # fmt: skip
        told, text, noisy = release_rows(
            data, features, components, task, seed, share, epsilon, delta, relation, records_per_user, book,
            dataset, public_map, {name: value for name, value in reading.items() if value is not None},
        )  # fmt: skip
        write_bytes(output, noisy.to_bytes())
        _no_ledger(book)
        if output != "-":
            left = "" if book is None or dataset is None else _left(book, dataset)
            emit({"output": output, **told}, as_json, f"{_line(output, noisy)}\n{text}{left}")
        return
    if (user, max_rows_per_user, columns, category, bounds, where, format) != (None,) * 7:
        raise usage("--columns, --category, --bounds, --user, --where and --format are for rows, but this is a sketch")
    if len(data) > 1:
        raise usage("give one sketch; 'sketchlearn merge' adds several")
    if is_table(sketch):
        if relation != "add-remove" or rows is not None:
            raise usage("tables are released with the relation add-remove: leave out --relation and --rows")
        private = release_table(
            SketchTable.load(sketch), epsilon, delta, groups=group or None, records_per_user=records_per_user,
            public_map=public_map, ledger=book, dataset=dataset,
        )  # fmt: skip
        write_bytes(output, private.to_bytes())
        _no_ledger(book)
        first = next(iter(private.values())).privacy
        assert first is not None
        told = {"output": output, "groups": private.groups, "privacy": first.to_json()}
        if output != "-":
            emit(told, as_json, f"{output}: {len(private)} groups, one guarantee for all\n{first.explain()}")
        return
    if group:
        raise usage(f"--group is for tables of sketches, {sketch} is not one")
    exact = read_sketch(sketch)
    if features is not None:
        exact = with_map(exact, features)
    noisy = release(
        exact,
        epsilon,
        delta,
        relation=relation,
        records_per_user=records_per_user,
        rows=rows,
        sample=sample,
        public_map=public_map,
        ledger=book,
        dataset=dataset,
    )
    write_bytes(output, noisy.to_bytes())
    _no_ledger(book)
    if output != "-" and noisy.privacy is not None:
        facts: dict[str, Any] = {"output": output, "privacy": noisy.privacy.to_json()}
        if book is not None and dataset is not None:
            facts["left"] = book.left(dataset)
        left = "" if book is None or dataset is None else _left(book, dataset)
        emit(facts, as_json, f"{_line(output, noisy)}\n{noisy.privacy.explain()}{left}")


def _line(output: str, noisy: Any) -> str:
    return f"{output}: {noisy.features.size} features, private"


def _no_ledger(book: Any) -> None:
    if book is None:
        note(
            "note: no ledger, so nobody adds up what was released of these rows; --ledger FILE --dataset NAME does, "
            "and refuses what exceeds a budget"
        )


def _left(book: Any, dataset: str) -> str:
    """What is left of a budget, and how what was spent adds up."""
    from sketchlearn.privacy.ledger import describe

    lines = describe(book)["datasets"].get(dataset, {}).get("arithmetic", [])
    return "\n".join([f"\nleft for {dataset}: epsilon = {book.left(dataset):.6g}", *(f"  {line}" for line in lines)])
