"""Where the pass runs: the front door :func:`sketch`, and the engines behind it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, Unpack, overload

import numpy.typing as npt

from sketchlearn.engines import dask, gpu, mpi, processes, ray, spark, threads  # noqa: F401  (they register themselves)
from sketchlearn.engines.base import OWN_ROWS, Engine, Job, engine_of, register_engine
from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.engines.progress import Report, reporting
from sketchlearn.features.base import FeatureMap, checked_map
from sketchlearn.files import locked
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import ReadOptions, Selection, Source, open_source
from sketchlearn.sources.selection import selects
from sketchlearn.sources.users import Bounded

__all__ = ["Engine", "Job", "register_engine", "sketch"]


@overload
def sketch(
    data: Any,
    features: FeatureMap,
    *,
    group_by: None = None,
    engine: Any = ...,
    workers: int | None = ...,
    progress: bool | Report | None = ...,
    on_invalid: str = ...,
    checkpoint: str | PathLike[str] | None = ...,
    checkpoint_every: float = ...,
    **reading: Unpack[ReadOptions],
) -> Sketch: ...


@overload
def sketch(
    data: Any,
    features: FeatureMap,
    *,
    group_by: str | int | npt.ArrayLike,
    engine: Any = ...,
    workers: int | None = ...,
    progress: bool | Report | None = ...,
    on_invalid: str = ...,
    checkpoint: str | PathLike[str] | None = ...,
    checkpoint_every: float = ...,
    **reading: Unpack[ReadOptions],
) -> SketchTable: ...


def sketch(
    data: Any,
    features: FeatureMap,
    *,
    group_by: str | int | npt.ArrayLike | None = None,
    engine: Any = "auto",
    workers: int | None = None,
    progress: bool | Report | None = None,
    on_invalid: str = "raise",
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    **reading: Unpack[ReadOptions],
) -> Sketch | SketchTable:
    """Sketch the rows of `data` in one pass.

    Parameters
    ----------
    data : array, memory map, path or glob, database, frame, Arrow stream, or iterable of batches
        Rows and columns; see :func:`sketchlearn.read` for the files and databases that can be read.  Batches
        may have any sizes, and be ``(rows, weights)`` pairs; generators of unknown length are fine.
        Memory-mapped arrays are read in blocks.
    features : FeatureMap
        From :func:`sketchlearn.design` or :meth:`sketchlearn.FourierFeatures.draw`.
    group_by : str or array, optional
        One sketch per value of this column (or of this array of labels): the result is a
        :class:`~sketchlearn.SketchTable`.
    engine : str, Engine, or a client of Dask, Ray or Spark
        Where the pass runs: ``"threads"`` of this process, ``"processes"`` of this machine, for files whose reading
        is slower than the sums, a ``"gpu"``, or a cluster: a Dask client (or ``"dask"``), ``"ray"``, a Spark session
        (or ``"spark"``), an MPI communicator (or ``"mpi"``).  ``"auto"`` is where the rows are, if they are on a
        cluster or on a GPU; otherwise a GPU if one is there and the work is worth it, or threads.  The bytes of the
        result don't depend on it.
    workers : int, optional
        Threads or processes; by default all cores that this process may use.  The result doesn't depend on it.
    progress : bool or callable, optional
        By default a bar if standard error is a terminal.  A callable gets (rows done, rows in all or
        None).
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity (or lie so far out, beyond 2**30 radians of phase,
        that their features would be meaningless).  Skipped rows are counted in the sketch.  Nulls are NaN.
    checkpoint : path, optional
        File that keeps position and sketch.  If it is there the pass goes on where it stood, to the same bytes
        as an uninterrupted pass, and takes in files that came since; it stays when the pass is complete, so
        that the next call reads new files only.
    checkpoint_every : float
        Seconds between two checkpoints.
    sample_weight : array, optional
        One non-negative number per row.  Weights are rounded to multiples of 2**-16; whole weights are
        exactly repetition, and rows of weight 0 are as if they weren't there.
    user : str, int or array, optional
        Column (or array) that says whose row it is: of each user at most `max_rows_per_user` rows count, chosen by a
        hash of the rows, so that the result depends on neither order nor engine.  The sketch remembers it, and
        :func:`sketchlearn.privatize` protects users instead of rows.
    max_rows_per_user : int, optional
        How many rows of one user count.
    columns, weight_column, where, query, dataset, format, dtype
        What to read; see :func:`sketchlearn.read`.  If the feature map knows the names of its columns, these
        are the columns that are read.

    Returns
    -------
    Sketch or SketchTable

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=3, size=64, scale=1.0, seed=0)
    >>> batches = (rng.normal(size=(rng.integers(1, 100), 3)) for _ in range(20))
    >>> s = sl.sketch(batches, phi)
    >>> s.features == phi, s.count > 20
    (True, True)
    """
    checked_map(features)
    _checked(engine, workers, on_invalid)
    source = open_source(data, Selection.for_map(features, group_by=group_by, **reading))
    point = None
    with nullcontext() if checkpoint is None else locked(checkpoint):
        if checkpoint is not None:
            settings = {**source.settings, "on_invalid": on_invalid}
            point, source = Checkpoint.begin(checkpoint, source, features, settings, checkpoint_every)
        return run(
            source, features, engine, workers=workers, progress=progress, on_invalid=on_invalid, checkpoint=point
        )


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
    """One pass over an open source, going on from a checkpoint that was begun; see :func:`sketch`."""
    result = summed(
        source, features, engine, workers=workers, progress=progress, on_invalid=on_invalid, checkpoint=checkpoint
    )
    most = source.max_rows_per_user
    by_content = selects(source.settings) or on_invalid == "skip" or most is not None
    marks: dict[str, Any] = {"user": source.user, "rows_per_user": most} if most is not None else {}
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
    chosen = _checked(source.home if at_home and source.home is not None else engine, workers, on_invalid)
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
    apart = isinstance(chosen, processes.ProcessEngine)
    with nullcontext(source) if most is None else Bounded(source, most, to_files=apart) as rows:
        with reporting(progress, rows.length, "sketching") as report:
            result = chosen.run(Job(rows, features, on_invalid == "skip", workers, report, checkpoint))
    if result is None:
        raise ValueError("there are no rows in the data: nothing to sketch")
    return result


def _marked(sketch: Sketch, **marks: Any) -> Sketch:
    """The sketch with what a release has to know of how its rows and its map were chosen."""
    return replace(sketch, origin=replace(sketch.origin, **marks))


def _checked(engine: Any, workers: int | None, on_invalid: str) -> Engine:
    if on_invalid not in ("raise", "skip"):
        raise ValueError(f"on_invalid={on_invalid!r}: choose 'raise' or 'skip'")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers must be a positive integer, got {workers!r}")
    return engine_of(engine)
