"""Least squares over all positive semi-definite matrices: convex, no rank to choose, d x d memory.

Program (42) of Gribonval et al.; with complex rank-one measurements it has recovery guarantees (Kabanava, Kueng,
Rauhut and Terstiege 2016).
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.lowrank.convex import factor_of, fista, positive_part, smoothness
from sketchlearn.decoders.lowrank.problem import Estimate, Problem


def positive(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 1
) -> Estimate:
    """The whole solution, of any rank: it is truncated later (`rank`) and has one minimum value (`starts`)."""
    del rank, starts
    step = 1.0 / smoothness(problem, rng)
    zero = np.zeros((problem.dim, problem.dim))
    S, iterations, converged = fista(problem, positive_part, step, zero, max_iterations, 1e-7)
    return Estimate(factor_of(S), 0.0, iterations, converged)
