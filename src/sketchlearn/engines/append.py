"""Runs whose result is a file: they go on after an interruption, add to what is there, and never add rows twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from sketchlearn import engines, files
from sketchlearn.engines.checkpoint import Checkpoint, digest, read_checkpoint
from sketchlearn.engines.progress import Report
from sketchlearn.exceptions import Advice, DuplicateRowsError, IncompatibleSketchError, InputError, Option
from sketchlearn.features.base import OWN_ROWS, FeatureMap
from sketchlearn.sketches import Sketch, SketchTable, load
from sketchlearn.sources import ReadOptions, Selection, Source, open_source

_BASE = "sketch to append to"
_DESIGN = "design of the feature map"


class OutputError(Advice, files.WriteError):
    """The result of a run can't be written where it should."""


@dataclass(frozen=True)
class Design:
    """How to get a feature map where none is given.

    Attributes
    ----------
    draw : callable
        From a source, of which it may take a sample, to a map.
    mark : str
        Its settings, in words: an unfinished run is not gone on with if they are others.
    """

    draw: Callable[[Source], FeatureMap]
    mark: str


@dataclass(frozen=True)
class Options:
    """How the passes of a run are made; see :func:`sketchlearn.sketch`."""

    on_invalid: str = "raise"
    engine: Any = "auto"
    workers: int | None = None
    progress: bool | Report | None = None


