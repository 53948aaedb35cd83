"""Learn from one small, mergeable sketch of the data instead of from its rows."""

import importlib
from typing import TYPE_CHECKING, Any

from sketchlearn.decoders import Comparison, Mixture, Solution, Sweep, compare, decode, sweep
from sketchlearn.designs import design
from sketchlearn.engines import sketch
from sketchlearn.exceptions import (
    IncompatibleSketchError,
    MissingPackageError,
    ModelFileError,
    SketchFileError,
    SourceError,
)
from sketchlearn.features import FeatureMap, FourierFeatures, QuadraticFeatures
from sketchlearn.kernels import active_kernel
from sketchlearn.sketches import Accumulator, Sketch, SketchTable, load, merge
from sketchlearn.sources import Source, read

if TYPE_CHECKING:
    from sketchlearn import plots
    from sketchlearn.learn import (
        CompressiveGaussianMixture,
        CompressiveKMeans,
        CompressiveKMedians,
        CompressivePCA,
        CompressiveRegression,
        CompressiveStableMixture,
        Model,
    )

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
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
    "Model",
    "ModelFileError",
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
    "plots",
    "read",
    "sketch",
    "sweep",
]


def __getattr__(name: str) -> Any:
    # estimators load scikit-learn, which a process that only sketches can do without
    if name == "plots":
        return importlib.import_module("sketchlearn.plots")
    if name in __all__:
        return getattr(importlib.import_module("sketchlearn.learn"), name)
    raise AttributeError(f"module 'sketchlearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
