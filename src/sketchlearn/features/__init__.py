"""What one row becomes."""

from sketchlearn.features.base import FeatureMap
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.radial import (
    AdaptedLaw,
    FoldedLaw,
    GaussianLaw,
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
    "MultiscaleLaw",
    "QuadraticFeatures",
    "RadialLaw",
    "WeightedLaw",
]
