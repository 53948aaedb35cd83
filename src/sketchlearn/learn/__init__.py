"""Estimators in scikit-learn's shape."""

from sketchlearn.learn.pca import CompressivePCA
from sketchlearn.learn.regression import CompressiveRegression

__all__ = ["CompressivePCA", "CompressiveRegression"]
