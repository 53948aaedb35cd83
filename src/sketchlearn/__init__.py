"""Learn from one small, mergeable sketch of the data instead of from its rows."""

from sketchlearn.engines import sketch
from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features import FeatureMap, FourierFeatures, QuadraticFeatures
from sketchlearn.kernels import active_kernel
from sketchlearn.learn import CompressivePCA, CompressiveRegression
from sketchlearn.sketch import Sketch, load, merge

__version__ = "0.1.0"

__all__ = [
    "CompressivePCA",
    "CompressiveRegression",
    "FeatureMap",
    "FourierFeatures",
    "IncompatibleSketchError",
    "QuadraticFeatures",
    "Sketch",
    "SketchFileError",
    "active_kernel",
    "load",
    "merge",
    "sketch",
]
