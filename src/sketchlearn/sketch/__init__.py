"""The Sketch value, its algebra and its file."""

from sketchlearn.sketch.file import load
from sketchlearn.sketch.table import SketchTable
from sketchlearn.sketch.value import Sketch, merge

__all__ = ["Sketch", "SketchTable", "load", "merge"]
