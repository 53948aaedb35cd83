"""The estimators, in scikit-learn's shape."""

from sketchlearn.learn.clustering import CompressiveKMeans, CompressiveKMedians
from sketchlearn.learn.mixture import CompressiveGaussianMixture
from sketchlearn.learn.model import Model
from sketchlearn.learn.pca import CompressivePCA
from sketchlearn.learn.regression import CompressiveRegression
from sketchlearn.learn.stable import CompressiveStableMixture

__all__ = [
    "CompressiveGaussianMixture",
    "CompressiveKMeans",
    "CompressiveKMedians",
    "CompressivePCA",
    "CompressiveRegression",
    "CompressiveStableMixture",
    "Model",
]
