"""A matrix from measurements that noise nearly hides: the best linear estimate, and eigenvalues less their noise.

Least squares of low rank follows the noise where there is much of it.  Here the matrix is ``t I + S + T``: S of low
rank and found already (at first 0), and T of trace 0 with no direction preferred, ``E <A, T> <B, T> = 2 v <A0, B0>``
for the parts A0, B0 of A, B without trace.  Of all estimates that are linear in the residuals r = y - <A, S>, the one
with the least squared error is

    R = sum_j x_j A_j0,    (<A_i0, A_j0> + diag(noise) / (2 v)) x = r - mean(r).

It is ``sum_j r_j A_j`` where noise prevails, and solves the equations where there is none; v comes from the variance of
r beyond that of the noise.  Its eigenvalues that are noise fill a semicircle of radius ``e = 2 |R|_F / sqrt(d)``.  The
next S has those of S + R above e, each shrunk to ``sqrt(u^2 - e^2)``, which has the least squared error in such noise
(Donoho, Gavish and Johnstone 2018), until it stays; S + R is the answer.  As S explains more, R has less noise of few
measurements in it, and e falls.  Where nothing stands out the answer is R, whose leading eigenvectors capture the most
energy that can be expected.

Laplace noise (releases without delta) is better seen by its law than by its variance: each residual is replaced by its
conditional expectation given that its signal is normal, over the share of the signal that this keeps.  Where noise
prevails that is worth twice the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import log_ndtr

from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import ROUNDS
from sketchlearn.decoders.lowrank.problem import Estimate, Problem


def drowned(problem: Problem) -> bool:
    """Whether the additive noise is large enough for this decoder: a twentieth of the signal."""
    y, noise = problem.measurements, float(np.mean(problem.added))
    return noise > 0.05 * max(float(y.var()) - noise, 0.0)


def shrunk(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 1
) -> Estimate:
    """The estimate cut to `rank` components, and its other directions as isotropic part; nothing is random in it."""
    del rng, starts
    lengths = float(problem.traceless_lengths().mean())
    added: Array = np.broadcast_to(problem.added, problem.measurements.shape)

    def estimate(residual: Array) -> Array:
        y, signal, noise = seen(residual, added, problem.laplace)
        ratio = noise * lengths / signal

        def apply(x: Array) -> Array:
            return np.asarray(problem.measure_matrix(_traceless(problem.size * problem.adjoint(x))) + ratio * x)

        system = LinearOperator((problem.size, problem.size), matvec=apply, dtype=np.float64)
        x, _ = cg(system, y, rtol=1e-3, maxiter=10)  # (the next one starts over)
        return _traceless(problem.size * problem.adjoint(x))

    def residual(S: Array) -> tuple[Array, float]:
        left = problem.measurements - problem.measure_matrix(S)
        level = float(left.mean()) if problem.has_trace else 0.0
        return left - level, level

    M, level, rounds, stays = iterate(problem.dim, residual, estimate, min(ROUNDS, max_iterations))
    values, vectors = np.linalg.eigh(M)
    values, vectors = values[::-1] + level, vectors[:, ::-1]
    rest = float(values[rank:].mean()) if rank < len(values) else 0.0
    rest = max(rest, 0.0) if problem.has_trace else 0.0
    return Estimate(vectors[:, :rank] * np.sqrt(np.maximum(values[:rank] - rest, 0.0)), rest, rounds, stays)


def iterate(
    d: int, residual: Callable[[Array], tuple[Array, float]], estimate: Callable[[Array], Array], rounds: int
) -> tuple[Array, float, int, bool]:
    """S + R of the module and the isotropic part t, the number of rounds, and whether S stays."""
    S = np.zeros((d, d))
    M, level, done, stays = S, 0.0, 0, False
    while done < rounds and not stays:
        left, level = residual(S)
        R = estimate(left)
        M, done = S + R, done + 1
        values, vectors = np.linalg.eigh(M)
        edge = 2.0 * float(np.linalg.norm(R)) / math.sqrt(d)
        out = values > edge
        new = (vectors[:, out] * np.sqrt(values[out] ** 2 - edge**2)) @ vectors[:, out].T
        stays = float(np.linalg.norm(new - S)) <= 1e-3 * float(np.linalg.norm(new))
        S = new
    return M, level, done, stays


def seen(residual: Array, added: Array, laplace: bool) -> tuple[Array, float, Array]:
    """Residuals as if their noise were normal, the variance of their signal, and that of their noise."""
    noise = float(added.mean())
    # no less than one standard error of what is left of the variance; where that counts, any size will do
    signal = max(float(np.mean(residual**2)) - noise, noise * math.sqrt(5.0 / len(residual)), 1e-300)
    if not laplace or noise <= 1e-6 * signal:
        return residual, signal, added
    y, effective = _expected(residual, math.sqrt(signal), math.sqrt(noise / 2.0))
    return y, signal, added * (effective / noise)


def _traceless(S: Array) -> Array:
    return np.asarray(S - np.trace(S) / len(S) * np.eye(len(S)))


def _expected(y: Array, deviation: float, scale: float) -> tuple[Array, float]:
    """Normal numbers seen through Laplace noise, as if through normal noise of the variance that is returned.

    The conditional expectation of z in y = z + e has the share ``E (E z|y)^2 / E z^2`` of its variance; so has that of
    a z seen through normal noise of variance ``E z^2 (1 / share - 1)``, after division by the share.
    """
    ends = 14.0 * (deviation + scale)
    density, expected = _conditional(np.linspace(-ends, ends, 401), deviation, scale)
    share = float((density * expected**2).sum() / density.sum()) / deviation**2
    share = min(max(share, 1e-12), 1.0 - 1e-12)
    return _conditional(y, deviation, scale)[1] / share, deviation**2 * (1.0 / share - 1.0)


def _conditional(y: Array, s: float, b: float) -> tuple[Array, Array]:
    """Density of y (up to a constant) and E(z|y), for z normal of deviation s and Laplace noise of scale b.

    Below y the noise is positive and z normal about s^2/b, cut off at y; above, about -s^2/b.
    """
    shift = s * s / b
    below, above = (y - shift) / s, -(y + shift) / s
    sides = np.stack([log_ndtr(below) - y / b, log_ndtr(above) + y / b])
    top = sides.max(0)
    weights = np.exp(sides - top)
    means = np.stack([shift - s * _hazard(below), s * _hazard(above) - shift])
    density = np.exp(top - top.max()) * weights.sum(0)
    return density, np.asarray((weights * means).sum(0) / weights.sum(0))


def _hazard(t: Array) -> Array:
    """Density over distribution function of the normal law."""
    return np.asarray(np.exp(-0.5 * t * t - log_ndtr(t)) / math.sqrt(2.0 * math.pi))
