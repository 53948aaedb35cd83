"""The entry point of the pass: rows to a sketch, with a feature map that is designed where none is given."""

from __future__ import annotations

from contextlib import nullcontext
from os import PathLike
from typing import Any, Unpack, overload

import numpy.typing as npt

from sketchlearn.designs.front import design_source
from sketchlearn.engines import checked_engine, run
from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.engines.progress import Report
from sketchlearn.features.base import OWN_ROWS, FeatureMap, checked_map
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
        Rows and columns; see :func:`sketchlearn.read` for files and databases. Batches can have any size, and can be
        ``(rows, weights)`` pairs. Generators of unknown length work. Memory-mapped arrays are read in blocks.
    features : FeatureMap, optional
        A map from :func:`sketchlearn.design` or :meth:`sketchlearn.FourierFeatures.draw`. Without one, a map is
        designed from the rows, as ``sl.design(data)`` does, for k-means with up to 20 clusters. The sketch says so. Use
        ``sketch.features`` as the map for other rows that you want to add.
    group_by : str or array, optional
        Make one sketch per value of this column (or of this array of labels). The result is a
        :class:`~sketchlearn.SketchTable`.
    engine : str, Engine, or a client of Dask, Ray or Spark
        Where the pass runs: in ``"threads"`` of this process, in ``"processes"`` of this machine (for files that take
        longer to read than to sum), on a ``"gpu"``, or on a cluster: a Dask client (or ``"dask"``), ``"ray"``, a Spark
        session (or ``"spark"``), an MPI communicator (or ``"mpi"``). ``"auto"`` uses the cluster or GPU that holds the
        rows. Otherwise it uses a GPU if there is one and the work is large enough, or threads. The bytes of the result
        don't depend on the engine.
    workers : int, optional
        Threads or processes; by default all cores that this process may use.  The result doesn't depend on it.
    progress : bool or callable, optional
        Show a progress bar; by default if standard error is a terminal. A callable gets (rows done, total rows or
        None).
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity, or values so large (beyond 2**30 radians of phase) that their
        features would be meaningless. Skipped rows are counted in the sketch. Nulls count as NaN.
    checkpoint : path, optional
        A file that keeps the position and the sums. If it exists, the pass continues from there, with the same bytes as
        an uninterrupted pass, and adds files that are new. The checkpoint is kept when the pass is complete, so the
        next call reads only new files.
    checkpoint_every : float
        Seconds between two checkpoints.
    sample_weight : array, optional
        One non-negative number per row. Weights are rounded to multiples of 2**-16. A whole weight means exactly that
        many copies of the row, and a row of weight 0 is left out.
    user : str, int or array, optional
        The column (or array) that says to which user a row belongs. At most `max_rows_per_user` rows of each user are
        used. A hash of the rows chooses them, so the result doesn't depend on the order or the engine. The sketch
        remembers this, and :func:`sketchlearn.privatize` then protects users instead of rows.
    max_rows_per_user : int, optional
        The largest number of rows of one user that are used.
    sample : float, optional
        Use each row with this probability. The coin flips come from the operating system and are secret; another pass
        chooses other rows. The sketch remembers the probability, and :func:`sketchlearn.privatize` takes it into
        account (``sample=``).
    encoder : Encoder, optional
        Rules for categories and missing values, from :meth:`sketchlearn.Encoder.fit`. They become part of the map that
        is designed. A map that is given has its own encoder.
    columns, weight_column, where, query, dataset, format, dtype
        What to read; see :func:`sketchlearn.read`. If the map has column names, these columns are read.

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
