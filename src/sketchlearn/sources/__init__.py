"""Where rows come from."""

from sketchlearn.sources import arrays, frames, ipc, parquet, sql, stores, text  # noqa: F401  (they register themselves)
from sketchlearn.sources.base import Batch, Selection, Source, open_source, read, register

__all__ = ["Batch", "Selection", "Source", "open_source", "read", "register"]
