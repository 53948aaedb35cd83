"""Least squares with a penalty on the nuclear norm (the trace, for positive matrices), lowered until it fits.

The convex relaxation of the rank constraint; the penalty goes down by a factor until the residual has reached a
thousandth of the measurements or stops falling.
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.decoders.lowrank.convex import factor_of, fista, positive_part, smoothness
from sketchlearn.decoders.lowrank.problem import Estimate, Problem


def nuclear(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 1
) -> Estimate:
    """Continuation over the penalty, each from the last solution; the answer is truncated to `rank` later."""
    del rank, starts
    step = 1.0 / smoothness(problem, rng)
    size = math.sqrt(float(np.mean(problem.balanced(problem.measurements) ** 2)))
    slope = problem.adjoint(problem.loss(problem.measurements)[1])
    penalty = 0.3 * float(np.linalg.eigvalsh((slope + slope.T) / 2.0)[-1])
    S = np.zeros((problem.dim, problem.dim))
    used, last, converged = 0, math.inf, False
    while used < max_iterations:
        budget = min(60, max_iterations - used)
        shrink = step * penalty
        S, iterations, converged = fista(problem, lambda Y, s=shrink: positive_part(Y, s), step, S, budget, 1e-6)  # type: ignore[misc]
        used += iterations
        rms = math.sqrt(2.0 * problem.loss(problem.measure_matrix(S) - problem.measurements)[0])
        if rms <= 1e-3 * size or (converged and rms > 0.98 * last):
            converged = True
            break
        last, penalty = rms, penalty * 0.4
    return Estimate(factor_of(S), 0.0, used, converged)
