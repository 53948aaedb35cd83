"""Local refinement of a Gaussian mixture against a sketch, for every type of covariance.

L-BFGS in local coordinates that are re-centred every chunk: means ``c + L t`` and covariances
``L M M' L'`` with L the Cholesky factor at the start of the chunk and M lower triangular with a
logarithmic diagonal (log standard deviations for spherical and diagonal types).  Variables are scaled by
the diagonal of the Gauss-Newton Hessian.  A penalty ``strength * sum_l [tr(S_l^-1 P) + log det S_l]``
(inverse Wishart, P the pooled covariance) keeps directions that the sketch does not resolve from
collapsing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.search import lbfgs
from sketchlearn.features.operator import F32

TYPES = ("spherical", "diag", "full", "tied")
_CHUNK = 150
_MEMORY = 15
_EIGENVALUE_FLOOR = 1e-3  # relative to the pooled covariance


@dataclass
class Fit:
    """A mixture in normalised units; covariances are (k,), (k, d), (k, d, d) or, tied, (d, d)."""

    means: Array
    weights: Array
    covariances: Array
    value: float


def broadcast(covariances: Array, kind: str) -> Array:
    """Covariances as the problem's atoms take them (tied ones as one that all components share)."""
    return covariances[None] if kind == "tied" else covariances


def misfit(problem: Problem, fit: Fit, kind: str) -> float:
    """Weighted squared residual."""
    r = problem.residual(fit.means, broadcast(fit.covariances, kind), fit.weights)
    return float(problem.u @ (r[0] ** 2 + r[1] ** 2))


