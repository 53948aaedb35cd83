"""Local refinement of a Gaussian mixture against a sketch, for every type of covariance.

L-BFGS in local coordinates that are re-centred every chunk: means ``c + L t`` and covariances
``L M M' L'`` with L the Cholesky factor at the start of the chunk and M lower triangular with a
logarithmic diagonal (log standard deviations for spherical and diagonal types).  Variables are scaled by
the diagonal of the Gauss-Newton Hessian.  A penalty ``strength * sum_l [tr(S_l^-1 P) + log det S_l]``
(inverse Wishart, P the pooled covariance) keeps directions that the sketch does not resolve from
collapsing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.covariances import KINDS, Index, coordinate_squares
from sketchlearn.decoders.lbfgs import lbfgs
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.features.operator import F32

_CHUNK = 150
_MEMORY = 15
_EIGENVALUE_FLOOR = 1e-3  # relative to the pooled covariance


@dataclass
class Fit:
    """A mixture in normalised units, with covariances of one shape (:mod:`sketchlearn.decoders.covariances`)."""

    means: Array
    weights: Array
    covariances: Array
    value: float = np.inf

    def select(self, kind: str, keep: Index, weights: Array) -> Fit:
        """Some of the components, with new weights."""
        return Fit(self.means[keep], weights, KINDS[kind].select(self.covariances, keep))

    def with_component(self, kind: str, mean: Array, variance: float) -> Fit:
        """One more, spherical, component."""
        shape = KINDS[kind]
        s = shape.joined(self.covariances, shape.rounded(variance, self.means.shape[1]))
        return Fit(np.vstack([self.means, mean]), np.append(self.weights, 0.0), s)

    def split(self, kind: str, l: int, rng: np.random.Generator) -> Fit:
        """Component l as two halves that together keep its mean and covariance."""
        step, s = KINDS[kind].halved(self.covariances, l, self.means.shape[1], rng)
        means = np.vstack([self.means, self.means[l] + step])
        means[l] = self.means[l] - step
        weights = np.append(self.weights, self.weights[l] / 2)
        weights[l] /= 2
        return Fit(means, weights, s)


def misfit(problem: Problem, fit: Fit, kind: str) -> float:
    """Weighted squared residual."""
    r = problem.residual(fit.means, KINDS[kind].per_component(fit.covariances), fit.weights)
    return float(problem.u @ (r[0] ** 2 + r[1] ** 2))


def tangent_variance(problem: Problem, fit: Fit, kind: str) -> Array:
    """Variance of a row at each frequency that no change of the parameters explains, (m,)."""
    shape = KINDS[kind]
    q = -2.0 * problem.damping(shape.per_component(fit.covariances)).astype(np.float64)
    v = noise.left_by_gaussian(q, shape.absorbed(problem.operator, fit.covariances, q))
    a = np.maximum(fit.weights, 0.0)
    return np.asarray(v[0] if len(v) == 1 else (a / a.sum()) @ v)


def noise_floor(problem: Problem, fit: Fit, kind: str) -> tuple[float, float]:
    """Expected misfit of the right model, and its relative standard deviation."""
    parameters = KINDS[kind].parameters(*fit.means.shape)
    return noise.noise_floor(problem, tangent_variance(problem, fit, kind), parameters)


def refine(
    problem: Problem,
    start: Fit,
    kind: str,
    steps: int,
    *,
    smallest: float = 1e-6,
    largest: float = 4.0,
    strength: float = 0.0,
    tolerance: float = 1e-6,
) -> Fit:
    """Improve a mixture; variances stay between `smallest` and `largest` (normalised units)."""
    fit, last = start, np.inf
    while steps > 0:
        chunk = chunk_of(problem, fit, kind, smallest, largest, strength)
        before = chunk.objective(chunk.start)[0]
        v, _, done = lbfgs(chunk.objective, chunk.start, chunk.lower, chunk.upper, min(_CHUNK, steps), _MEMORY, 1e-8)
        after = chunk.objective(v)[0]
        if not after <= before + 1e-9 * abs(before):  # a broken line search: keep what was there
            fit.value = misfit(problem, fit, kind)
            return fit
        fit = chunk.unpack(v)
        fit.value = misfit(problem, fit, kind)
        steps -= max(done, 10)
        if last - fit.value < tolerance * fit.value + 1e-12 or (done < _CHUNK and last - fit.value < 1e-3 * fit.value):
            break
        last = fit.value
    return fit


def chunk_of(problem: Problem, fit: Fit, kind: str, smallest: float, largest: float, strength: float) -> Chunk:
    """Coordinates around a fit for covariances of a shape."""
    return _CHUNKS[kind](problem, fit, kind, smallest, largest, strength)


class Chunk(ABC):
    """Coordinates and objective of one stretch of iterations."""

    def __init__(self, problem: Problem, fit: Fit, kind: str, smallest: float, largest: float, strength: float) -> None:
        self.problem, self.shape, self.strength = problem, KINDS[kind], strength
        self.k, self.d = fit.means.shape
        self.pool = self.shape.pooled(fit.covariances, fit.weights)
        self.means = fit.means
        self.base = self._floored(fit.covariances) if strength > 0 else fit.covariances
        self.factor = self._root(self.base)
        if strength > 0:
            self.pool_root = self._root(self.pool)
        self.unit_f = max(1e-3 * problem.energy, 1e-12)
        self._set_units(fit.weights)
        low, high = self._bounds(0.5 * np.log(smallest), 0.5 * np.log(largest))
        # a trust region of one unit around the start, re-centred with every chunk
        low = np.maximum(np.minimum(low, 0.0), -1.0) / self.unit_s
        high = np.minimum(np.maximum(high, 0.0), 1.0) / self.unit_s
        free = np.full(self.k * self.d, np.inf)
        self.lower = np.concatenate([-free, np.zeros(self.k), low.ravel()])
        self.upper = np.concatenate([free, np.full(self.k, np.inf), high.ravel()])
        self.start = np.concatenate([np.zeros(self.k * self.d), fit.weights / self.unit_a, np.zeros(self.unit_s.size)])

    # -- what depends on the shape ---------------------------------------------------------------

    @abstractmethod
    def _floored(self, s: Array) -> Array:
        """Covariances with eigenvalues relative to the pool floored."""

    @abstractmethod
    def _root(self, s: Array) -> Array:
        """Square roots of covariances: of the numbers, or Cholesky factors."""

    @abstractmethod
    def _bounds(self, low: float, high: float) -> tuple[Array, Array]:
        """Bounds of the coordinates of the covariances for logarithms of standard deviations in [low, high]."""

    @abstractmethod
    def _curvatures(self, e2: F32, a2: Array) -> tuple[Array, Array]:
        """Diagonal of the Gauss-Newton matrix in means and covariances, without the penalty."""

    @abstractmethod
    def _penalty_curvature(self) -> Array:
        """That of the penalty, over its strength."""

    @abstractmethod
    def _covariances(self, p: Array) -> tuple[Array, Any]:
        """Covariances at coordinates p, and what the gradient needs again."""

    @abstractmethod
    def _shifted(self, t: Array) -> Array:
        """Means at coordinates t."""

    @abstractmethod
    def _gradient_means(self, g: Array) -> Array:
        """Gradient in the coordinates t from that in the means."""

    @abstractmethod
    def _gradient_covariances(self, g: Array, s: Array, kept: Any) -> Array:
        """Gradient in the coordinates p from that in the covariances."""

    @abstractmethod
    def _slope(self, products: F32, weights: Array) -> Array:
        """Gradient of the misfit in the covariances from ``Re(conj(r) atom)`` products (k, m)."""

    @abstractmethod
    def _penalty(self, s: Array, kept: Any) -> tuple[float, Array]:
        """``sum_l [tr(S_l^-1 P) + log det S_l]`` and its gradient."""

    # -- what doesn't ------------------------------------------------------------------------------

    def _set_units(self, weights: Array) -> None:
        p = self.problem
        cosine, sine, _ = p.atoms(self.means, self.shape.per_component(self.base), np.zeros(self.k))
        e2 = (cosine**2 + sine**2) * p.u
        a2 = np.maximum(weights, 0.05 * max(float(weights.mean()), 1e-6)) ** 2
        h_a = e2.sum(1).astype(np.float64)
        h_c, h_s = self._curvatures(e2, a2)
        if self.strength > 0:
            h_s = h_s + 4 * self.strength * self._penalty_curvature()
        self.unit_a = 1 / np.sqrt(np.maximum(h_a, 1e-3 * h_a.max()))
        self.unit_c = 1 / np.sqrt(np.maximum(h_c, max(1e-3 * float(h_c.mean()), 1e-30)))
        self.unit_s = 1 / np.sqrt(np.maximum(h_s, max(1e-3 * float(np.mean(h_s)), 1e-30)))

    def _move(self, v: Array) -> tuple[Array, Array, Array, Any]:
        k, d = self.k, self.d
        means = self._shifted(v[: k * d].reshape(k, d) * self.unit_c)
        weights = v[k * d : k * d + k] * self.unit_a
        s, kept = self._covariances(v[k * d + k :].reshape(self.unit_s.shape) * self.unit_s)
        return means, weights, s, kept

    def unpack(self, v: Array) -> Fit:
        """The mixture at some coordinates."""
        return Fit(*self._move(v)[:3])

    def objective(self, v: Array) -> tuple[float, Array]:
        """Misfit and penalty, and their gradient."""
        p = self.problem
        means, weights, s, kept = self._move(v)
        value, along, products, cross, _, _ = p.value_and_products(means, self.shape.per_component(s), weights)
        g_c = -2.0 * weights[:, None] * p.operator.adjoint(cross)
        g_s = self._slope(products, weights)
        if self.strength > 0:
            penalty, g_p = self._penalty(s, kept)
            value += self.strength * penalty
            g_s = g_s + self.strength * g_p
        g_t, g_q = self._gradient_means(g_c), self._gradient_covariances(g_s, s, kept)
        gradient = np.concatenate([(g_t * self.unit_c).ravel(), along * self.unit_a, (g_q * self.unit_s).ravel()])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e12, np.zeros(len(v))
        return value / self.unit_f, gradient / self.unit_f


class _AxisChunk(Chunk):
    """Logarithms of standard deviations along the axes."""

    repeats: float = 1.0
    """Coordinates that share one variance."""

    def _floored(self, s: Array) -> Array:
        return np.maximum(s, _EIGENVALUE_FLOOR * self.pool)

    def _root(self, s: Array) -> Array:
        return np.sqrt(s)

    def _bounds(self, low: float, high: float) -> tuple[Array, Array]:
        log = np.log(self.factor)
        return low - log, high - log

    def _penalty_curvature(self) -> Array:
        return self.repeats * self.pool / self.base

    def _covariances(self, p: Array) -> tuple[Array, Any]:
        return self.base * np.exp(2 * p), None

    def _gradient_covariances(self, g: Array, s: Array, kept: Any) -> Array:
        return 2 * g * s

    def _penalty(self, s: Array, kept: Any) -> tuple[float, Array]:
        value = float(self.repeats * (self.pool / s + np.log(s)).sum())
        return value, self.repeats * (1.0 / s - self.pool / s**2)


class _SphericalChunk(_AxisChunk):
    def __init__(self, problem: Problem, fit: Fit, *rest: Any) -> None:
        self.repeats = float(problem.dim)
        super().__init__(problem, fit, *rest)

    def _curvatures(self, e2: F32, a2: Array) -> tuple[Array, Array]:
        y2 = self.problem.operator.squared_norms * self.base[:, None].astype(np.float32)
        h_c = (a2 * (e2 * y2).sum(1) / self.d)[:, None] * np.ones((1, self.d))
        return h_c, a2 * (e2 * y2 * y2).sum(1)

    def _shifted(self, t: Array) -> Array:
        return self.means + t * self.factor[:, None]

    def _gradient_means(self, g: Array) -> Array:
        return g * self.factor[:, None]

    def _slope(self, products: F32, weights: Array) -> Array:
        return weights * self.problem.operator.quadratic_adjoint(products, "spherical")


class _DiagonalChunk(_AxisChunk):
    def _curvatures(self, e2: F32, a2: Array) -> tuple[Array, Array]:
        squares = coordinate_squares(self.problem.operator)
        h_c = a2[:, None] * (e2 @ squares.T) * self.base
        return h_c, a2[:, None] * (e2 @ (squares**2).T) * self.base**2

    def _shifted(self, t: Array) -> Array:
        return self.means + t * self.factor

    def _gradient_means(self, g: Array) -> Array:
        return g * self.factor

    def _slope(self, products: F32, weights: Array) -> Array:
        return weights[:, None] * self.problem.operator.quadratic_adjoint(products, "diag")


class _MatrixChunk(Chunk):
    """Lower triangular matrices with a logarithmic diagonal, relative to the Cholesky factors at the start."""

    def __init__(self, problem: Problem, fit: Fit, *rest: Any) -> None:
        self.a, self.b = np.tril_indices(problem.dim)
        self.diagonal = self.a == self.b
        super().__init__(problem, fit, *rest)

    def _floored(self, s: Array) -> Array:
        root = np.linalg.cholesky(self.pool)
        inverse = np.linalg.inv(root)
        relative = inverse @ s @ inverse.T
        values, vectors = np.linalg.eigh(0.5 * (relative + np.swapaxes(relative, -1, -2)))
        if (values >= _EIGENVALUE_FLOOR).all():
            return s
        clipped = (vectors * np.maximum(values, _EIGENVALUE_FLOOR)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return np.asarray(root @ clipped @ root.T)

    def _root(self, s: Array) -> Array:
        try:
            return np.asarray(np.linalg.cholesky(s), np.float64)
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(s)
            floor = 1e-6 * np.maximum(values[..., -1:], 1e-12)
            positive = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            return np.asarray(np.linalg.cholesky(positive), np.float64)

    def _bounds(self, low: float, high: float) -> tuple[Array, Array]:
        lower, upper = np.full(self.unit_s.shape, -np.inf), np.full(self.unit_s.shape, np.inf)
        log = np.log(np.diagonal(self.factor, axis1=-2, axis2=-1))
        lower[..., self.diagonal], upper[..., self.diagonal] = low - log, high - log
        return lower, upper

    def _penalty_curvature(self) -> Array:
        root = np.linalg.solve(self.factor, np.broadcast_to(self.pool_root, self.factor.shape))
        return np.asarray((root**2).sum(-1)[..., self.a])

    def _covariances(self, p: Array) -> tuple[Array, Any]:
        m = np.zeros((*p.shape[:-1], self.d, self.d))
        m[..., self.a, self.b] = np.where(self.diagonal, np.exp(np.where(self.diagonal, p, 0.0)), p)
        lower = self.factor @ m
        return lower @ np.swapaxes(lower, -1, -2), (m, lower)

    def _gradient_covariances(self, g: Array, s: Array, kept: Any) -> Array:
        m, lower = kept
        g_m = np.swapaxes(self.factor, -1, -2) @ (2 * g @ lower)
        return np.asarray(g_m[..., self.a, self.b] * np.where(self.diagonal, m[..., self.a, self.b], 1.0))

    def _penalty(self, s: Array, kept: Any) -> tuple[float, Array]:
        """From triangular factors, never from S^-1 itself."""
        lower = kept[1]
        inverse = np.linalg.inv(lower)
        y = inverse @ self.pool_root
        z = np.swapaxes(inverse, -1, -2) @ y
        value = float((y * y).sum() + 2 * np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum())
        return value, np.swapaxes(inverse, -1, -2) @ inverse - z @ np.swapaxes(z, -1, -2)

    def _turned_squares(self, factor: Array) -> F32:
        """Squares of ``L'w``, (d, m)."""
        return np.asarray(self.problem.operator.forward(factor.T) ** 2)


