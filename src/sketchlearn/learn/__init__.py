"""The estimators, in scikit-learn's shape, and models as files.

Estimators are loaded when first named: a process that only reads models doesn't load scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sketchlearn.models import Model, register_model

if TYPE_CHECKING:
    from sketchlearn.learn.anomaly import CompressiveAnomalyDetector
    from sketchlearn.learn.base import SketchEstimator
    from sketchlearn.learn.cca import CompressiveCCA
    from sketchlearn.learn.classifier import CompressiveClassifier
    from sketchlearn.learn.clustering import CompressiveKMeans, CompressiveKMedians
    from sketchlearn.learn.dictionary import CompressiveDictionaryLearning
    from sketchlearn.learn.discriminant import CompressiveLDA
    from sketchlearn.learn.ica import CompressiveICA
    from sketchlearn.learn.mixture import CompressiveGaussianMixture
    from sketchlearn.learn.mixture_regression import CompressiveMixtureRegressor
    from sketchlearn.learn.nmf import CompressiveNMF
    from sketchlearn.learn.pca import CompressivePCA
    from sketchlearn.learn.regression import CompressiveLinearRegression
    from sketchlearn.learn.spectral import CompressiveSpectralClustering
    from sketchlearn.learn.stable import CompressiveStableMixture
    from sketchlearn.learn.subspaces import CompressiveSubspaces
    from sketchlearn.learn.verifier import CompressiveVerifier

__all__ = [
    "CompressiveAnomalyDetector", "CompressiveCCA", "CompressiveClassifier", "CompressiveDictionaryLearning",
    "CompressiveGaussianMixture", "CompressiveICA", "CompressiveKMeans", "CompressiveKMedians", "CompressiveLDA",
    "CompressiveLinearRegression",
    "CompressiveMixtureRegressor", "CompressiveNMF", "CompressivePCA", "CompressiveSpectralClustering",
    "CompressiveStableMixture", "CompressiveSubspaces", "CompressiveVerifier", "Model", "SketchEstimator",
    "register_model",
]  # fmt: skip

_MODULES = {
    "CompressiveCCA": "cca",
    "CompressiveAnomalyDetector": "anomaly",
    "CompressiveClassifier": "classifier",
    "CompressiveDictionaryLearning": "dictionary",
    "CompressiveGaussianMixture": "mixture",
    "CompressiveICA": "ica",
    "CompressiveKMeans": "clustering",
    "CompressiveKMedians": "clustering",
    "CompressiveLDA": "discriminant",
    "CompressiveMixtureRegressor": "mixture_regression",
    "CompressiveNMF": "nmf",
    "CompressivePCA": "pca",
    "CompressiveLinearRegression": "regression",
    "CompressiveSpectralClustering": "spectral",
    "CompressiveStableMixture": "stable",
    "CompressiveSubspaces": "subspaces",
    "CompressiveVerifier": "verifier",
    "SketchEstimator": "base",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"sketchlearn.learn.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'sketchlearn.learn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