def n_parameters(k: int, d: int, kind: str) -> int:
    """Free parameters of a mixture."""
    return k * (d + 1) + {"spherical": k, "diag": k * d, "full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2}[kind]


def tangent_variance(problem: Problem, fit: Fit, kind: str) -> Array:
    """Variance (times n) of each entry of the sketch that no change of the parameters explains, (m,).

    Within a component, exp(i w·x) is projected on the scores of its weight, mean and covariance; with
    q = w'Sw, what is left is 1 - exp(-q)(1 + q + h), h = q^2/2 for full covariances.
    """
    q = -2.0 * problem.damping(broadcast(fit.covariances, kind)).astype(np.float64)
    if kind == "spherical":
        h = q * q / (2.0 * problem.dim)
    elif kind == "diag":
        h = 0.5 * ((fit.covariances**2) @ (problem.operator._squares.astype(np.float64) ** 2).T)
    elif kind == "tied":
        h = np.zeros_like(q)  # one covariance for all components absorbs next to nothing in each
    else:
        h = 0.5 * q * q
    v = np.maximum(1.0 - np.exp(-q) * (1.0 + q + h), 0.0)
    a = np.maximum(fit.weights, 0.0)
    return v[0] if len(v) == 1 else (a / a.sum()) @ v


def noise_floor(problem: Problem, fit: Fit, kind: str) -> tuple[float, float]:
    """Expected misfit of the right model, and its relative standard deviation."""
    v = problem.u * tangent_variance(problem, fit, kind)
    freedom = max(1.0 - 0.5 * n_parameters(len(fit.means), problem.dim, kind) / problem.size, 0.1)
    total = float(v.sum())
    return max(total * freedom / problem.n, 1e-14), float(np.sqrt((v * v).sum()) / max(total, 1e-30))


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
        chunk = _Chunk(problem, fit, kind, smallest, largest, strength)
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


def pooled(fit: Fit, kind: str) -> Array:
    """Average within-component covariance in the shape of one component, slightly rounded."""
    s: Array
    if kind == "tied":
        s = fit.covariances
    else:
        a = np.maximum(fit.weights, 1e-9)
        s = np.tensordot(a / a.sum(), fit.covariances, 1)
    if kind == "spherical":
        return s
    if kind == "diag":
        return 0.98 * s + 0.02 * float(s.mean())
    d = len(s)
    return 0.98 * s + 0.02 * float(np.trace(s)) / d * np.eye(d)


def _cholesky(s: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(s), np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(s)
        floor = 1e-6 * np.maximum(values[..., -1:], 1e-12)
        positive = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return np.asarray(np.linalg.cholesky(positive), np.float64)


def _floored(s: Array, pool: Array, kind: str) -> Array:
    """Covariances with eigenvalues relative to the pool floored."""
    if kind in ("spherical", "diag"):
        return np.maximum(s, _EIGENVALUE_FLOOR * pool)
    root = np.linalg.cholesky(pool)
    inverse = np.linalg.inv(root)
    relative = inverse @ s @ inverse.T
    values, vectors = np.linalg.eigh(0.5 * (relative + np.swapaxes(relative, -1, -2)))
    if (values >= _EIGENVALUE_FLOOR).all():
        return s
    clipped = (vectors * np.maximum(values, _EIGENVALUE_FLOOR)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return root @ clipped @ root.T


class _Chunk:
    """Coordinates and objective of one stretch of iterations."""

    def __init__(self, problem: Problem, fit: Fit, kind: str, smallest: float, largest: float, strength: float) -> None:
        self.problem, self.kind, self.strength = problem, kind, strength
        self.k, self.d = fit.means.shape
        self.pool = pooled(fit, kind)
        s = _floored(fit.covariances, self.pool, kind) if strength > 0 else fit.covariances
        self.means, self.base = fit.means, s
        self.a, self.b = np.tril_indices(self.d)
        self.diagonal = self.a == self.b
        self.factor = np.sqrt(s) if kind in ("spherical", "diag") else _cholesky(s)
        if strength > 0:
            self.pool_root = np.sqrt(self.pool) if kind in ("spherical", "diag") else np.linalg.cholesky(self.pool)
        self.unit_f = max(1e-3 * problem.energy, 1e-12)
        self._scales(fit.weights)
        edge = 0.5 * np.log(smallest), 0.5 * np.log(largest)
        shape = self.unit_s.shape
        if kind in ("spherical", "diag"):
            log = np.log(self.factor)
            low, high = edge[0] - log, edge[1] - log
        else:
            low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
            log = np.log(np.diagonal(self.factor, axis1=-2, axis2=-1))
            low[..., self.diagonal], high[..., self.diagonal] = edge[0] - log, edge[1] - log
        # a trust region of one unit around the start, re-centred with every chunk
        low = np.maximum(np.minimum(low, 0.0), -1.0) / self.unit_s
        high = np.minimum(np.maximum(high, 0.0), 1.0) / self.unit_s
        free = np.full(self.k * self.d, np.inf)
        self.lower = np.concatenate([-free, np.zeros(self.k), low.ravel()])
        self.upper = np.concatenate([free, np.full(self.k, np.inf), high.ravel()])
        self.start = np.concatenate([np.zeros(self.k * self.d), fit.weights / self.unit_a, np.zeros(self.unit_s.size)])

    def _scales(self, weights: Array) -> None:
        p, k, d = self.problem, self.k, self.d
        cosine, sine, _ = p.atoms(self.means, broadcast(self.base, self.kind), np.zeros(k))
        e2 = (cosine**2 + sine**2) * p.u
        a2 = np.maximum(weights, 0.05 * max(float(weights.mean()), 1e-6)) ** 2
        op = p.operator
        h_a = e2.sum(1).astype(np.float64)
        if self.kind == "spherical":
            y2 = op.squared_norms * self.base[:, None].astype(np.float32)
            h_c = (a2 * (e2 * y2).sum(1) / d)[:, None] * np.ones((1, d))
            h_s = a2 * (e2 * y2 * y2).sum(1)
        elif self.kind == "diag":
            h_c = a2[:, None] * (e2 @ op._squares) * self.base
            h_s = a2[:, None] * (e2 @ (op._squares**2)) * self.base**2
        elif self.kind == "tied":
            y2 = (op._matrix @ self.factor.astype(np.float32)) ** 2
            h_c = a2[:, None] * (e2 @ y2)
            total = a2.astype(np.float32) @ e2
            h_s = ((y2 * total[:, None]).T @ y2)[self.a, self.b]
        else:
            h_c, h_s = np.empty((k, d)), np.empty((k, len(self.a)))
            for i in range(k):
                y2 = (op._matrix @ self.factor[i].astype(np.float32)) ** 2
                h_c[i] = a2[i] * (e2[i] @ y2)
                h_s[i] = a2[i] * ((y2 * e2[i][:, None]).T @ y2)[self.a, self.b]
        if self.strength > 0:
            if self.kind == "spherical":
                h_s = h_s + 4 * self.strength * d * self.pool / self.base
            elif self.kind == "diag":
                h_s = h_s + 4 * self.strength * self.pool / self.base
            else:
                root = np.linalg.solve(self.factor, np.broadcast_to(self.pool_root, self.factor.shape))
                h_s = h_s + 4 * self.strength * (root**2).sum(-1)[..., self.a]
        self.unit_a = 1 / np.sqrt(np.maximum(h_a, 1e-3 * h_a.max()))
        self.unit_c = 1 / np.sqrt(np.maximum(h_c, max(1e-3 * float(h_c.mean()), 1e-30)))
        self.unit_s = 1 / np.sqrt(np.maximum(h_s, max(1e-3 * float(np.mean(h_s)), 1e-30)))

    def _triangular(self, p: Array) -> Array:
        m = np.zeros((*p.shape[:-1], self.d, self.d))
        m[..., self.a, self.b] = np.where(self.diagonal, np.exp(np.where(self.diagonal, p, 0.0)), p)
        return m

    def _move(self, v: Array) -> tuple[Array, Array, Array, Array | None, Array | None]:
        k, d = self.k, self.d
        t = v[: k * d].reshape(k, d) * self.unit_c
        weights = v[k * d : k * d + k] * self.unit_a
        p = v[k * d + k :].reshape(self.unit_s.shape) * self.unit_s
        if self.kind == "spherical":
            return self.means + t * self.factor[:, None], weights, self.base * np.exp(2 * p), None, None
        if self.kind == "diag":
            return self.means + t * self.factor, weights, self.base * np.exp(2 * p), None, None
        m = self._triangular(p)
        lower = self.factor @ m
        if self.kind == "tied":
            means = self.means + t @ self.factor.T
        else:
            means = self.means + (self.factor @ t[:, :, None])[:, :, 0]
        return means, weights, lower @ np.swapaxes(lower, -1, -2), m, lower

    def unpack(self, v: Array) -> Fit:
        means, weights, covariances, _, _ = self._move(v)
        return Fit(means, weights, covariances, np.inf)

    def objective(self, v: Array) -> tuple[float, Array]:
        p = self.problem
        means, weights, s, m, lower = self._move(v)
        value, along, products, cross, _, _ = p.value_and_products(means, broadcast(s, self.kind), weights)
        g_c = -2.0 * weights[:, None] * p.operator.adjoint(cross)
        g_s = self._covariance_gradient(products, weights)
        if self.strength > 0:
            penalty, g_p = self._penalty(s, lower)
            value += self.strength * penalty
            g_s = g_s + self.strength * g_p
        if m is None or lower is None:
            g_t = g_c * (self.factor[:, None] if self.kind == "spherical" else self.factor)
            g_q = 2 * g_s * s
        else:
            if self.kind == "tied":
                g_t = g_c @ self.factor
            else:
                g_t = (np.swapaxes(self.factor, 1, 2) @ g_c[:, :, None])[:, :, 0]
            g_m = np.swapaxes(self.factor, -1, -2) @ (2 * g_s @ lower)
            g_q = g_m[..., self.a, self.b] * np.where(self.diagonal, m[..., self.a, self.b], 1.0)
        gradient = np.concatenate([(g_t * self.unit_c).ravel(), along * self.unit_a, (g_q * self.unit_s).ravel()])
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e12, np.zeros(len(v))
        return value / self.unit_f, gradient / self.unit_f

    def _covariance_gradient(self, products: F32, weights: Array) -> Array:
        """d(misfit)/dS from Re(conj(r) atom) products (k, m)."""
        op, d = self.problem.operator, self.d
        if self.kind == "spherical":
            return weights * (products @ op.squared_norms)
        if self.kind == "diag":
            return weights[:, None] * (products @ op._squares)
        if self.kind == "tied":
            packed = (weights.astype(np.float32) @ products) @ op._products
        else:
            packed = weights[:, None] * (products @ op._products)
        packed = packed / np.where(self.diagonal, 1.0, 2.0)
        g = np.zeros((*packed.shape[:-1], d, d))
        g[..., self.a, self.b] = packed
        g[..., self.b, self.a] = packed
        return g

    def _penalty(self, s: Array, lower: Array | None) -> tuple[float, Array]:
        """sum_l [tr(S_l^-1 P) + log det S_l] and its gradient, from triangular factors (never from S^-1 itself)."""
        if lower is None:
            d = self.d if self.kind == "spherical" else 1
            return float(d * (self.pool / s + np.log(s)).sum()), d * (1.0 / s - self.pool / s**2)
        inverse = np.linalg.inv(lower)
        y = inverse @ self.pool_root
        z = np.swapaxes(inverse, -1, -2) @ y
        value = float((y * y).sum() + 2 * np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum())
        return value, np.swapaxes(inverse, -1, -2) @ inverse - z @ np.swapaxes(z, -1, -2)
