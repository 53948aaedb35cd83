"""What one row becomes."""

from sketchlearn.features.base import FeatureMap
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.radial import (
    AdaptedLaw,
    FoldedLaw,
    GaussianLaw,
    MixedLaw,
    MultiscaleLaw,
    RadialLaw,
    WeightedLaw,
)

__all__ = [
    "AdaptedLaw",
    "FeatureMap",
    "FoldedLaw",
    "FourierFeatures",
    "GaussianLaw",
    "MixedLaw",
    "MultiscaleLaw",
    "QuadraticFeatures",
    "RadialLaw",
    "WeightedLaw",
]
