"""Learn from one small, mergeable sketch of the data instead of from its rows."""

from typing import TYPE_CHECKING, Any

from sketchlearn.decoders import Comparison, Mixture, Solution, Sweep, compare, decode, sweep
from sketchlearn.design import design
from sketchlearn.engines import sketch
from sketchlearn.exceptions import IncompatibleSketchError, MissingPackageError, SketchFileError, SourceError
from sketchlearn.features import FeatureMap, FourierFeatures, QuadraticFeatures
from sketchlearn.kernels import active_kernel
from sketchlearn.sketch import Sketch, SketchTable, load, merge
from sketchlearn.sources import Source, read

if TYPE_CHECKING:
    from sketchlearn.learn import (
        CompressiveGaussianMixture,
        CompressiveKMeans,
        CompressiveKMedians,
        CompressivePCA,
        CompressiveRegression,
        CompressiveStableMixture,
    )

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


def __getattr__(name: str) -> Any:
    # estimators load scikit-learn, which a process that only sketches can do without
    if name.startswith("Compressive") and name in __all__:
        from sketchlearn import learn

        return getattr(learn, name)
    raise AttributeError(f"module 'sketchlearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
