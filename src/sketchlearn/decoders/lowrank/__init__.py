"""Decoders of quadratic sketches: positive matrices of low rank from random quadratic measurements."""

from sketchlearn.decoders.lowrank.problem import Estimate, Problem
from sketchlearn.decoders.lowrank.solution import (
    METHODS,
    certified,
    decode_second_moment,
    default_rank,
    full_matrix,
    standardised,
)
from sketchlearn.decoders.solution import LowRankSolution

__all__ = [
    "METHODS",
    "Estimate",
    "LowRankSolution",
    "Problem",
    "certified",
    "decode_second_moment",
    "default_rank",
    "full_matrix",
    "standardised",
]
