"""``sketchlearn sketch``: the one pass, wherever the rows are."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sketchlearn.cli.app import (
    Columns,
    Dataset,
    Debug,
    Dtype,
    Format,
    Json,
    Output,
    OutputError,
    Query,
    Where,
    check_output,
    emit,
    names_in,
    note,
    read_features,
    read_sketch,
    reason,
    usage,
    write_bytes,
)  # fmt: skip
from sketchlearn.cli.pilot import PILOT_ROWS, announce, designed
from sketchlearn.engines import sketch
from sketchlearn.engines.checkpoint import digest, read_checkpoint
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sources import Selection, Source, open_source
from sketchlearn.sources.paths import find_files, identity


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("sketch")
    def sketch_(
        data: Annotated[
            list[str], typer.Argument(help="Files, globs, folders, a database URL, or - for standard input.")
        ],
        output: Output,
        features: Annotated[
            str | None, typer.Option("--features", "-f", help="Feature map from design, or a sketch that has it.")
        ] = None,
        components: Annotated[
            int, typer.Option("--components", "-k", help="Components to be learned later (sizes the features).")
        ] = 20,
        task: Annotated[str, typer.Option("--task", help="What will be learned: kmeans, gmm, ...")] = "kmeans",
        seed: Annotated[int, typer.Option("--seed", help="Seed of the features.")] = 0,
        standardize: Annotated[
            bool, typer.Option("--standardize", help="Offset and spread per column, kept in the feature map.")
        ] = False,
        columns: Columns = None,
        weight_column: Annotated[
            str | None, typer.Option("--weight-column", help="Column of row weights (name or number).")
        ] = None,
        group_by: Annotated[
            str | None, typer.Option("--group-by", help="One sketch per value of this column; writes Parquet.")
        ] = None,
        where: Where = None,
        query: Query = None,
        dataset: Dataset = None,
        format: Format = None,
        dtype: Dtype = None,
        skip_invalid: Annotated[
            bool, typer.Option("--skip-invalid", help="Leave out rows with NaN, infinity or nulls, and count them.")
        ] = False,
        append: Annotated[bool, typer.Option("--append", help="Add the rows to the sketch in the output.")] = False,
        follow: Annotated[bool, typer.Option("--follow", help="Wait for new files until interrupted.")] = False,
        poll: Annotated[float, typer.Option("--poll", help="Seconds between two looks for new files.")] = 5.0,
        idle: Annotated[
            float | None, typer.Option("--idle", help="End --follow after so many seconds without new files.")
        ] = None,
        restart: Annotated[bool, typer.Option("--restart", help="Forget an earlier, unfinished run.")] = False,
        checkpoint_every: Annotated[
            float, typer.Option("--checkpoint-every", help="Seconds between two checkpoints; 0 for none.")
        ] = 30.0,
        workers: Annotated[int | None, typer.Option("--workers", help="Threads; by default all cores.")] = None,
        progress: Annotated[
            bool | None, typer.Option("--progress/--no-progress", help="By default if this is a terminal.")
        ] = None,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Sketch rows in one pass; run the same command again to go on after an interruption."""
        for name, value in (("-k", components), ("--workers", workers)):
            if value is not None and value < 1:
                raise usage(f"{name} must be at least 1, got {value}")
        if poll <= 0 or checkpoint_every < 0:
            raise usage("--poll must be positive and --checkpoint-every not negative")
        stdin = data == ["-"]
        for chosen, other, problem in (
            (follow, stdin or query is not None, "--follow watches files, not a stream or a database"),
            (follow, output == "-", "--follow rewrites its output: give a file"),
            (append, output == "-", "--append needs a file as output"),
            (append, features is not None, "--append takes the features of the output: leave out --features"),
            (idle is not None, not follow, "--idle is for --follow"),
            ("-" in data, len(data) > 1, "standard input (-) can't be combined with files"),
            (output == "-", as_json, "-o - and --json would both write to standard output"),
        ):
            if chosen and other:
                raise usage(problem)
        check_output(output)
        options: dict[str, Any] = {
            "columns": names_in(columns), "weight_column": weight_column, "group_by": group_by, "where": where,
            "query": query, "dataset": dataset, "format": format, "dtype": dtype,
        }  # fmt: skip
        job = _Job(
            data, output, options, checkpoint_every, skip_invalid, workers, progress, append, follow, restart, stdin
        )
        given = None if features is None else read_features(features)
        try:
            result = (
                job.follow(poll, idle, given, (components, task, seed, standardize))
                if follow
                else job.once(given, (components, task, seed, standardize))
            )
        except KeyboardInterrupt:
            if job.point is not None and job.point.exists():
                note(f"stopped; run the same command again to go on (the position is in {job.point})")
            raise
        if output != "-":
            _tell(result, output, as_json)


