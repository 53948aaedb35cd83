"""The best linear estimate of a matrix from measurements that noise nearly hides.

Least squares of low rank follows the noise where there is more of it than signal.  Without any preference for
directions, the matrix is ``t I / d + T`` with T of trace 0 and unknown in all directions alike,
``E <A, T> <B, T> = 2 v <A0, B0>`` for the parts A0, B0 of A, B without trace.  The estimate with the least squared
error that is linear in the measurements is then

    T = sum_j x_j A_j0,    (<A_i0, A_j0> + diag(noise) / (2 v)) x = y - mean(y),

whose leading eigenvectors capture the most energy that can be expected.  It is ``sum_j y_j A_j`` where noise prevails,
and the solution of the equations where there is none.  v comes from the variance of y beyond that of the noise.

Laplace noise (releases without delta) is better seen by its law than by its variance: each measurement is replaced by
its conditional expectation given that its signal is normal, over the share of the signal that this keeps.  Where noise
prevails that is worth twice the rows.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import log_ndtr

from sketchlearn.decoders.lowrank.problem import Array, Estimate, Problem

_POINTS = 801  # of the integral over the law of a measurement
_ACCURACY = 1e-3  # of the equations, relative: far below what noise leaves


def linear(
    problem: Problem, rank: int, rng: np.random.Generator, max_iterations: int = 500, starts: int = 1
) -> Estimate:
    """The estimate cut to `rank` components, and its other directions as isotropic part; nothing is random in it."""
    del rng, starts
    level = float(problem.measurements.mean()) if problem.has_trace else 0.0
    y, own = problem.measurements - level, _own(problem)
    added = np.broadcast_to(problem.added, y.shape)
    noise = float(added.mean())
    # no less than one standard error of what is left of the variance of y; of what size it is then does not matter
    excess = max(float(np.mean(y * y)) - noise, noise * math.sqrt(5.0 / problem.size), 1e-300)
    ratio = added * float(own.mean()) / excess
    if problem.laplace and noise > 0:
        y, effective = _expected(y, math.sqrt(excess), math.sqrt(noise / 2.0))
        ratio *= effective / noise
    used = 0

    def count(_: Array) -> None:
        nonlocal used
        used += 1

    def apply(x: Array) -> Array:
        back = problem.size * problem.adjoint(x)
        return np.asarray(problem.measure_matrix(_traceless(back)) + ratio * x)

    system = LinearOperator((problem.size, problem.size), matvec=apply, dtype=np.float64)
    x, failed = cg(system, y, rtol=_ACCURACY, maxiter=max_iterations, callback=count)
    values, vectors = np.linalg.eigh(_traceless(problem.adjoint(x)) * problem.size)
    values, vectors = values[::-1] + level, vectors[:, ::-1]
    rest = float(values[rank:].mean()) if rank < len(values) else 0.0
    if problem.has_trace:
        rest = max(rest, 0.0)
    factor = vectors[:, :rank] * np.sqrt(np.maximum(values[:rank] - rest, 0.0))
    return Estimate(factor, rest if problem.has_trace else 0.0, used, not failed)


def _traceless(S: Array) -> Array:
    return np.asarray(S - np.trace(S) / len(S) * np.eye(len(S)))


def _own(problem: Problem) -> Array:
    """Squared length of the part of each measurement without trace, (m,)."""
    rows, m = problem._rows, problem.size
    lengths = problem.factors * np.einsum("ij,ij->i", rows, rows)
    squares, traces = lengths**2, lengths
    if len(lengths) > m:
        inner = np.einsum("ij,ij->i", rows[:m], rows[m:])
        squares = squares[:m] + squares[m:] + 2.0 * problem.factors[:m] * problem.factors[m:] * inner**2
        traces = traces[:m] + traces[m:]
    return np.asarray(squares - traces**2 / problem.dim)


def _expected(y: Array, deviation: float, scale: float) -> tuple[Array, float]:
    """Normal numbers seen through Laplace noise, as if through normal noise of the variance that is returned.

    The conditional expectation of z in y = z + e has the share ``E (E z|y)^2 / E z^2`` of its variance; so has that of
    a z seen through normal noise of variance ``E z^2 (1 / share - 1)``, after division by the share.
    """
    ends = 14.0 * (deviation + scale)
    points = np.linspace(-ends, ends, _POINTS)
    density, expected = _conditional(points, deviation, scale)
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
