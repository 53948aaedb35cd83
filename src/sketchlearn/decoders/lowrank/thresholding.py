"""Iterative hard thresholding: gradient steps of optimal length, each followed by the best positive rank-r part.

Singular value projection (Jain, Meka and Dhillon 2010) with the step of normalised hard thresholding.  It relies on
the measurements being close to an isometry, for which the weighing of the mean in the loss is essential.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.lowrank.convex import factor_of, positive_part
from sketchlearn.decoders.lowrank.problem import Estimate, Problem


def thresholding(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 1
) -> Estimate:
    """Deterministic: starts at zero (`rng` and `starts` have nothing to decide)."""
    del rng, starts
    S = np.zeros((problem.dim, problem.dim))
    value, slope = problem.loss(-problem.measurements)
    trust = 1.0
    for i in range(1, max_iterations + 1):
        gradient = problem.adjoint(slope)
        along = gradient if i == 1 else _tangent(S, gradient, rank)
        bent = 2.0 * problem.loss(problem.measure_matrix(along))[0]
        step = trust * float(np.sum(along * along)) / max(bent, 1e-300)
        while True:
            new = positive_part(S - step * gradient, rank=rank)
            new_value, new_slope = problem.loss(problem.measure_matrix(new) - problem.measurements)
            if new_value <= value or step * problem.curvature < 1e-6:
                break
            step *= 0.5
        moved = float(np.linalg.norm(new - S))
        done = moved <= 1e-8 * max(float(np.linalg.norm(new)), 1e-300) or new_value > value
        if new_value <= value:
            S, value, slope = new, new_value, new_slope
        if done:
            return Estimate(factor_of(S), 0.0, i, True)
    return Estimate(factor_of(S), 0.0, max_iterations, False)


def _tangent(S: np.ndarray, G: np.ndarray, rank: int) -> np.ndarray:
    """Part of G within the rows and columns of the leading eigenvectors of S."""
    U = np.linalg.eigh(S)[1][:, -rank:]
    left = U @ (U.T @ G)
    return np.asarray(left + left.T - U @ (U.T @ left.T))