def _tell(result: Sketch | SketchTable, output: str, as_json: bool) -> None:
    if isinstance(result, SketchTable):
        facts = {"output": output, "groups": len(result), "rows": _rows(result), "skipped": _skipped(result)}
        emit(facts, as_json, f"{output}: {len(result):,} groups, {_counted(result)}")
        return
    facts = {
        "output": output, "rows": result.count, "skipped": result.skipped,
        "columns": list(result.features.columns or ()) or result.features.dim, "features": result.features.size,
    }  # fmt: skip
    emit(facts, as_json, f"{output}: {_counted(result)}")


def _rows(result: Sketch | SketchTable) -> int | float:
    return result.count if isinstance(result, Sketch) else sum(result.counts.values())


def _skipped(result: Sketch | SketchTable) -> int:
    return result.skipped if isinstance(result, Sketch) else sum(s.skipped for s in result.values())


def _counted(result: Sketch | SketchTable) -> str:
    skipped = f", {_skipped(result):,} invalid rows left out" if _skipped(result) else ""
    return f"{_rows(result):,} rows, {result.features.size} features{skipped}"


_Design = tuple[int, str, int, bool]
"""Components, task, seed, whether to standardise."""
_BASE = "sketch to append to"
_DESIGN = "design of the feature map"


def _same_file(path: str, other: str | Path) -> bool:
    return Path(path).exists() and Path(other).exists() and Path(path).samefile(other)


def _without(written: Sketch | SketchTable, done: Sketch | SketchTable) -> Sketch | SketchTable:
    """What was there before the rows of an unfinished run were added."""
    if isinstance(written, Sketch) and isinstance(done, Sketch):
        return written - done
    assert isinstance(written, SketchTable)
    assert isinstance(done, SketchTable)
    return SketchTable({label: s - done[label] if label in done else s for label, s in written.items()})


