"""Learn from one small, mergeable sketch of the data instead of from its rows."""

from sketchlearn.engines import sketch
from sketchlearn.exceptions import IncompatibleSketchError, MissingPackageError, SketchFileError, SourceError
from sketchlearn.features import FeatureMap, FourierFeatures
from sketchlearn.kernels import active_kernel
from sketchlearn.sketch import Comparison, Sketch, SketchTable, compare, load, merge
from sketchlearn.sources import Source, read

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "FeatureMap",
    "FourierFeatures",
    "IncompatibleSketchError",
    "MissingPackageError",
    "Sketch",
    "SketchFileError",
    "SketchTable",
    "Source",
    "SourceError",
    "active_kernel",
    "compare",
    "load",
    "merge",
    "read",
    "sketch",
]