@dataclass
class Run:
    """A result on its way into a file, which is to be locked meanwhile (:func:`sketchlearn.files.locked`).

    `output`: the file; None if the result goes elsewhere. `grouped`: the result is a table. `append`: add to what the
    file holds. `restart`: forget an earlier, unfinished run. `keep`: keep the checkpoint when the run is complete, so
    that the next one reads new files only. `every`: seconds between two checkpoints; 0 for none (unless they are kept).
    `force`: add rows that the file has already. `write`: writes the bytes of the result, by default to `output`. `say`:
    gets the parts of a line for people now and then (text, :class:`~sketchlearn.exceptions.Option`).
    """

    output: Path | None
    grouped: bool = False
    append: bool = False
    restart: bool = False
    keep: bool = False
    every: float = 30.0
    force: bool = False
    write: Callable[[bytes], None] | None = None
    say: Callable[..., None] = field(default=lambda *parts: None)
    point: Path | None = field(init=False, default=None)
    """Where the checkpoint is; None if there is none."""

    def __post_init__(self) -> None:
        self._base: Sketch | SketchTable | None = None
        self._marks: dict[str, str] = {}
        self._saved: Checkpoint | None = None
        self._read: tuple[int, ...] | None = None
        if self.output is not None:
            self.output = files.followed(self.output)  # the checkpoint is next to the file, not to a link
        plain = self.output is not None and (self.output.is_file() or not self.output.exists())
        if plain and (self.every or self.keep):
            self.point = Path(f"{self.output}.checkpoint")
        if self.restart and self.point is not None:
            self.point.unlink(missing_ok=True)
        if self.point is not None and self.point.exists():
            self._saved = read_checkpoint(self.point)
        if self.append and self.output is not None and self.output.exists():
            self._append_to(self._written())

    def _written(self) -> Sketch | SketchTable:
        """What the output holds."""
        assert self.output is not None
        self._read = _state_of(self.output)
        with self.output.open("rb") as file:
            table = file.read(4) == b"PAR1"
        if table != self.grouped:
            raise InputError(
                f"{self.output} holds {'a table of groups' if table else 'one sketch'}: "
                + ("say which column has the groups with " if table else "leave out "),
                Option("group_by"),
            )
        return SketchTable.load(self.output) if table else load(self.output)

    def _append_to(self, written: Sketch | SketchTable) -> None:
        """Add to what was written, unless the rows of the unfinished run are in it already."""
        self._base, mark = written, digest(written)
        earlier = self._saved
        if earlier is not None and earlier.sketch is not None and earlier.result == mark:
            self._base, before = without(written, earlier.sketch), earlier.settings.get(_BASE)
            if before is not None:
                self._marks[_BASE] = before
        else:
            self._marks[_BASE] = mark

    def features(self, given: FeatureMap | None, design: Design | None) -> FeatureMap | None:
        """The map that was given, or of the sketch that is appended to, or of the unfinished run."""
        now = design.mark if design is not None and given is None and self._base is None else None
        if now is not None:
            self._marks[_DESIGN] = now
        earlier = self._saved
        if self._base is not None and given is not None and given != self._base.features:
            raise IncompatibleSketchError(
                f"{self.output} has another feature map than the one that was given: "
                f"{self._base.features.difference(given)}"
            )
        if earlier is None:
            return given if self._base is None else self._base.features
        assert earlier.sketch is not None
        before = earlier.settings.get(_DESIGN)
        if before is not None and now is not None and before != now:
            raise InputError(
                f"{self.point}: the unfinished run had {before}, this one has {now}: run it with the same options, or "
                "start over with ",
                Option("restart", True),
            )
        self._marks.pop(_DESIGN, None)
        if before is not None:
            self._marks[_DESIGN] = before
        self.say(f"going on after {earlier.rows:,} rows (", Option("restart", True), " starts over)")
        return given or earlier.sketch.features

    def owns(self, path: str | PathLike[str]) -> bool:
        """True for the files that this run writes."""
        return any(own is not None and _same_file(path, own) for own in (self.output, self.point))

    def opened(self, data: Any, selection: Selection) -> Source:
        """The source; no file of it may be one that this run writes."""
        source = open_source(data, selection)
        given = data if isinstance(data, list | tuple) else [data]
        paths = {str(v) for v in given if isinstance(v, str | PathLike)}
        for path in {*paths, *(str(part.identity).rsplit(" ", 2)[0] for part in source.parts)}:
            if self.owns(path):
                raise OutputError(f"{self.output}: {path} is one of the inputs; give another file as output")
        return source

    def sketch(self, source: Source, features: FeatureMap, options: Options) -> Sketch | SketchTable:
        """One pass, on top of what is appended to; the position is saved."""
        point = None
        if self.point is not None:
            settings = {**source.settings, "on_invalid": options.on_invalid, **self._marks}
            point, source = Checkpoint.begin(self.point, source, features, settings, self.every or 30.0, self._saved)
        done = engines.run(
            source, features, options.engine, workers=options.workers, progress=options.progress,
            on_invalid=options.on_invalid, checkpoint=point,
        )  # fmt: skip
        self._saved = point
        if self._base is not None and not self.force and holds(self._base, done):
            if self.point is not None:
                self.point.unlink(missing_ok=True)  # another file may come next
            raise DuplicateRowsError(str(self.output), total_rows(done))
        if isinstance(self._base, Sketch) and isinstance(done, Sketch):
            return self._base.tracked() + done
        return done if self._base is None else self._base + done  # type: ignore[operator]

    def finish(self, result: Sketch | SketchTable) -> None:
        """Write the result."""
        rows, skipped = total_rows(result), total_skipped(result)
        if not rows:
            if self.point is not None:
                self.point.unlink(missing_ok=True)
            raise ValueError(
                f"all {skipped:,} rows hold NaN, infinity or nulls: nothing to sketch"
                if skipped
                else "the weights of all rows are 0: nothing to sketch"
            )
        if self.append and self._saved is not None and self._saved.sketch is not None:
            # a crash between the output and the end of the run must not add the rows twice
            self._saved.result = digest(result)
            self._saved.save(self._saved.rows, self._saved.sketch)
        data = result.to_bytes()
        if self._read is not None and self.output is not None and self._read != _state_of(self.output):
            raise OutputError(
                f"{self.output}: was changed by another program during this run, so nothing was written; start over "
                "with ",
                Option("restart", True),
            )
        if self.write is not None:
            self.write(data)
        elif self.output is not None:
            files.write(self.output, data)
        if self._read is not None and self.output is not None:
            self._read = _state_of(self.output)
        if self.point is not None and not self.keep:
            self.point.unlink(missing_ok=True)

    def without_position(self) -> None:
        """Rows that may come in another order can't be resumed."""
        self.point = self._saved = None


def total_rows(result: Sketch | SketchTable) -> int | float:
    """Rows of a sketch, or of all groups of a table."""
    return result.count if isinstance(result, Sketch) else sum(result.counts.values())


