"""Learn from one small, mergeable sketch of the data instead of from its rows."""

from sketchlearn.decoders import Mixture, Solution, Sweep, decode, sweep
from sketchlearn.design import design
from sketchlearn.engines import sketch
from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features import FeatureMap, FourierFeatures, QuadraticFeatures
from sketchlearn.kernels import active_kernel
from sketchlearn.learn import CompressiveKMeans, CompressiveKMedians, CompressivePCA, CompressiveRegression
from sketchlearn.sketch import Sketch, load, merge

__version__ = "0.1.0"

__all__ = [
    "CompressiveKMeans",
    "CompressiveKMedians",
    "CompressivePCA",
    "CompressiveRegression",
    "FeatureMap",
    "FourierFeatures",
    "IncompatibleSketchError",
    "Mixture",
    "QuadraticFeatures",
    "Sketch",
    "SketchFileError",
    "Solution",
    "Sweep",
    "active_kernel",
    "decode",
    "design",
    "load",
    "merge",
    "sketch",
    "sweep",
]
