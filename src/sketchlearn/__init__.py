"""Learn from one small, mergeable sketch of the data instead of from its rows."""

from sketchlearn.decoders import Mixture, Solution, Sweep, decode, sweep
from sketchlearn.design import design
from sketchlearn.engines import sketch
from sketchlearn.exceptions import IncompatibleSketchError, MissingPackageError, SketchFileError, SourceError
from sketchlearn.features import FeatureMap, FourierFeatures, QuadraticFeatures
from sketchlearn.kernels import active_kernel
from sketchlearn.learn import (
    CompressiveGaussianMixture,
    CompressiveKMeans,
    CompressiveKMedians,
    CompressivePCA,
    CompressiveRegression,
    CompressiveStableMixture,
)
from sketchlearn.sketch import Comparison, Sketch, SketchTable, compare, load, merge
from sketchlearn.sources import Source, read

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "CompressiveGaussianMixture",
    "CompressiveKMeans",
    "CompressiveKMedians",
    "CompressivePCA",
    "CompressiveRegression",
    "CompressiveStableMixture",
    "FeatureMap",
    "FourierFeatures",
    "IncompatibleSketchError",
    "MissingPackageError",
    "Mixture",
    "QuadraticFeatures",
    "Sketch",
    "SketchFileError",
    "SketchTable",
    "Solution",
    "Source",
    "SourceError",
    "Sweep",
    "active_kernel",
    "compare",
    "decode",
    "design",
    "load",
    "merge",
    "read",
    "sketch",
    "sweep",
]
