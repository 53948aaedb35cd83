"""Draws and densities of elliptic alpha-stable laws."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array


def sample_stable(
    count: int, alpha: float, location: npt.ArrayLike, scatter: npt.ArrayLike, rng: np.random.Generator
) -> Array:
    """Rows of an elliptic stable law.

    sqrt(A) L g + location, with g standard normal and A positive (alpha/2)-stable, ``E exp(-tA) = exp(-t^(alpha/2))``
    (Kanter 1975; Nolan 2013).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models.stable_law import sample_stable
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
        exponents = constant - 0.5 * np.exp(np.minimum(log_r2 - log_variance, 700.0))
        largest = exponents.max()
        table[i] = largest + np.log(np.exp(exponents - largest).sum())
    return grid, table


def stable_log_density(X: npt.ArrayLike, alpha: float, location: npt.ArrayLike, scatter: npt.ArrayLike) -> Array:
    """Log-density of an elliptic stable law at some rows (relative error below about 1e-3).

    Examples
    --------
    >>> from sketchlearn.models.stable_law import stable_log_density
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
