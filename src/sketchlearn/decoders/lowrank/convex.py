"""Accelerated projected gradient on matrices, shared by the decoders that keep one of size d x d."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.lowrank.problem import Problem


def smoothness(problem: Problem, rng: np.random.Generator) -> float:
    """Largest eigenvalue of the Hessian of the loss, by power iteration, with a margin."""
    S = rng.normal(size=(problem.dim, problem.dim))
    S = S + S.T
    value = 0.0
    for _ in range(30):
        S /= np.linalg.norm(S)
        S = problem.adjoint(problem.loss(problem.measure_matrix(S))[1])
        value = float(np.linalg.norm(S))
    return 1.05 * value


def fista(
    problem: Problem, prox: Callable[[Array], Array], step: float, start: Array, iterations: int, tolerance: float
) -> tuple[Array, int, bool]:
    """Accelerated proximal gradient with restarts (Beck and Teboulle 2009; O'Donoghue and Candes 2015)."""
    S = Y = start
    momentum = 1.0
    for i in range(1, iterations + 1):
        residual = problem.measure_matrix(Y) - problem.measurements
        new = prox(Y - step * problem.adjoint(problem.loss(residual)[1]))
        if float(np.sum((Y - new) * (new - S))) > 0:
            momentum = 1.0  # going uphill: forget the momentum
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        Y = new + (momentum - 1.0) / following * (new - S)
        moved = float(np.linalg.norm(new - S))
        S, momentum = new, following
        if moved <= tolerance * max(float(np.linalg.norm(S)), 1e-300):
            return S, i, True
    return S, iterations, False


def positive_part(S: Array, shrink: float = 0.0, rank: int | None = None) -> Array:
    """Nearest positive semi-definite matrix after lowering all eigenvalues by `shrink` and keeping `rank` of them."""
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    values = np.maximum(values - shrink, 0.0)
    if rank is not None and rank < len(values):
        values[:-rank] = 0.0
    keep = values > 0
    return np.asarray((vectors[:, keep] * values[keep]) @ vectors[:, keep].T)


def factor_of(S: Array) -> Array:
    """U with ``U U' = S``."""
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    keep = values > max(float(values[-1]), 0.0) * 1e-14
    return np.asarray((vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1])
