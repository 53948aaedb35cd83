"""Mixtures whose covariances are a diagonal plus a few factors, fitted to a sketch.

``S = D + VV'`` with V of r columns lies between diagonal (r = 0) and full covariances (r = d).  The damping of an atom
needs products of the frequencies with the factors only, so that a fit in many dimensions costs r / d of one with full
covariances, and has fewer numbers to follow the noise with.  A penalty ``strength * sum [P / D + log D]`` keeps the
diagonals near the pooled one, P, in directions that the sketch does not resolve.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.lbfgs import lbfgs
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit
from sketchlearn.features.operator import F32, Operator
from sketchlearn.kernels import atoms, factors

_TILE = 2**18  # numbers of one tile: they should stay in the cache
_SMALLEST_TILE = 256  # frequencies
_START = 0.3  # standard deviations: length of the first factors
_MEMORY = 12


def fit_factored(
    problem: Problem, start: Fit, rank: int, steps: int, rng: np.random.Generator, *, largest: float, strength: float
) -> Fit:
    """Improve a mixture with diagonals (k, d) as covariances; the result has matrices (k, d, d), or diagonals for rank 0."""
    fit = _Factored(problem, start, rank, rng, largest, strength)
    v, _, _ = lbfgs(fit.objective, fit.start, fit.lower, fit.upper, steps, _MEMORY, 1e-8)
    return fit.unpacked(v)


class _Factored:
    """Coordinates and objective; all variables are scaled by the diagonal of the Gauss-Newton Hessian."""

    def __init__(
        self, problem: Problem, start: Fit, rank: int, rng: np.random.Generator, largest: float, strength: float
    ) -> None:
        self.problem, self.rank, self.strength = problem, rank, strength
        self.k, self.d = k, d = start.means.shape
        size = max(_SMALLEST_TILE, _TILE // (k * (rank + 2)))
        self.tiles = [_Tile(problem, slice(i, i + size), k) for i in range(0, problem.size, size)]
        s = start.covariances
        weights = np.maximum(start.weights, 1e-4)
        pool = weights @ s / weights.sum()
        self.pool = 0.98 * pool + 0.02 * pool.mean()
        self._units(start.means, s, weights)
        self.means = start.means
        v = _START / np.sqrt(max(rank, 1)) * rng.standard_normal((k, rank, d)) * np.sqrt(s)[:, None, :]
        rest = np.maximum(s - (v**2).sum(1), _START * s)
        self.log = 0.5 * np.log(rest)
        low = np.maximum(0.5 * np.log(1e-6) - self.log, -2.0) / self.unit_d
        high = np.clip(0.5 * np.log(largest) - self.log, 0.0, 1.0) / self.unit_d
        free = np.full(k * d, np.inf), np.full(k * rank * d, np.inf)
        self.lower = np.concatenate([-free[0], np.zeros(k), -free[1], np.minimum(low, 0.0).ravel()])
        self.upper = np.concatenate([free[0], np.full(k, np.inf), free[1], high.ravel()])
        parts = np.zeros(k * d), weights / self.unit_a, (v / self.unit_v[:, None, :]).ravel(), np.zeros(k * d)
        self.start = np.concatenate(parts)
        self.unit_f = max(1e-3 * problem.energy, 1e-12)

    def _units(self, means: Array, s: Array, weights: Array) -> None:
        problem, d = self.problem, self.d
        cosine, sine, _ = problem.atoms(means, s, np.zeros(len(means)))
        e2 = (cosine**2 + sine**2) * problem.u
        a2 = np.maximum(weights, 0.05 * weights.mean())[:, None] ** 2
        h_a = e2.sum(1).astype(np.float64)
        h_c = a2 * problem.operator.quadratic_adjoint(e2, "diag")
        # (w_a^4 on average, as for frequencies that go in all directions alike: 3 / (d (d + 2)) of |w|^4)
        fourth = (e2 @ problem.operator.squared_norms**2).astype(np.float64) * 3.0 / (d * (d + 2.0))
        h_s = a2 * fourth[:, None] * s**2 + 4.0 * self.strength * self.pool / s
        self.unit_a = 1.0 / np.sqrt(np.maximum(h_a, 1e-3 * h_a.max()))
        self.unit_c = 1.0 / np.sqrt(np.maximum(h_c, max(1e-3 * float(h_c.mean()), 1e-30)))
        self.unit_d = 1.0 / np.sqrt(np.maximum(h_s, max(1e-3 * float(h_s.mean()), 1e-30)))
        self.unit_v = 1.5 * self.unit_d * np.sqrt(s)

    def _parts(self, v: Array) -> tuple[Array, Array, Array, Array]:
        k, d, r = self.k, self.d, self.rank
        ends = np.cumsum([k * d, k, k * r * d])
        c, a, f, t = np.split(v, ends)
        means = self.means + c.reshape(k, d) * self.unit_c
        return (
            means,
            a * self.unit_a,
            f.reshape(k, r, d) * self.unit_v[:, None, :],
            np.exp(2.0 * (self.log + t.reshape(k, d) * self.unit_d)),
        )

    def unpacked(self, v: Array) -> Fit:
        means, weights, f, diagonal = self._parts(v)
        s: Array = diagonal
        if self.rank:
            s = np.einsum("kra,krb->kab", f, f) + diagonal[:, :, None] * np.eye(self.d)
        r = self.problem.residual(means, s, weights)
        return Fit(means, weights, s, float(self.problem.u @ (r[0] ** 2 + r[1] ** 2)))

    def objective(self, v: Array) -> tuple[float, Array]:
        k, d, r = self.k, self.d, self.rank
        means, weights, f, diagonal = self._parts(v)
        means32, factors32 = means.astype(np.float32), f.reshape(k * r, d).astype(np.float32)
        half, weights32 = (-0.5 * diagonal).astype(np.float32), weights.astype(np.float32)
        g_c, g_d, g_a = np.zeros((k, d)), np.zeros((k, d)), np.zeros(k)
        g_f, value = np.zeros((k * r, d)), 0.0
        for tile in self.tiles:
            phases = tile.operator.forward(means32)
            damping = np.ascontiguousarray(tile.operator.quadratic(half))
            if r:
                projected = tile.operator.forward(factors32)
                factors.damp(projected, damping)
            cosine, sine, model, along = tile.buffers
            atoms.atoms(phases, damping, weights32, cosine, sine, model)
            residual = tile.z - model
            weighted = tile.u * residual
            value += float(np.vdot(weighted, residual))
            atoms.products(cosine, sine, weighted, along)
            g_a += along
            g_c += tile.operator.adjoint(sine)
            g_d += tile.operator.quadratic_adjoint(cosine, "diag")
            if r:
                factors.scale(projected, cosine)
                g_f += tile.operator.adjoint(projected)
        value += self.strength * float((self.pool / diagonal + np.log(diagonal)).sum())
        slope_d = 2.0 * diagonal * weights[:, None] * g_d + 2.0 * self.strength * (1.0 - self.pool / diagonal)
        slope_f = 2.0 * weights[:, None, None] * g_f.reshape(k, r, d) * self.unit_v[:, None, :]
        gradient = np.concatenate(
            [
                (-2.0 * weights[:, None] * g_c * self.unit_c).ravel(),
                -2.0 * g_a * self.unit_a,
                slope_f.ravel(),
                (slope_d * self.unit_d).ravel(),
            ]
        )
        return value / self.unit_f, gradient / self.unit_f


class _Tile:
    """Some of the frequencies, and room for the atoms of k components there."""

    def __init__(self, problem: Problem, at: slice, k: int) -> None:
        index = np.arange(problem.size)[at]
        self.operator: Operator = problem.operator if len(index) == problem.size else problem.operator.rows(index)
        self.z: F32 = np.ascontiguousarray(problem.z[:, at])
        self.u: F32 = problem.u[at]
        t = len(index)
        self.buffers = tuple(np.empty(shape, np.float32) for shape in ((k, t), (k, t), (2, t), (k,)))