@dataclass
class _Job:
    """One run of the verb."""

    data: list[str]
    output: str
    options: dict[str, Any]
    every: float
    skip_invalid: bool
    workers: int | None
    progress: bool | None
    append: bool
    following: bool
    restart: bool
    stdin: bool
    point: Path | None = None
    base: Sketch | SketchTable | None = None
    base_mark: str | None = None
    design_mark: str | None = None

    def __post_init__(self) -> None:
        plain = self.output != "-" and (Path(self.output).is_file() or not Path(self.output).exists())
        if plain and (self.every or self.following):
            self.point = Path(self.output + ".checkpoint")
        if self.restart and self.point is not None:
            self.point.unlink(missing_ok=True)
        if self.append and Path(self.output).exists():
            self._append_to(self._written())

    def _written(self) -> Sketch | SketchTable:
        """What the output holds."""
        with Path(self.output).open("rb") as file:
            table = file.read(4) == b"PAR1"
        grouped = self.options["group_by"] is not None
        if table != grouped:
            raise ValueError(
                f"{self.output} holds {'a table of groups' if table else 'one sketch'}: "
                + ("say which column has the groups with --group-by" if table else "leave out --group-by")
            )
        return SketchTable.load(self.output) if table else read_sketch(self.output)

    def _append_to(self, written: Sketch | SketchTable) -> None:
        """Add to what was written, unless the rows of the unfinished run are in it already."""
        self.base, self.base_mark = written, digest(written)
        if self.point is not None and self.point.exists():
            earlier = read_checkpoint(self.point)
            if earlier.sketch is not None and earlier.result == self.base_mark:
                self.base, self.base_mark = _without(written, earlier.sketch), earlier.settings.get(_BASE)

    def once(self, given: FeatureMap | None, design: _Design) -> Sketch | SketchTable:
        """One pass, written at the end."""
        phi = self._known(given, design)
        source = self._open(self.data, phi)
        if not source.parts or not all(p.identity for p in source.parts):
            self.point = None  # rows that may come in another order can't be resumed
        if phi is None:
            phi = self._designed(source, design)
        result = self._pass(source, phi)
        self._write(result)
        return result

    def follow(
        self, poll: float, idle: float | None, given: FeatureMap | None, design: _Design
    ) -> Sketch | SketchTable:
        """One pass after the other over what is new; files count when they no longer grow."""
        phi = self._known(given, design)
        before: set[str] = set()
        taken: list[str] = []
        result: Sketch | SketchTable | None = None
        quiet = time.monotonic()
        while True:
            busy = False
            try:
                settled, before = self._settled(before)
                if [p for p in settled if p not in taken]:
                    busy = True
                    taken += [p for p in settled if p not in taken]
                    source = self._open(taken, phi)
                    if phi is None:
                        phi = self._designed(source, design)
                    result = self._pass(source, phi)
                    self._write(result)
                    note(f"{self.output}: {_rows(result):,} rows from {len(taken)} files")
                    quiet, busy = time.monotonic(), False
                if idle is not None and time.monotonic() - quiet > idle:
                    if result is None:
                        raise ValueError(f"no file came within {idle:g} seconds")
                    return result
                time.sleep(poll)
            except KeyboardInterrupt:  # the way to end it, unless it comes amidst a pass
                if busy or result is None:
                    raise
                return result

    def _settled(self, before: set[str]) -> tuple[list[str], set[str]]:
        """Files that no longer grow, and the identities of all files to compare with the next time."""
        try:
            paths = find_files(self.data, self.options["format"]).paths
        except FileNotFoundError:
            paths = ()
        paths = tuple(p for p in paths if not self._own(p))
        return [p for p in paths if identity(p) in before], {identity(p) for p in paths}

    def _open(self, data: list[str], phi: FeatureMap | None) -> Source:
        # tables may have more columns than the map was made for
        selection = Selection.of(**self.options, expected=phi.columns if phi else None)
        if self.stdin:
            return open_source(sys.stdin.buffer, selection)
        source = open_source(data if len(data) > 1 else data[0], selection)
        for path in {*data, *(str(part.identity).rsplit(" ", 2)[0] for part in source.parts)}:
            if self._own(path):
                raise OutputError(f"{self.output}: {path} is one of the inputs; give another file as output")
        return source

    def _own(self, path: str) -> bool:
        """True for the files that this run writes."""
        return _same_file(path, self.output) or (self.point is not None and _same_file(path, self.point))

    def _known(self, given: FeatureMap | None, design: _Design) -> FeatureMap | None:
        """The map that was given, or of the sketch that is appended to, or of the unfinished run."""
        if given is None and self.base is None:
            k, task, seed, standardize = design
            self.design_mark = f"-k {k} --task {task} --seed {seed}" + " --standardize" * standardize
        if self.point is not None and self.point.exists():
            earlier = read_checkpoint(self.point)
            assert earlier.sketch is not None
            before, now = earlier.settings.get(_DESIGN), self.design_mark
            if before is not None and now is not None and before != now:
                raise ValueError(
                    f"{self.point}: the unfinished run had {before}, this one has {now}: run it as it was, or begin "
                    "again with --restart"
                )
            self.design_mark = before
            note(f"going on after {earlier.rows:,} rows (--restart begins again)")
            return given or earlier.sketch.features
        return given if self.base is None else self.base.features

    def _designed(self, source: Source, design: _Design) -> FeatureMap:
        phi = designed(source.sample(PILOT_ROWS, design[2]), source.names, *design)
        announce(phi)
        return phi

    def _pass(self, source: Source, phi: FeatureMap) -> Sketch | SketchTable:
        options: dict[str, Any] = {}
        if self.point is not None:
            options = {"checkpoint": self.point, "checkpoint_every": self.every or 30.0}
            marks = {_BASE: self.base_mark, _DESIGN: self.design_mark}
            known = {name: mark for name, mark in marks.items() if mark is not None}
            source = replace(source, settings={**source.settings, **known})
        try:
            done: Sketch | SketchTable = self._run(source, phi, options)
        except OSError as error:
            if self.point is not None and error.filename == str(self.point):
                raise OutputError(f"{self.point}: can't be written: {reason(error)}") from error
            raise
        return done if self.base is None else self.base + done  # type: ignore[operator]

    def _run(self, source: Source, phi: FeatureMap, options: dict[str, Any]) -> Sketch | SketchTable:
        result: Sketch | SketchTable = sketch(
            source, phi, workers=self.workers, progress=self.progress,
            on_invalid="skip" if self.skip_invalid else "raise", **options,
        )  # fmt: skip
        return result

    def _write(self, result: Sketch | SketchTable) -> None:
        if not _rows(result):
            if self.point is not None:
                self.point.unlink(missing_ok=True)
            skipped = _skipped(result)
            raise ValueError(
                f"all {skipped:,} rows hold NaN, infinity or nulls: nothing to sketch"
                if skipped
                else "the weights of all rows are 0: nothing to sketch"
            )
        if self.append and self.point is not None:
            # a crash between the output and the end of the run must not add the rows twice
            point = read_checkpoint(self.point)
            assert point.sketch is not None
            point.result = digest(result)
            point.save(point.rows, point.sketch)
        write_bytes(self.output, result.to_bytes())
        if self.point is not None and not self.following:
            self.point.unlink(missing_ok=True)
