"""Decoders of quadratic sketches: positive matrices of low rank from random quadratic measurements."""

from sketchlearn.decoders.lowrank.problem import DenseDirections, Directions, Estimate, Problem
from sketchlearn.decoders.lowrank.solution import (
    DECODERS,
    LowRankSolution,
    decode_second_moment,
    default_rank,
    full_matrix,
)

__all__ = [
    "DECODERS",
    "DenseDirections",
    "Directions",
    "Estimate",
    "LowRankSolution",
    "Problem",
    "decode_second_moment",
    "default_rank",
    "full_matrix",
]
