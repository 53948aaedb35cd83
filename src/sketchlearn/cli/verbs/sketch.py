"""``sketchlearn sketch``: make a sketch of rows, in one pass."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sketchlearn.cli.help import Task
from sketchlearn.cli.inputs import read_features
from sketchlearn.cli.options import TEXT, Encode, Json, Missing, Output, option, verb
from sketchlearn.cli.outputs import check_output, emit, note, usage, write_bytes
from sketchlearn.cli.wording import joined
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.features.base import FeatureMap
    from sketchlearn.features.encoder import Encoder
    from sketchlearn.sketches import Sketch, SketchTable
    from sketchlearn.sources import Selection, Source


@verb(
    "sketch 'data/*.parquet' -o all.sketch",
    "sketch people.csv --encode --standardize -o all.sketch   # with categories and gaps",
    "sketch tuesday.parquet --append -o all.sketch",
    "sketch data.parquet -f map.json --group-by shop -o shops.parquet",
)
def sketch_(
    data: Annotated[list[str], typer.Argument(help="Files, globs, folders, a database URL, or - for standard input.")],
    output: Output,
    features: Annotated[
        str | None, option("Feature map: a file from 'design', or a sketch.", "--features", "-f")
    ] = None,
    components: Annotated[int, option("Largest number of components to learn later.", "--components", "-k")] = 20,
    task: Annotated[Task, option("What to learn later.")] = "kmeans",
    seed: Annotated[int, option("Seed of the features.", min=0, max=2**32 - 1)] = 0,
    standardize: Annotated[bool, option("Standardise the columns; offset and spread become part of the map.")] = False,
    projection: Annotated[
        int | None, option("For hundreds of columns: replace them by this many random projections.")
    ] = None,
    encode: Encode = False,
    missing: Missing = None,
    weight_column: Annotated[str | None, option("Column of row weights (name or number).")] = None,
    group_by: Annotated[str | None, option("One sketch per value of this column; writes Parquet.")] = None,
    user: Annotated[
        str | None, option("Column that says to which user a row belongs (with --max-rows-per-user).")
    ] = None,
    max_rows_per_user: Annotated[int | None, option("The largest number of rows of one user that are used.")] = None,
    sample: Annotated[float | None, option("Use each row with this probability, by secret coin flips.")] = None,
    *,
    reading: dict[str, Any],
    skip_invalid: Annotated[bool, option("Leave out rows with NaN, infinity or nulls, and count them.")] = False,
    append: Annotated[bool, option("Add the rows to the sketch in the output.")] = False,
    force: Annotated[bool, option("With --append: add rows that the output has already.")] = False,
    follow: Annotated[bool, option("Wait for new files until interrupted.")] = False,
    poll: Annotated[float, option("Seconds between checks for new files.")] = 5.0,
    idle: Annotated[float | None, option("Stop --follow after this many seconds without new files.")] = None,
    restart: Annotated[bool, option("Discard an earlier, unfinished run.")] = False,
    checkpoint_every: Annotated[float, option("Seconds between checkpoints; 0 for none.")] = 30.0,
    wait: Annotated[float, option("Seconds to wait for another run that writes the same output.")] = 60.0,
    workers: Annotated[int | None, option("Threads; by default all cores.")] = None,
    engine: Annotated[Literal["auto", "threads", "processes", "gpu"], option("Where to compute.")] = "auto",
    progress: Annotated[
        bool | None, option("Show progress; by default only on a terminal.", "--progress/--no-progress")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sketch rows in one pass. To continue after an interruption, run the same command again."""
    from sketchlearn.cli.pilot import fitted_encoder, missing_in_map
    from sketchlearn.engines.append import Design, Options, Run, once
    from sketchlearn.engines.follow import follow_files
    from sketchlearn.files import locked
    from sketchlearn.sources import Selection

    for name, value in (("-k", components), ("--workers", workers), ("--projection", projection)):
        if value is not None and value < 1:
            raise usage(f"{name} must be at least 1, got {value}")
    if poll <= 0 or checkpoint_every < 0 or wait < 0:
        raise usage("--poll must be positive, --checkpoint-every and --wait not negative")
    stdin = data == ["-"]
    for chosen, other, problem in (
        (follow, stdin or reading["query"] is not None, "--follow watches files, not a stream or a database"),
        (follow, output == "-", "--follow rewrites its output: give a file"),
        (append, output == "-", "--append needs a file as output"),
        (force, not append, "--force is for --append"),
        (idle is not None, not follow, "--idle is for --follow"),
        (user is None, max_rows_per_user is not None, "--max-rows-per-user needs --user"),
        (user is not None, max_rows_per_user is None, "--user needs --max-rows-per-user"),
        (sample is not None, append or follow, "--sample draws anew in every run: not with --append or --follow"),
        (user is not None, append or follow, "--user needs all rows at once: not with --append or --follow"),
        ("-" in data, len(data) > 1, "standard input (-) can't be combined with files"),
        (output == "-", as_json, "-o - and --json would both write to standard output"),
        (encode, features is not None, "--encode makes a map of its own: leave out --features"),
    ):
        if chosen and other:
            raise usage(problem)
    if missing is not None and features is not None:
        raise usage("--missing belongs to the map: leave out --features, or design that map with --missing")
    gaps = missing_in_map(missing, encode)
    check_output(output)
    given = None if features is None else read_features(features)
    encoder = None
    if encode:
        names, apart = reading.pop("columns"), (weight_column, group_by, user)
        text = {name: reading[name] for name in TEXT}
        encoder = fitted_encoder(data, names, missing or "mean", apart=apart, format=reading["format"], text=text)
    design = Design(
        lambda source: _designed(source, components, task, seed, standardize, projection, encoder, gaps),
        f"-k {components} --task {task} --seed {seed}"
        + " --standardize" * standardize
        + " --encode" * encode
        + ("" if missing is None else f" --missing {missing}")
        + ("" if projection is None else f" --projection {projection}"),
    )
    options = Options("skip" if skip_invalid else "raise", engine, workers, progress)

    def selection(phi: FeatureMap | None) -> Selection:
        # tables may have more columns than the map was made for
        return Selection.for_map(
            phi, weight_column=weight_column, group_by=group_by, user=user, max_rows_per_user=max_rows_per_user,
            sample=sample, encoder=encoder if phi is None else None, **reading,
        )  # fmt: skip

    plain = output != "-" and (Path(output).is_file() or not Path(output).exists())
    with locked(output, wait) if plain else nullcontext():
        run = Run(
            None if output == "-" else Path(output), group_by is not None, append, restart, follow,
            0.0 if user is not None or sample is not None else checkpoint_every, force,
            write=lambda content: write_bytes(output, content),
            say=lambda *parts: note(joined(parts)),
        )  # fmt: skip
        try:
            if follow:
                result = follow_files(run, data, selection, given, design, options, poll=poll, idle=idle)
            else:
                rows: Any = sys.stdin.buffer if stdin else data if len(data) > 1 else data[0]
                result = once(run, rows, selection, given, design, options)
        except KeyboardInterrupt:
            if run.point is not None and run.point.exists():
                note(f"stopped; run the same command again to continue (the position is in {run.point})")
            raise
    if output != "-":
        _tell(result, output, as_json)


