"""What decoders return, by the names that they use: a model is the solution of its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    "said",
]


def said(
    task: str,
    decoder: str,
    value: float,
    floor: float,
    judged: tuple[Code, str],
    rounds: int = 0,
    trace: Sequence[Mapping[str, Any]] | None = None,
    ratio: float | None = None,
) -> dict[str, Any]:
    """The certificate of a model, as its fields: misfit and noise floor, code and verdict, rounds and decisions."""
    return {
        "task": task,
        "decoder": decoder,
        "residual": value,
        "noise_floor": floor,
        "ratio": value / floor if ratio is None else ratio,
        "code": judged[0],
        "verdict": judged[1],
        "iterations": rounds,
        "trace": trace or [],
    }
