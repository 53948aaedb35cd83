"""Where rows come from."""

from sketchlearn.sources import arrays  # noqa: F401  (registers itself)
from sketchlearn.sources.base import Batch, Source, open_source, register

__all__ = ["Batch", "Source", "open_source", "register"]
