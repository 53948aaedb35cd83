"""The front door of the pass: rows to a sketch, with a feature map that is designed where none is given."""

from __future__ import annotations

from contextlib import nullcontext
from os import PathLike
from typing import Any, Unpack, overload

import numpy.typing as npt

from sketchlearn.designs.front import design_source
from sketchlearn.engines import checked_engine, run
from sketchlearn.engines.base import OWN_ROWS
from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.engines.progress import Report
from sketchlearn.features.base import FeatureMap, checked_map
from sketchlearn.files import locked
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import ReadOptions, Selection, open_source


@overload
def sketch(
    data: Any,
    features: FeatureMap | None = None,
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
    features: FeatureMap | None = None,
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
    features: FeatureMap | None = None,
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
    features : FeatureMap, optional
        From :func:`sketchlearn.design` or :meth:`sketchlearn.FourierFeatures.draw`.  Without one a map is designed from
        the rows, as ``sl.design(data)`` does: for k-means with up to 20 clusters.  The sketch says so, and
        ``sketch.features`` is the map for other rows that are to be added.
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
    sample : float, optional
        Take each row with this probability, by coins of the operating system's generator that nobody knows; another
        pass takes others.  The sketch remembers it, and :func:`sketchlearn.privatize` counts with it (``sample=``).
    encoder : Encoder, optional
        Rules for categories and missing values, from :meth:`sketchlearn.Encoder.fit`; part of the map that is designed.
        A map that has one brings it along.
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
    >>> print(sl.sketch(rng.normal(size=(500, 3))).summary()["map"])
    multi-scale frequencies for k-means with 20 components in 3 dimensions
    """
    checked_engine(engine, workers, on_invalid, progress)
    if features is not None:
        checked_map(features)
    source = open_source(data, Selection.for_map(features, group_by=group_by, **reading))
    if features is None:
        features = design_source(source, encoder=reading.get("encoder")).chosen_from(OWN_ROWS)
    point = None
    with nullcontext() if checkpoint is None else locked(checkpoint):
        if checkpoint is not None:
            settings = {**source.settings, "on_invalid": on_invalid}
            point, source = Checkpoint.begin(checkpoint, source, features, settings, checkpoint_every)
        return run(
            source, features, engine, workers=workers, progress=progress, on_invalid=on_invalid, checkpoint=point
        )