class _FullChunk(_MatrixChunk):
    def _curvatures(self, e2: F32, a2: Array) -> tuple[Array, Array]:
        h_c, h_s = np.empty((self.k, self.d)), np.empty((self.k, len(self.a)))
        for i in range(self.k):
            y2 = self._turned_squares(self.factor[i])
            h_c[i] = a2[i] * (y2 @ e2[i])
            h_s[i] = a2[i] * ((y2 * e2[i]) @ y2.T)[self.a, self.b]
        return h_c, h_s

    def _shifted(self, t: Array) -> Array:
        return self.means + (self.factor @ t[:, :, None])[:, :, 0]

    def _gradient_means(self, g: Array) -> Array:
        return np.asarray((np.swapaxes(self.factor, 1, 2) @ g[:, :, None])[:, :, 0])

    def _slope(self, products: F32, weights: Array) -> Array:
        return weights[:, None, None] * self.problem.operator.quadratic_adjoint(products, "full")


class _TiedChunk(_MatrixChunk):
    def _curvatures(self, e2: F32, a2: Array) -> tuple[Array, Array]:
        y2 = self._turned_squares(self.factor)
        total = a2.astype(np.float32) @ e2
        h_s: Array = ((y2 * total) @ y2.T)[self.a, self.b].astype(np.float64)
        return a2[:, None] * (e2 @ y2.T), h_s

    def _shifted(self, t: Array) -> Array:
        return self.means + t @ self.factor.T

    def _gradient_means(self, g: Array) -> Array:
        return g @ self.factor

    def _slope(self, products: F32, weights: Array) -> Array:
        total = (weights.astype(np.float32) @ products)[None]
        return self.problem.operator.quadratic_adjoint(total, "full")[0].astype(np.float64)


_CHUNKS: dict[str, type[Chunk]] = {
    "spherical": _SphericalChunk,
    "diag": _DiagonalChunk,
    "full": _FullChunk,
    "tied": _TiedChunk,
}
