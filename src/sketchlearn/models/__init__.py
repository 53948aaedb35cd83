"""What decoders return: one frozen class per task, with certificate, words, prediction and a JSON file."""

from sketchlearn.models.anomaly import AnomalyModel
from sketchlearn.models.base import MODELS, Model, register_model
from sketchlearn.models.cca import CCAModel
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.models.dictionary import DictionaryModel
from sketchlearn.models.family import FamilyModel
from sketchlearn.models.file import FORMAT, VERSION, Reader
from sketchlearn.models.ica import ICAModel
from sketchlearn.models.kmeans import ClusterModel
from sketchlearn.models.mixture_regression import MixtureRegressionModel
from sketchlearn.models.mixtures import GaussianMixtureModel, StableMixtureModel
from sketchlearn.models.nmf import NMFModel
from sketchlearn.models.pca import PCAModel
from sketchlearn.models.regression import RegressionModel
from sketchlearn.models.spectral import SpectralModel
from sketchlearn.models.subspaces import SubspacesModel
from sketchlearn.models.table import Column, Table

__all__ = [
    "FORMAT", "MODELS", "VERSION", "AnomalyModel", "CCAModel", "ClassifierModel", "ClusterModel", "Column",
    "DictionaryModel", "FamilyModel", "GaussianMixtureModel", "ICAModel", "MixtureRegressionModel", "Model",
    "NMFModel", "PCAModel", "Reader", "RegressionModel", "SpectralModel", "StableMixtureModel", "SubspacesModel",
    "Table", "register_model",
]  # fmt: skip
