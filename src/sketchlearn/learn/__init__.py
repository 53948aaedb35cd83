"""The estimators, in scikit-learn's shape."""

from sketchlearn.learn.clustering import CompressiveKMeans, CompressiveKMedians

__all__ = ["CompressiveKMeans", "CompressiveKMedians"]
