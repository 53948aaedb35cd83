"""Where the pass runs."""

from sketchlearn.engines.local import sketch

__all__ = ["sketch"]
