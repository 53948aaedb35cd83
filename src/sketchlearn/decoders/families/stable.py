"""Elliptic alpha-stable components: e(w) = exp(-(w'Sw/2)^(alpha/2)); alpha = 2 is the Gaussian."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from sketchlearn.decoders.families.base import Array, Family, Index, Real
from sketchlearn.features.operator import Operator, lower_triangle

_SMALLEST_ALPHA, _FIRST_ALPHA = 0.3, 1.5


class Stable(Family):
    """Heavy-tailed components: stability alpha and a scatter matrix S (Keriven 2017, eq. 3.41, 5.21-5.23).

    Shapes are alpha, then the d diagonal entries of S (``scatter_type="diag"``) or the lower triangle of L
    with S = L L' (``"full"``).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.decoders.families import DIAGONAL, Stable
    >>> from sketchlearn.features.operator import DenseOperator
    >>> w, mean = DenseOperator(np.ones((1, 2))), np.zeros((1, 2))
    >>> stable = Stable("diag").values(mean, np.array([[2.0, 1.0, 3.0]]), w)
    >>> bool(np.allclose(stable, DIAGONAL.values(mean, np.array([[1.0, 3.0]]), w)))
    True
    """

    name = "stable"

    def __init__(self, scatter_type: str = "full") -> None:
        if scatter_type not in ("full", "diag"):
            raise ValueError(f"scatter_type={scatter_type!r}: choose 'full' or 'diag'")
        self.scatter_type = scatter_type

    def _half_form(self, shapes: Array, w: Operator) -> Real:
        """w'Sw/2."""
        inner = shapes[:, 1:]
        s = inner if self.scatter_type == "diag" else _squares(inner, w.shape[1])
        return np.maximum(0.5 * w.quadratic(s), np.finfo(w.dtype).tiny)

    def damping(self, shapes: Array, w: Operator) -> Real:
        return np.asarray(-(self._half_form(shapes, w) ** (0.5 * shapes[:, :1])))

    def damping_vjp(self, shapes: Array, w: Operator, cotangent: Real) -> Real:
        s = self._half_form(shapes, w)
        half = 0.5 * shapes[:, :1]
        pull = -cotangent * s**half
        out = np.empty_like(shapes)
        out[:, 0] = 0.5 * (pull * np.log(s)).sum(1)
        inner = pull * half / s  # derivative in w'Sw/2
        if self.scatter_type == "diag":
            out[:, 1:] = 0.5 * w.quadratic_adjoint(inner, "diag")
        else:
            d = w.shape[1]
            a, b = lower_triangle(d)
            out[:, 1:] = (w.quadratic_adjoint(inner, "full") @ _triangles(shapes[:, 1:], d))[:, a, b]
        return out

    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        if self.scatter_type == "diag":
            low, high = np.full(d, smallest), np.full(d, largest)
        else:
            a, b = lower_triangle(d)
            reach = np.sqrt(largest)
            low, high = np.where(a == b, np.sqrt(smallest), -reach), np.full(len(a), reach)
        return np.append(_SMALLEST_ALPHA, low), np.append(2.0, high)

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        v = np.array(variances, np.float64)[:, None]
        if self.scatter_type == "diag":
            return np.hstack([np.full_like(v, _FIRST_ALPHA), np.repeat(v, d, 1)])
        a, b = lower_triangle(d)
        return np.hstack([np.full_like(v, _FIRST_ALPHA), np.sqrt(v) * (a == b)])

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        s = shapes[:, 1:]
        return s[:, :, None] * np.eye(d) if self.scatter_type == "diag" else _squares(s, d)

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        s = shapes[:, 1:] if self.scatter_type == "diag" else _squares(shapes[:, 1:], d)
        return {"alphas": shapes[:, 0], "scatters": s}

    def sizes(self, d: int) -> npt.NDArray[np.bool_]:
        a, b = lower_triangle(d)
        return np.append(False, np.ones(d, bool) if self.scatter_type == "diag" else a == b)

    def draw(self, shapes: Array, owner: Index, d: int, rng: np.random.Generator) -> Array:
        out = np.empty((len(owner), d))
        for l, scatter in enumerate(self.covariances(shapes, len(shapes), d)):
            mine = owner == l
            out[mine] = sample_stable(int(mine.sum()), float(shapes[l, 0]), np.zeros(d), scatter, rng)
        return out


def _triangles(shapes: Array, d: int) -> Array:
    """Lower triangular matrices from their packed entries, (k, s) to (k, d, d)."""
    a, b = lower_triangle(d)
    lower = np.zeros((len(shapes), d, d))
    lower[:, a, b] = shapes
    return lower


