"""Where the pass runs: the engines, and :func:`run`, which picks one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from sketchlearn.accepts import NOTHING, PROGRESS, whole
from sketchlearn.engines import dask, gpu, mpi, processes, ray, spark, threads  # noqa: F401  (they register themselves)
from sketchlearn.engines.base import Engine, Job, engine_of, register_engine
from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.engines.progress import Report, reporting
from sketchlearn.features.base import OWN_ROWS, FeatureMap
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import Source
from sketchlearn.sources.sampling import checked_share, sampled
from sketchlearn.sources.selection import selects
from sketchlearn.sources.users import Bounded

__all__ = ["Engine", "Job", "checked_engine", "register_engine", "run"]


def run(
    source: Source,
    features: FeatureMap,
    engine: Any = "auto",
    *,
    workers: int | None = None,
    progress: bool | Report | None = None,
    on_invalid: str = "raise",
    checkpoint: Checkpoint | None = None,
) -> Sketch | SketchTable:
    """One pass over an open source, going on from a checkpoint that was begun; see :func:`sketchlearn.sketch`."""
    result = summed(
        source, features, engine, workers=workers, progress=progress, on_invalid=on_invalid, checkpoint=checkpoint
    )
    most = source.max_rows_per_user
    by_content = selects(source.settings) or on_invalid == "skip" or most is not None
    marks: dict[str, Any] = {"user": source.user, "rows_per_user": most} if most is not None else {}
    if source.share is not None:
        marks["sampled"] = float(source.share)
    if features.provenance == OWN_ROWS:
        marks["own_map"] = True
    if isinstance(result, SketchTable):
        return SketchTable({label: _marked(s, by_content=True, **marks) for label, s in result.items()}, most)
    if by_content:
        marks["by_content"] = True
    return _marked(result, **marks) if marks else result


def summed(
    source: Source,
    features: FeatureMap,
    engine: Any = "auto",
    *,
    workers: int | None = None,
    progress: bool | Report | None = None,
    on_invalid: str = "raise",
    checkpoint: Checkpoint | None = None,
) -> Sketch | SketchTable:
    """:func:`run` without the marks of how rows were chosen: for who keeps sums only."""
    at_home = isinstance(engine, str) and engine == "auto"
    chosen = checked_engine(
        source.home if at_home and source.home is not None else engine, workers, on_invalid, progress
    )
    if at_home and source.home is None and gpu.worth_it(source, features):
        chosen = gpu.GpuEngine()
    wanted = features.input_columns
    if wanted and source.names and source.names != wanted:
        raise ValueError(
            f"the columns of the data are {', '.join(source.names)}, those of the feature map {', '.join(wanted)}"
        )
    most = source.max_rows_per_user
    if most is not None and checkpoint is not None:
        raise ValueError("a pass that bounds the rows of each user can't be resumed: leave out the checkpoint")
    if source.share is not None:
        if checkpoint is not None:
            raise ValueError("a pass that samples rows can't be resumed: leave out the checkpoint")
        if source.home is not None or not isinstance(chosen, threads.ThreadEngine | processes.ProcessEngine):
            raise ValueError("a pass that samples rows runs in threads or processes of this machine")
        source = sampled(source, checked_share(source.share))
    apart = isinstance(chosen, processes.ProcessEngine)
    if chosen.bounds_users(source):
        most = None
    with nullcontext(source) if most is None else Bounded(source, most, to_files=apart) as rows:
        with reporting(progress, rows.length, "sketching") as report:
            result = chosen.run(Job(rows, features, on_invalid == "skip", workers, report, checkpoint))
    if result is None:
        raise ValueError("there are no rows in the data: nothing to sketch")
    return result


def _marked(sketch: Sketch, **marks: Any) -> Sketch:
    """The sketch with what a release has to know of how its rows and its map were chosen."""
    return replace(sketch, origin=replace(sketch.origin, **marks))


def checked_engine(engine: Any, workers: int | None, on_invalid: str, progress: Any = None) -> Engine:
    """The engine of a name, once all options of a pass make sense."""
    PROGRESS.check("progress", progress)
    if on_invalid not in ("raise", "skip"):
        raise ValueError(f"on_invalid={on_invalid!r}: choose 'raise' or 'skip'")
    (whole() | NOTHING).check("workers", workers)
    return engine_of(engine)
