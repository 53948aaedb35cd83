"""What one row becomes."""

from sketchlearn.features.adapted import AdaptedFeatures
from sketchlearn.features.base import FeatureMap, register
from sketchlearn.features.characteristic import CharacteristicMap
from sketchlearn.features.completed import CompletedFeatures
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.encoder import Category, Encoder, Number
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histogram import HistogramFeatures
from sketchlearn.features.kernel_laws import CauchyLaw, LaplaceLaw, MaternLaw, register_law
from sketchlearn.features.monitoring import MonitoringFeatures
from sketchlearn.features.operator import DenseOperator, Operator
from sketchlearn.features.pairwise import PairwiseFeatures
from sketchlearn.features.projection import Projection
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.quartic import QuarticFeatures
from sketchlearn.features.radial import (
    AdaptedLaw,
    FoldedLaw,
    GaussianLaw,
    MixedLaw,
    MultiscaleLaw,
    RadialLaw,
    WeightedLaw,
)
from sketchlearn.features.second_moment import SecondMomentMap
from sketchlearn.features.split import SplitFeatures

__all__ = [
    "AdaptedFeatures", "AdaptedLaw", "Category", "CauchyLaw", "CharacteristicMap", "CompletedFeatures", "DenseOperator",
    "EmbeddedFeatures", "Encoder", "FeatureMap", "FoldedLaw", "FourierFeatures", "GaussianLaw", "HistogramFeatures",
    "LaplaceLaw", "MaternLaw", "MixedLaw", "MonitoringFeatures", "MultiscaleLaw", "Number", "Operator",
    "PairwiseFeatures", "Projection", "QuadraticFeatures", "QuarticFeatures", "RadialLaw", "SecondMomentMap",
    "SplitFeatures", "WeightedLaw", "register", "register_law",
]  # fmt: skip