def total_skipped(result: Sketch | SketchTable) -> int:
    """Invalid rows that were left out, in all."""
    return result.skipped if isinstance(result, Sketch) else sum(s.skipped for s in result.values())


def holds(written: Sketch | SketchTable, done: Sketch | SketchTable) -> bool:
    """Whether rows are in a file already, as far as its record tells: of a table, the rows of every group."""
    if isinstance(written, Sketch) and isinstance(done, Sketch):
        record = written.tracked().parts
        return bool(not done.is_empty and record is not None and record.knows(done))
    if isinstance(written, SketchTable) and isinstance(done, SketchTable):
        groups = [(label, part) for label, part in done.items() if not part.is_empty]
        return bool(groups) and all(label in written and holds(written[label], part) for label, part in groups)
    return False


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Changes whenever somebody writes the file; None if it isn't there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _same_file(path: str | PathLike[str], other: Path) -> bool:
    return Path(path).exists() and other.exists() and Path(path).samefile(other)


def without(written: Sketch | SketchTable, done: Sketch | SketchTable) -> Sketch | SketchTable:
    """What is left of sketches without rows that were added to them."""
    if isinstance(written, Sketch) and isinstance(done, Sketch):
        return replace(written - done, parts=written.parts.undone(done) if written.parts else None)
    assert isinstance(written, SketchTable)
    assert isinstance(done, SketchTable)
    return SketchTable({label: s - done[label] if label in done else s for label, s in written.items()})


def once(
    run: Run,
    data: Any,
    selection: Callable[[FeatureMap | None], Selection],
    features: FeatureMap | None,
    design: Design | None,
    options: Options,
) -> Sketch | SketchTable:
    """One pass, written at the end; `selection` is what to read for a map (None if it is yet to be designed)."""
    phi = run.features(features, design)
    source = run.opened(data, selection(phi))
    if not source.parts or not all(part.identity for part in source.parts):
        run.without_position()
    result = run.sketch(source, drawn(phi, design, source), options)
    run.finish(result)
    return result


def drawn(phi: FeatureMap | None, design: Design | None, source: Source) -> FeatureMap:
    """The map, designed now if it isn't known."""
    if phi is not None:
        return phi
    if design is None:
        raise ValueError("a new file needs features: give a feature map, or say how to design one")
    return design.draw(source).chosen_from(OWN_ROWS)


def append(
    data: Any,
    output: str | PathLike[str],
    features: FeatureMap | None = None,
    *,
    group_by: str | int | None = None,
    design: Design | None = None,
    restart: bool = False,
    force: bool = False,
    checkpoint_every: float = 30.0,
    wait: float = 60.0,
    options: Options | None = None,
    **reading: Unpack[ReadOptions],
) -> Sketch | SketchTable:
    """Add rows to the sketch in a file, each exactly once even if the run is killed and run again.

    Parameters
    ----------
    data
        Rows; see :func:`sketchlearn.sketch`.
    output : path
        The file of the sketch (with `group_by`, of a table of sketches). It is created if it doesn't exist.
    features : FeatureMap, optional
        The map for a new file. An existing file has its own map, which must be the same.
    group_by : str or int, optional
        Column with the group of each row.
    design : Design, optional
        How to design the map for a new file.
    restart : bool
        Forget an earlier, unfinished run.
    force : bool
        Add rows even if the file already has them. Otherwise they are refused
        (:class:`sketchlearn.DuplicateRowsError`), so that running a job again changes nothing.
    checkpoint_every : float
        Seconds between two checkpoints, which are next to the output; 0 for none.
    wait : float
        Seconds to wait for another run that writes the same output, before
        :class:`~sketchlearn.files.LockedError`.
    options : Options, optional
        Engine, workers, progress, invalid rows.
    **reading
        What to read; see :func:`sketchlearn.read`.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "all.sketch"
    ...     for day in range(3):
    ...         total = sl.append(np.full((10, 2), float(day)), file, phi)
    ...     sl.load(file).count
    30
    """

    def selection(phi: FeatureMap | None) -> Selection:
        return Selection.for_map(phi, group_by=group_by, **reading)

    with files.locked(output, wait):
        run = Run(Path(output), group_by is not None, append=True, restart=restart, every=checkpoint_every, force=force)
        return once(run, data, selection, features, design, options or Options())
