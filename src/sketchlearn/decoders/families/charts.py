"""Coordinates in which mixtures are refined: one chart for each form of shape.

A chart is laid around the shapes at the start of some iterations and laid anew later.  Means are ``c + L t`` with L a
square root of the covariance there, covariances ``L M M' L'`` with M lower triangular and a logarithmic diagonal, or
logarithms of standard deviations along the axes.  The diagonal of the Gauss-Newton matrix, which scales all
coordinates, is known in closed form.  A penalty ``strength * sum_l [tr(S_l^-1 P) + log det S_l]`` (inverse Wishart, P
the pooled covariance) keeps directions that the sketch does not resolve from collapsing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders.families.base import Family
from sketchlearn.decoders.noise import PROBES
from sketchlearn.features.operator import Operator

if TYPE_CHECKING:
    from sketchlearn.decoders.families.factors import Factors

_LEAST = 1e-3  # of the mean or pooled one: eigenvalues where there is a penalty, and curvatures, are no smaller


@dataclass(frozen=True, eq=False)
class Frame:
    """The mixture that a chart is laid around, and what limits it."""

    operator: Operator
    u: AnyArray  # weights of the frequencies
    means: Array
    weights: Array
    shapes: Array
    smallest: float  # variance of a component
    largest: float
    strength: float  # of the penalty

    @property
    def squared_weights(self) -> Array:
        """Squares of the weights, (k,): components lighter than 0.05 of the mean move as if they weighed that much."""
        return np.asarray(np.maximum(self.weights, 0.05 * max(float(self.weights.mean()), 1e-6)) ** 2)

    @property
    def log_widths(self) -> tuple[float, float]:
        """Logarithms of the smallest and the largest standard deviation."""
        return 0.5 * float(np.log(self.smallest)), 0.5 * float(np.log(self.largest))


class Chart(ABC):
    """Coordinates t of the means (k, d) and p of the shapes around a frame; zero in the frame itself."""

    lower: Array
    upper: Array
    """Bounds of p."""

    def __init__(self, family: Family, frame: Frame) -> None:
        self.family, self.frame = family, frame

    @abstractmethod
    def shapes(self, p: Array) -> tuple[Array, Any]:
        """Shapes at coordinates p, and what the gradient needs again."""

    @abstractmethod
    def pull(self, g: Array, shapes: Array, kept: Any) -> Array:
        """Gradient in p from that in the shapes."""

    @abstractmethod
    def curvatures(self, e2: AnyArray) -> tuple[Array, Array]:
        """Diagonal of the Gauss-Newton matrix in t and p, for weighted squared envelopes (k, m)."""

    def means(self, t: Array) -> Array:
        """Means at coordinates t."""
        return self.frame.means + t

    def pull_means(self, g: Array) -> Array:
        """Gradient in t from that in the means."""
        return g

    def penalty(self, shapes: Array, kept: Any) -> tuple[float, Array | float]:
        """Penalty over its strength, and its gradient in the shapes."""
        return 0.0, 0.0


def floored(h: Array) -> Array:
    """Curvatures that are no smaller than a share of their mean."""
    return np.maximum(h, max(_LEAST * float(np.mean(h)), 1e-30)) if h.size else h


def trusted(low: Array, high: Array, down: float = 1.0) -> tuple[Array, Array]:
    """Bounds that contain zero, within a trust region of `down` below and one above."""
    return np.maximum(np.minimum(low, 0.0), -down), np.minimum(np.maximum(high, 0.0), 1.0)


class PlainChart(Chart):
    """The shape parameters themselves, within their bounds."""

    def __init__(self, family: Family, frame: Frame) -> None:
        super().__init__(family, frame)
        low, high = family.bounds(frame.means.shape[1], frame.smallest, frame.largest)
        self.base = np.clip(frame.shapes, low, high)
        self.lower, self.upper = low - self.base, high - self.base

    def shapes(self, p: Array) -> tuple[Array, Any]:
        return self.base + p, None

    def pull(self, g: Array, shapes: Array, kept: Any) -> Array:
        return g

    def curvatures(self, e2: AnyArray) -> tuple[Array, Array]:
        frame, operator = self.frame, self.frame.operator
        a2 = frame.squared_weights
        h_t = a2[:, None] * operator.quadratic_adjoint(e2, "diag")
        h_p, signs = np.zeros(self.base.shape), np.random.default_rng(0)
        rows = np.sqrt(e2 * a2[:, None].astype(e2.dtype))
        for _ in range(PROBES if h_p.size else 0):
            probe = rows * signs.choice(np.array([-1.0, 1.0], e2.dtype), e2.shape)
            if self.family.shared:
                probe = probe.sum(0, keepdims=True)
            h_p += np.asarray(self.family.damping_vjp(self.base, operator, probe), np.float64) ** 2 / PROBES
        if h_p.size:  # floored for each number apart, as these may have different units
            h_p = np.maximum(h_p, np.maximum(_LEAST * h_p.mean(0, keepdims=True), 1e-30))
        return floored(np.asarray(h_t, np.float64)), h_p


class AxisChart(Chart):
    """Logarithms of standard deviations along the axes, for round and diagonal covariances."""

    def __init__(self, family: Family, frame: Frame) -> None:
        super().__init__(family, frame)
        self.pool = family.pooled(frame.shapes, frame.weights)
        self.base = np.maximum(frame.shapes, _LEAST * self.pool) if frame.strength > 0 else frame.shapes
        self.width = np.sqrt(self.base)
        self.columns = self.width[:, None] if self.width.ndim == 1 else self.width
        low, high = frame.log_widths
        self.lower, self.upper = trusted(low - np.log(self.width), high - np.log(self.width))
        self.repeats = float(frame.means.shape[1]) if self.base.ndim == 1 else 1.0  # coordinates that share a variance

    def shapes(self, p: Array) -> tuple[Array, Any]:
        return self.base * np.exp(2.0 * p), None

    def pull(self, g: Array, shapes: Array, kept: Any) -> Array:
        return 2.0 * g * shapes

    def means(self, t: Array) -> Array:
        return self.frame.means + t * self.columns

    def pull_means(self, g: Array) -> Array:
        return g * self.columns

    def curvatures(self, e2: AnyArray) -> tuple[Array, Array]:
        frame, operator = self.frame, self.frame.operator
        a2 = frame.squared_weights
        if self.base.ndim == 1:
            y2 = operator.squared_norms * self.base[:, None].astype(e2.dtype)
            h_t = np.repeat((a2 * (e2 * y2).sum(1))[:, None], frame.means.shape[1], 1) / frame.means.shape[1]
            h_p = a2 * (e2 * y2 * y2).sum(1)
            if self.family.shared:
                h_p = np.array([float(h_p.sum())])
        else:
            h_t = a2[:, None] * operator.powers_adjoint(e2, 2) * self.base
            h_p = a2[:, None] * operator.powers_adjoint(e2, 4) * self.base**2
        h_p = h_p + 4.0 * frame.strength * self.repeats * self.pool / self.base
        return floored(np.asarray(h_t, np.float64)), floored(np.asarray(h_p, np.float64))

    def penalty(self, shapes: Array, kept: Any) -> tuple[float, Array | float]:
        value = float(self.repeats * (self.pool / shapes + np.log(shapes)).sum())
        return value, self.repeats * (1.0 / shapes - self.pool / shapes**2)


class MatrixChart(Chart):
    """Lower triangular matrices with a logarithmic diagonal, relative to Cholesky factors."""

    def __init__(self, family: Family, frame: Frame) -> None:
        super().__init__(family, frame)
        self.d = frame.means.shape[1]
        self.a, self.b = np.tril_indices(self.d)
        self.diagonal = self.a == self.b
        self.pool = family.pooled(frame.shapes, frame.weights)[0]
        base = self._floored(frame.shapes) if frame.strength > 0 else frame.shapes
        self.root = cholesky(base)
        self.pool_root = cholesky(self.pool) if frame.strength > 0 else None
        shape = (len(base), len(self.a))
        self.lower, self.upper = np.full(shape, -1.0), np.full(shape, 1.0)
        low, high = frame.log_widths
        log = np.log(np.diagonal(self.root, axis1=1, axis2=2))
        self.lower[:, self.diagonal], self.upper[:, self.diagonal] = trusted(low - log, high - log)

    def _floored(self, s: Array) -> Array:
        """Covariances whose eigenvalues relative to the pool are not too small."""
        root = cholesky(self.pool)
        inverse = np.linalg.inv(root)
        relative = inverse @ s @ inverse.T
        values, vectors = np.linalg.eigh(0.5 * (relative + np.swapaxes(relative, -1, -2)))
        if (values >= _LEAST).all():
            return s
        clipped = (vectors * np.maximum(values, _LEAST)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return np.asarray(root @ clipped @ root.T)

    def shapes(self, p: Array) -> tuple[Array, Any]:
        m = np.zeros((len(p), self.d, self.d))
        m[:, self.a, self.b] = np.where(self.diagonal, np.exp(np.where(self.diagonal, p, 0.0)), p)
        lower = self.root @ m
        return lower @ np.swapaxes(lower, 1, 2), (m, lower)

    def pull(self, g: Array, shapes: Array, kept: Any) -> Array:
        m, lower = kept
        g_m = np.swapaxes(self.root, 1, 2) @ (2.0 * g @ lower)
        return np.asarray(g_m[:, self.a, self.b] * np.where(self.diagonal, m[:, self.a, self.b], 1.0))

    def means(self, t: Array) -> Array:
        return self.frame.means + (self.root @ t[:, :, None])[:, :, 0]

    def pull_means(self, g: Array) -> Array:
        return np.asarray((np.swapaxes(self.root, 1, 2) @ g[:, :, None])[:, :, 0])

    def curvatures(self, e2: AnyArray) -> tuple[Array, Array]:
        a2 = self.frame.squared_weights
        h_t, h_p = np.empty(self.frame.means.shape), np.empty(self.lower.shape)
        if self.family.shared:
            y2 = self.frame.operator.forward(self.root[0].T) ** 2
            h_t[:] = a2[:, None] * (e2 @ y2.T)
            h_p[0] = ((y2 * (a2.astype(e2.dtype) @ e2)) @ y2.T)[self.a, self.b]
        else:
            for l, root in enumerate(self.root):
                y2 = self.frame.operator.forward(root.T) ** 2
                h_t[l] = a2[l] * (y2 @ e2[l])
                h_p[l] = a2[l] * ((y2 * e2[l]) @ y2.T)[self.a, self.b]
        if self.pool_root is not None:
            relative = np.linalg.solve(self.root, np.broadcast_to(self.pool_root, self.root.shape))
            h_p += 4.0 * self.frame.strength * (relative**2).sum(-1)[:, self.a]
        return floored(h_t), floored(h_p)

    def penalty(self, shapes: Array, kept: Any) -> tuple[float, Array | float]:
        """From triangular factors, never from S^-1 itself."""
        lower = kept[1]
        inverse = np.linalg.inv(lower)
        y = inverse @ self.pool_root
        z = np.swapaxes(inverse, 1, 2) @ y
        value = float((y * y).sum() + 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum())
        return value, np.swapaxes(inverse, 1, 2) @ inverse - z @ np.swapaxes(z, 1, 2)


class FactorChart(Chart):
    """Logarithms of the diagonal, and the factors as they are; the penalty is that of the diagonal."""

    def __init__(self, family: Factors, frame: Frame) -> None:
        super().__init__(family, frame)
        self.base = frame.shapes
        self.total = self.base[:, 0] + (self.base[:, 1:] ** 2).sum(1)
        pool = frame.weights @ self.total / frame.weights.sum()
        self.pool = 0.98 * pool + 0.02 * pool.mean()
        self.lower, self.upper = np.full(self.base.shape, -np.inf), np.full(self.base.shape, np.inf)
        low, high = frame.log_widths
        log = 0.5 * np.log(self.base[:, 0])
        self.lower[:, 0], self.upper[:, 0] = trusted(low - log, high - log, down=2.0)

    def shapes(self, p: Array) -> tuple[Array, Any]:
        out = self.base + p
        out[:, 0] = self.base[:, 0] * np.exp(2.0 * p[:, 0])
        return out, None

    def pull(self, g: Array, shapes: Array, kept: Any) -> Array:
        out = g.copy()
        out[:, 0] *= 2.0 * shapes[:, 0]
        return out

    def curvatures(self, e2: AnyArray) -> tuple[Array, Array]:
        frame, operator, d = self.frame, self.frame.operator, self.base.shape[2]
        a2 = frame.squared_weights[:, None]
        h_t = a2 * operator.quadratic_adjoint(e2, "diag")
        # (w_a^4 on average, as for frequencies that go in all directions alike: 3 / (d (d + 2)) of |w|^4)
        fourth = (e2 @ operator.squared_norms**2).astype(np.float64) * 3.0 / (d * (d + 2.0))
        along = floored(a2 * fourth[:, None] * self.total**2 + 4.0 * frame.strength * self.pool / self.total)
        h_p = np.repeat((along / (2.25 * self.total))[:, None], self.base.shape[1], 1)
        h_p[:, 0] = along
        return floored(np.asarray(h_t, np.float64)), h_p

    def penalty(self, shapes: Array, kept: Any) -> tuple[float, Array | float]:
        s = shapes[:, 0]
        gradient = np.zeros_like(shapes)
        gradient[:, 0] = 1.0 / s - self.pool / s**2
        return float((self.pool / s + np.log(s)).sum()), gradient


def cholesky(s: Array) -> Array:
    """Cholesky factors of matrices that are positive up to rounding."""
    try:
        return np.asarray(np.linalg.cholesky(s), np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(s)
        least = 1e-6 * np.maximum(values[..., -1:], 1e-12)
        positive = (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return np.asarray(np.linalg.cholesky(positive), np.float64)
