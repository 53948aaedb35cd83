"""Burer-Monteiro: the matrix as ``U U' + t I``, U of r columns, fitted by L-BFGS from several starts.

The isotropic part t stands for everything beyond rank r: measured by random directions, the tail of the spectrum
is nearly a constant, and fitting it keeps it out of U.  Nothing of size d x d is ever formed.  (Burer and Monteiro,
Math. Programming 95, 2003; for private sketches Chatalic 2020 reports that random starts are better than tuned ones.)
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize

from sketchlearn.arrays import Array
from sketchlearn.decoders.lowrank.problem import Estimate, Problem


def burer_monteiro(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 3
) -> Estimate:
    """Best of several fits: one from a spectral start, the others from random ones."""
    best: Estimate | None = None
    best_loss = math.inf
    # no other start is needed up to 25 tolerances: a tenth of the sampling noise, by default
    good = 25.0 * problem.tolerance * math.sqrt(float(np.mean(problem.balanced(problem.measurements) ** 2)))
    iterations = 0
    for start in range(max(1, starts)):
        if start == 0:
            U = spectral_start(problem, rank, rng)
        else:
            U = rng.normal(size=(problem.dim, rank)) * math.sqrt(problem.scale / (rank * problem.dim))
        estimate, loss = descend(problem, U, 0.0 if start else None, max_iterations)
        iterations += estimate.iterations
        if best is not None and abs(loss - best_loss) <= 0.02 * best_loss:
            # two starts agree: what remains is misfit, not a bad local minimum
            best = estimate if loss < best_loss else best
            break
        if loss < best_loss:
            best, best_loss = estimate, loss
        if math.sqrt(2.0 * best_loss) <= good:
            break
    assert best is not None
    return Estimate(best.factor, best.isotropic, iterations, best.converged)


def spectral_start(problem: Problem, rank: int, rng: np.random.Generator) -> Array:
    """Leading eigenvectors of ``sum_j y_j u_j u_j'`` by subspace iteration, with debiased eigenvalues."""
    y = problem.measurements
    if problem.has_trace:
        # positive weights keep the matrix positive; what is subtracted is part of the trace term
        y = y - 0.9 * float(y.min())
    values, vectors = leading(problem, y, rank + 8, 9, rng)
    # E sum y u u' / m = (2 S + tr S I) / (d (d + 2))
    trace_part = float(y.mean()) / (problem.dim + 2.0) if problem.has_trace else 0.0
    top = np.argsort(values)[::-1][:rank]
    estimate = np.maximum((values[top] - trace_part) / problem.curvature, 1e-3 * problem.scale / rank)
    return np.asarray(vectors[:, top] * np.sqrt(estimate))


def leading(
    problem: Problem, v: Array, count: int, steps: int, rng: np.random.Generator, shift: float = 0.0
) -> tuple[Array, Array]:
    """Rising eigenvalues, and vectors, of ``sum_j v_j u_j u_j' / m`` by subspace iteration (shifted if of any sign)."""
    Q = np.linalg.qr(rng.normal(size=(problem.dim, min(problem.dim, count))))[0]
    for _ in range(steps - 1):
        Q = np.linalg.qr(problem.adjoint_times(v, Q) + shift * Q)[0]
    image = problem.adjoint_times(v, Q)
    values, vectors = np.linalg.eigh((Q.T @ image + image.T @ Q) / 2.0)
    return values, Q @ vectors


def descend(
    problem: Problem, U: Array, isotropic: float | None, max_iterations: int, fit_isotropic: bool = True
) -> tuple[Estimate, float]:
    """L-BFGS on U and the root of the isotropic part, from a given point."""
    unit = math.sqrt(problem.scale) if problem.scale > 0 else 1.0
    fit_isotropic = fit_isotropic and problem.has_trace
    shape = U.shape
    y = problem.measurements / unit**2
    level = max(float(np.mean(problem.balanced(y) ** 2)), 1e-300)
    # a step in the isotropic part moves all measurements alike: d times more than the others, on average
    step = 1.0 / math.sqrt(problem.dim)

    def objective(x: Array) -> tuple[float, Array]:
        factor, t = x[:-1].reshape(shape), x[-1] * step
        projected = problem.operator.forward(factor.T)
        residual = problem.of_lengths(np.einsum("ij,ij->j", projected, projected)) - y
        if fit_isotropic:
            residual += t * t
        value, slope = problem.loss(residual)
        gradient = np.empty_like(x)
        back = problem.operator.adjoint(projected * problem.spread(slope))
        gradient[:-1] = (2.0 / problem.size) * back.T.ravel()
        gradient[-1] = 2.0 * t * step * float(slope.mean()) if fit_isotropic else 0.0
        return value / level, gradient / level

    history: list[float] = []

    def watch(intermediate_result: optimize.OptimizeResult) -> None:
        history.append(float(intermediate_result.fun))
        reached = history[-1] <= 0.5 * problem.tolerance**2
        stalled = len(history) > 20 and history[-1] > 0.995 * history[-21]
        if reached or stalled:
            raise StopIteration

    first = 0.0
    if fit_isotropic:
        first = (
            0.1 / step / math.sqrt(problem.dim) if isotropic is None else math.sqrt(max(isotropic, 0.0)) / unit / step
        )
        first = max(first, 1e-3)
    x0 = np.append((U / unit).ravel(), first)
    result = optimize.minimize(
        objective,
        x0,
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxcor": 20, "maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": 1e-15, "gtol": 1e-12},
    )
    factor = result.x[:-1].reshape(shape) * unit
    t = (float(result.x[-1]) * step * unit) ** 2 if fit_isotropic else 0.0
    estimate = Estimate(factor, t, int(result.nit), int(result.nit) < max_iterations)
    return estimate, float(result.fun) * level * unit**4
