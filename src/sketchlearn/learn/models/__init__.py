"""What was learned, as a value and as a JSON file: one class a task."""

from sketchlearn.learn.models.anomaly import AnomalyModel
from sketchlearn.learn.models.base import MODELS, Model, register_model
from sketchlearn.learn.models.cca import CCAModel
from sketchlearn.learn.models.classifier import ClassifierModel
from sketchlearn.learn.models.file import FORMAT, VERSION, Reader
from sketchlearn.learn.models.ica import ICAModel
from sketchlearn.learn.models.kmeans import KMeansModel
from sketchlearn.learn.models.mixture_regression import MixtureRegressionModel
from sketchlearn.learn.models.mixtures import GaussianMixtureModel, StableMixtureModel
from sketchlearn.learn.models.pca import PCAModel
from sketchlearn.learn.models.regression import RegressionModel
from sketchlearn.learn.models.spectral import SpectralModel
from sketchlearn.learn.models.subspaces import SubspacesModel
from sketchlearn.learn.models.table import Column, Table
from sketchlearn.learn.models.verifier import VerifierModel

__all__ = [
    "FORMAT",
    "MODELS",
    "VERSION",
    "AnomalyModel",
    "CCAModel",
    "ClassifierModel",
    "Column",
    "GaussianMixtureModel",
    "ICAModel",
    "KMeansModel",
    "MixtureRegressionModel",
    "Model",
    "PCAModel",
    "Reader",
    "RegressionModel",
    "SpectralModel",
    "StableMixtureModel",
    "SubspacesModel",
    "Table",
    "VerifierModel",
    "register_model",
]
