"""The Sketch value, its algebra and its file."""

from sketchlearn.sketch.file import load
from sketchlearn.sketch.value import Sketch, merge

__all__ = ["Sketch", "load", "merge"]
