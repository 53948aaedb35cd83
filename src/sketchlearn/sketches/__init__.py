"""The Sketch value, its algebra and its file."""

from sketchlearn.sketches.accumulator import Accumulator
from sketchlearn.sketches.file import load
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch, merge

__all__ = ["Accumulator", "Sketch", "SketchTable", "load", "merge"]
