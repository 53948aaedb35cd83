"""Greedy pursuit: one column more at a time, along the direction that lowers the loss most, then all refitted.

The orthogonal matching pursuit of compressive clustering, with rank-one matrices for atoms.
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.decoders.lowrank.burer_monteiro import descend, leading
from sketchlearn.decoders.lowrank.problem import Estimate, Problem


def greedy(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 1
) -> Estimate:
    """Rank-one pursuit with joint refits; `starts` random subspaces are tried for each new direction."""
    U = np.zeros((problem.dim, 0))
    isotropic, iterations = 0.0, 0
    estimate = Estimate(U, 0.0, 0, True)
    for column in range(rank):
        model = problem.measure(U) if column else np.zeros(problem.size)
        slope = problem.loss(problem.measurements - model - isotropic)[1]
        direction, gain = max((_steepest(problem, slope, rng) for _ in range(max(1, starts))), key=lambda c: c[1])
        length = math.sqrt(max(gain / problem.curvature, 1e-6 * problem.scale))
        U = np.column_stack([U, direction * length])
        last = column == rank - 1
        budget = max_iterations if last else max(20, max_iterations // 10)
        estimate, _ = descend(problem, U, isotropic, budget)
        U, isotropic = estimate.factor, estimate.isotropic
        iterations += estimate.iterations
    return Estimate(U, isotropic, iterations, estimate.converged)


def _steepest(problem: Problem, slope: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Leading eigenvector of ``sum_j slope_j u_j u_j'`` and its eigenvalue, by a short subspace iteration."""
    # eigenvalues of either sign: a shift of the size of the negative ones makes the largest dominant
    shift = 2.0 * math.sqrt(float(np.mean(slope**2)) / (problem.size * problem.dim))
    values, vectors = leading(problem, slope, 6, 16, rng, shift)
    return vectors[:, -1], float(values[-1])