def _designed(
    source: Source,
    components: int,
    task: str,
    seed: int,
    standardize: bool,
    projection: int | None,
    encoder: Encoder | None,
    missing: str | None,
) -> FeatureMap:
    from sketchlearn.cli.pilot import announce, designed

    phi = designed(source, components, task, seed, standardize, projection, encoder, missing)
    announce(phi)
    return phi


def _tell(result: Sketch | SketchTable, output: str, as_json: bool) -> None:
    from sketchlearn.engines.append import total_rows, total_skipped
    from sketchlearn.sketches import SketchTable

    if isinstance(result, SketchTable):
        facts = {"output": output, "groups": len(result), "rows": total_rows(result), "skipped": total_skipped(result)}
        emit(facts, as_json, f"{output}: {counted(len(result), 'group')}, {_counted(result)}")
        return
    facts = {
        "output": output, "rows": result.count, "skipped": result.skipped,
        "columns": list(result.features.columns or ()) or result.features.dim, "features": result.features.size,
    }  # fmt: skip
    emit(facts, as_json, f"{output}: {_counted(result)}")


def _counted(result: Sketch | SketchTable) -> str:
    from sketchlearn.engines.append import total_rows, total_skipped

    skipped = f", {counted(total_skipped(result), 'invalid row')} left out" if total_skipped(result) else ""
    return f"{counted(total_rows(result), 'row')}, {result.features.size} features{skipped}"
