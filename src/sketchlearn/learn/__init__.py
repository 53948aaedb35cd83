"""The estimators, in scikit-learn's shape."""

from sketchlearn.learn.clustering import CompressiveKMeans, CompressiveKMedians
from sketchlearn.learn.pca import CompressivePCA
from sketchlearn.learn.regression import CompressiveRegression

__all__ = ["CompressiveKMeans", "CompressiveKMedians", "CompressivePCA", "CompressiveRegression"]