def _squares(shapes: Array, d: int) -> Array:
    """Matrices L L' from the packed entries of L, (k, s) to (k, d, d)."""
    lower = _triangles(shapes, d)
    return np.asarray(lower @ lower.swapaxes(1, 2))


def sample_stable(
    count: int, alpha: float, location: npt.ArrayLike, scatter: npt.ArrayLike, rng: np.random.Generator
) -> Array:
    """Rows of an elliptic stable law.

    sqrt(A) L g + location, with g standard normal and A positive (alpha/2)-stable, ``E exp(-tA) = exp(-t^(alpha/2))``
    (Kanter 1975; Nolan 2013).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.decoders.families import sample_stable
    >>> sample_stable(5, 1.5, [0.0, 1.0], np.eye(2), np.random.default_rng(0)).shape
    (5, 2)
    """
    c, s = np.asarray(location, np.float64), np.asarray(scatter, np.float64)
    if not 0 < alpha <= 2:
        raise ValueError(f"alpha must be in (0, 2], got {alpha}")
    root = np.diag(np.sqrt(s)) if s.ndim == 1 else np.linalg.cholesky(s)
    normal = rng.standard_normal((count, len(c))) @ root.T
    if alpha == 2:
        return c + normal
    a = 0.5 * alpha
    angle, waiting = rng.uniform(0.0, np.pi, count), rng.exponential(size=count)
    mixing = np.sin(a * angle) / np.sin(angle) ** (1 / a) * (np.sin((1 - a) * angle) / waiting) ** ((1 - a) / a)
    return c + np.sqrt(mixing)[:, None] * normal


_ANGLES, _WAITS = 120, 360


@lru_cache(maxsize=64)
def _radial_table(alpha: float, d: int) -> tuple[Array, Array]:
    """Logarithms of squared Mahalanobis distances, and of the density there for a scatter of determinant 1.

    The law is a normal law whose variance A is positive stable; with Kanter's formula for A the density is a double
    integral over an angle and an exponential variable, done by Gauss-Legendre and by the trapezoid rule.
    """
    grid = np.linspace(-14.0, 46.0, 400)
    if alpha >= 2.0 - 1e-9:
        return grid, -0.5 * (np.exp(grid) + d * np.log(2 * np.pi))
    a = 0.5 * alpha
    nodes, mass = np.polynomial.legendre.leggauss(_ANGLES)
    # a substitution that packs nodes at both ends, where the variance is extreme
    t = 0.5 * (nodes + 1)
    angle = np.pi * t * t * (3 - 2 * t)
    mass = mass * 0.5 * 6 * t * (1 - t)
    waits = np.linspace(-36.0, 4.0, _WAITS)
    weight = np.log(waits[1] - waits[0]) + waits - np.exp(waits)
    base = np.log(np.sin(a * angle)) - np.log(np.sin(angle)) / a + (1 - a) / a * np.log(np.sin((1 - a) * angle))
    log_variance = (base[:, None] - (1 - a) / a * waits).ravel()
    log_mass = (np.log(mass)[:, None] + weight).ravel()
    order = log_mass > -60
    log_variance, log_mass = log_variance[order], log_mass[order]
    table = np.empty(len(grid))
    constant = log_mass - 0.5 * d * (np.log(2 * np.pi) + log_variance)
    for i, log_r2 in enumerate(grid):
        table[i] = logsumexp(constant - 0.5 * np.exp(np.minimum(log_r2 - log_variance, 700.0)))
    return grid, table


def stable_log_density(X: npt.ArrayLike, alpha: float, location: npt.ArrayLike, scatter: npt.ArrayLike) -> Array:
    """Log-density of an elliptic stable law at some rows (relative error below about 1e-3).

    Examples
    --------
    >>> from sketchlearn.decoders.families import stable_log_density
    >>> stable_log_density([[0.0]], 1.0, [0.0], [2.0]).round(3)  # the Cauchy law: 1 / pi at its centre
    array([-1.145])
    """
    x, c, s = np.asarray(X, np.float64), np.asarray(location, np.float64), np.asarray(scatter, np.float64)
    root = np.diag(np.sqrt(s)) if s.ndim == 1 else np.linalg.cholesky(s)
    y = np.linalg.solve(root, (x - c).T)
    log_r2 = np.log(np.maximum((y * y).sum(0), 1e-12))
    grid, table = _radial_table(float(alpha), len(c))
    out = np.interp(log_r2, grid, table)
    beyond = log_r2 > grid[-1]  # a power law from there on
    slope = (table[-1] - table[-2]) / (grid[-1] - grid[-2])
    out[beyond] = table[-1] + slope * (log_r2[beyond] - grid[-1])
    return out - np.log(np.diag(root)).sum()
