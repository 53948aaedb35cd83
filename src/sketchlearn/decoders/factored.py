"""Mixtures whose covariances are a diagonal plus a few factors, fitted to a sketch.

``S = D + VV'`` with V of r columns lies between diagonal (r = 0) and full covariances (r = d).  The damping of an atom
needs products of the frequencies with the factors only, so that a fit in many dimensions costs r / d of one with full
covariances, and has fewer numbers to follow the noise with.  A penalty ``strength * sum [P / D + log D]`` keeps the
diagonals near the pooled one, P, in directions that the sketch does not resolve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders.lbfgs import lbfgs
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit
from sketchlearn.features.operator import F32, Operator
from sketchlearn.kernels import tiers

_TILE = 2**18  # numbers of one tile: they should stay in the cache
_SMALLEST_TILE = 256  # frequencies
_START = 0.3  # standard deviations: length of the first factors
_LIGHTEST = 1e-4  # weight of a component that is not given up
_MEMORY = 12


@dataclass
class Factored:
    """A mixture in normalised units: diagonals (k, d), factors (k, r, d), and the misfit."""

    means: Array
    weights: Array
    diagonals: Array
    factors: Array
    value: float = np.inf

    @classmethod
    def round(cls, means: Array, weights: Array, variance: float) -> Factored:
        """Components of one width, without factors."""
        k, d = means.shape
        return cls(means, np.maximum(weights, _LIGHTEST), np.full((k, d), max(variance, 1e-6)), np.zeros((k, 0, d)))

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.factors.shape[1])

    def with_factors(self, rank: int, rng: np.random.Generator) -> Factored:
        """The same with more factors, short ones in random directions, taken from the diagonals."""
        k, r, d = self.factors.shape
        average = np.average(self.diagonals, axis=0, weights=np.maximum(self.weights, _LIGHTEST))
        s = np.maximum(self.diagonals, 0.02 * average)
        more = _START / np.sqrt(rank) * rng.standard_normal((k, rank - r, d)) * np.sqrt(s)[:, None, :]
        rest = np.maximum(s - (more**2).sum(1), _START * s)
        weights = np.maximum(self.weights, _LIGHTEST)
        return Factored(self.means, weights, rest, np.concatenate([self.factors, more], 1))

    def fit(self) -> Fit:
        """With matrices (k, d, d) as covariances, or diagonals (k, d) if there are no factors."""
        s: Array = self.diagonals
        if self.rank:
            s = np.einsum("kra,krb->kab", self.factors, self.factors) + s[:, :, None] * np.eye(s.shape[1])
        return Fit(self.means, self.weights, s, self.value)


def refine_factored(problem: Problem, start: Factored, steps: int, *, largest: float, strength: float) -> Factored:
    """Improve a mixture; variances stay below `largest`."""
    coordinates = _Coordinates(problem, start, largest, strength)
    x, _, _ = lbfgs(
        coordinates.objective, coordinates.start, coordinates.lower, coordinates.upper, steps, _MEMORY, 1e-8
    )
    means, weights, factors, diagonals = coordinates.parts(x)
    coordinates.strength = 0.0
    return Factored(means, weights, diagonals, factors, coordinates.objective(x)[0] * coordinates.unit_f)


class _Coordinates:
    """Coordinates and objective; all variables are scaled by the diagonal of the Gauss-Newton Hessian."""

    def __init__(self, problem: Problem, start: Factored, largest: float, strength: float) -> None:
        self.problem, self.rank, self.strength = problem, start.rank, strength
        self.loops = tiers.loops("atoms"), tiers.loops("factors")
        self.k, self.d = k, d = start.means.shape
        size = max(_SMALLEST_TILE, _TILE // (k * (self.rank + 2)))
        self.tiles = [_Tile(problem, slice(i, i + size), k) for i in range(0, problem.size, size)]
        s = start.diagonals + (start.factors**2).sum(1)
        weights = np.maximum(start.weights, _LIGHTEST)
        pool = weights @ s / weights.sum()
        self.pool = 0.98 * pool + 0.02 * pool.mean()
        self._units(start.means, s, weights)
        self.means, self.log = start.means, 0.5 * np.log(start.diagonals)
        low = np.clip(0.5 * np.log(1e-6) - self.log, -2.0, 0.0) / self.unit_d
        high = np.clip(0.5 * np.log(largest) - self.log, 0.0, 1.0) / self.unit_d
        free = np.full(k * d, np.inf), np.full(start.factors.size, np.inf)
        self.lower = np.concatenate([-free[0], np.zeros(k), -free[1], low.ravel()])
        self.upper = np.concatenate([free[0], np.full(k, np.inf), free[1], high.ravel()])
        factors = (start.factors / self.unit_v[:, None, :]).ravel()
        self.start = np.concatenate([np.zeros(k * d), weights / self.unit_a, factors, np.zeros(k * d)])
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

    def parts(self, v: Array) -> tuple[Array, Array, Array, Array]:
        c, a, f, t = self._split(v)
        return (
            self.means + c * self.unit_c,
            a * self.unit_a,
            f * self.unit_v[:, None, :],
            np.exp(2.0 * (self.log + t * self.unit_d)),
        )

    def _split(self, v: Array) -> tuple[Array, Array, Array, Array]:
        """Coordinates of means, weights, factors and diagonals, as views."""
        k, d, r = self.k, self.d, self.rank
        a, f, t = k * d, k * d + k, k * d + k + k * r * d
        return v[:a].reshape(k, d), v[a:f], v[f:t].reshape(k, r, d), v[t:].reshape(k, d)

    def objective(self, v: Array) -> tuple[float, Array]:
        k, d, r = self.k, self.d, self.rank
        means, weights, f, diagonal = self.parts(v)
        means32, factors32 = means.astype(np.float32), f.reshape(k * r, d).astype(np.float32)
        half, weights32 = (-0.5 * diagonal).astype(np.float32), weights.astype(np.float32)
        gradient = np.zeros(len(v))
        g_c, g_a, g_f, g_d = self._split(gradient)
        value = 0.0
        loops, folding = self.loops
        for tile in self.tiles:
            phases = tile.operator.forward(means32)
            damping = np.ascontiguousarray(tile.operator.quadratic(half))
            if r:
                projected = tile.operator.forward(factors32)
                folding.damp(projected, damping)
            cosine, sine, model, along = tile.buffers
            loops.atoms(phases, damping, weights32, cosine, sine, model)
            residual = np.subtract(tile.z, model, out=model)
            weighted = tile.u * residual
            value += float(np.vdot(weighted, residual))
            loops.products(cosine, sine, weighted, along)
            g_a += along
            g_c += tile.operator.adjoint(sine)
            g_d += tile.operator.quadratic_adjoint(cosine, "diag")
            if r:
                folding.scale(projected, cosine)
                g_f += tile.operator.adjoint(projected).reshape(k, r, d)
        value += self.strength * float((self.pool / diagonal + np.log(diagonal)).sum())
        twice = (2.0 / self.unit_f) * weights[:, None]
        g_c *= -twice * self.unit_c
        g_a *= (-2.0 / self.unit_f) * self.unit_a
        g_f *= (twice * self.unit_v)[:, None, :]
        g_d *= twice * diagonal
        if self.strength:
            g_d += (2.0 * self.strength / self.unit_f) * (1.0 - self.pool / diagonal)
        g_d *= self.unit_d
        return value / self.unit_f, gradient


class _Tile:
    """Some of the frequencies, and room for the atoms of k components there."""

    def __init__(self, problem: Problem, at: slice, k: int) -> None:
        index = np.arange(problem.size)[at]
        self.operator: Operator = problem.operator if len(index) == problem.size else problem.operator.rows(index)
        self.z: F32 = np.ascontiguousarray(problem.z[:, at])
        self.u: F32 = problem.u[at]
        t = len(index)
        self.buffers = tuple(np.empty(shape, np.float32) for shape in ((k, t), (k, t), (2, t), (k,)))
