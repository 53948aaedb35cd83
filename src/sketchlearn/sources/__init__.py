"""Where rows come from.

A kind of source is a function that knows its kind of data and returns a :class:`Source` of :class:`Batch` values;
:func:`register` makes it known.
"""

from sketchlearn.sources import (  # noqa: F401  (they register themselves)
    arrays,
    dask,
    device,
    frames,
    ipc,
    lakes,
    parquet,
    ray,
    spark,
    sql,
    stores,
    text,
)
from sketchlearn.sources.base import Batch, Part, Source, open_source, read, register
from sketchlearn.sources.selection import ReadOptions, Selection

__all__ = ["Batch", "Part", "ReadOptions", "Selection", "Source", "open_source", "read", "register"]
