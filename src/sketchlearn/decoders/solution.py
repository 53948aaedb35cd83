"""What decoders return, by the names that they use: a model is the solution of its task."""

from sketchlearn.models.family import FamilyModel as FamilySolution
from sketchlearn.models.kmeans import ClusterModel as ClusterSolution
from sketchlearn.models.mixtures import GaussianMixtureModel as MixtureSolution
from sketchlearn.models.mixtures import StableMixtureModel as StableSolution
from sketchlearn.models.solution import Code, LowRankSolution, Solution

__all__ = [
    "ClusterSolution",
    "Code",
    "FamilySolution",
    "LowRankSolution",
    "MixtureSolution",
    "Solution",
    "StableSolution",
]
