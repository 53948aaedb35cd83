"""Covariances of a mixture in their four shapes, one class a shape: conversions, parts, and what a fit absorbs.

Arrays are (k,) for spherical, (k, d) for diagonal, (k, d, d) for full and (d, d) for tied covariances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.designs.gmm import parameter_count
from sketchlearn.features.operator import Operator

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

_SPLIT = 0.8  # halves of a component move this many standard deviations apart along its longest axis


class Covariances(ABC):
    """A shape of covariances; arrays of them are in the shape's own form."""

    name: ClassVar[str]

    def parameters(self, k: int, d: int) -> int:
        """Free parameters of a mixture."""
        return parameter_count(k, d, self.name)

    @abstractmethod
    def to_full(self, s: Array, k: int, d: int) -> Array:
        """One matrix per component."""

    @abstractmethod
    def from_full(self, matrices: Array, weights: Array) -> Array:
        """The closest covariances of this shape (moment matching)."""

    @abstractmethod
    def mean_variances(self, s: Array, k: int) -> Array:
        """Average variance of each component over the coordinates, (k,)."""

    def per_component(self, s: Array) -> Array:
        """As the problem's atoms take them: one for each component, or one that all share."""
        return s

    def select(self, s: Array, keep: Index) -> Array:
        """Those of some of the components."""
        return s[keep]

    def joined(self, s: Array, more: Array) -> Array:
        """Those of more components."""
        return np.concatenate([s, more])

    def rounded(self, variance: float, d: int) -> Array:
        """That of one round component."""
        return self.from_full(variance * np.eye(d)[None], np.ones(1))

    @abstractmethod
    def halved(self, s: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """A step to either side of component l, and the covariances of all with both halves, the second one last."""

    @abstractmethod
    def pooled(self, s: Array, weights: Array) -> Array:
        """Average within-component covariance in the form of one component, slightly rounded."""

    @abstractmethod
    def pool_matrix(self, pool: Array, d: int) -> Array:
        """What :meth:`pooled` gives, as a matrix."""

    @abstractmethod
    def absorbed(self, operator: Operator, s: Array, q: Array) -> Array:
        """The part h of :func:`~sketchlearn.decoders.noise.left_by_gaussian`, for quadratic forms q, like q."""

    @abstractmethod
    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        """The same for pairs of frequencies w with ``cross = w S w'``, within one component."""


class Spherical(Covariances):
    """One variance per component."""

    name = "spherical"

    def to_full(self, s: Array, k: int, d: int) -> Array:
        return s[:, None, None] * np.eye(d)

    def from_full(self, matrices: Array, weights: Array) -> Array:
        return np.trace(matrices, axis1=1, axis2=2) / matrices.shape[-1]

    def mean_variances(self, s: Array, k: int) -> Array:
        return s

    def halved(self, s: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        direction = rng.standard_normal((d,))
        step = _SPLIT * float(np.sqrt(s[l])) * (direction / float(np.linalg.norm(direction)))
        return step, self.joined(s, s[l : l + 1])

    def pooled(self, s: Array, weights: Array) -> Array:
        return _average(s, weights)

    def pool_matrix(self, pool: Array, d: int) -> Array:
        return float(pool) * np.eye(d)

    def absorbed(self, operator: Operator, s: Array, q: Array) -> Array:
        return q * q / (2.0 * operator.shape[1])

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        q = np.diag(cross)
        return np.outer(q, q) / (2 * w.shape[1])


class Diagonal(Covariances):
    """One variance per component and coordinate."""

    name = "diag"

    def to_full(self, s: Array, k: int, d: int) -> Array:
        return s[:, :, None] * np.eye(d)

    def from_full(self, matrices: Array, weights: Array) -> Array:
        return np.diagonal(matrices, axis1=1, axis2=2).copy()

    def mean_variances(self, s: Array, k: int) -> Array:
        return s.mean(1)

    def halved(self, s: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        axis = np.eye(d)[int(np.argmax(s[l]))]
        step = _SPLIT * float(np.sqrt(s[l].max())) * axis
        s = s.copy()
        s[l] = s[l] - step**2
        return step, self.joined(s, s[l : l + 1])

    def pooled(self, s: Array, weights: Array) -> Array:
        pool = _average(s, weights)
        return 0.98 * pool + 0.02 * float(pool.mean())

    def pool_matrix(self, pool: Array, d: int) -> Array:
        return np.diag(pool)

    def absorbed(self, operator: Operator, s: Array, q: Array) -> Array:
        return 0.5 * ((s**2) @ (coordinate_squares(operator).astype(np.float64) ** 2))

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        squares = w * w * np.diag(matrix)
        return 0.5 * squares @ squares.T


class Full(Covariances):
    """A matrix per component."""

    name = "full"

    def to_full(self, s: Array, k: int, d: int) -> Array:
        return s

    def from_full(self, matrices: Array, weights: Array) -> Array:
        return matrices

    def mean_variances(self, s: Array, k: int) -> Array:
        return np.trace(s, axis1=-2, axis2=-1) / s.shape[-1]

    def halved(self, s: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        step = _longest(s[l])
        s = s.copy()
        s[l] = s[l] - np.outer(step, step)
        return step, self.joined(s, s[l : l + 1])

    def pooled(self, s: Array, weights: Array) -> Array:
        return _rounded_matrix(_average(s, weights))

    def pool_matrix(self, pool: Array, d: int) -> Array:
        return pool

    def absorbed(self, operator: Operator, s: Array, q: Array) -> Array:
        return 0.5 * q * q

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        return 0.5 * cross**2


class Tied(Covariances):
    """One matrix that all components share; it absorbs next to nothing in each of them."""

    name = "tied"

    def to_full(self, s: Array, k: int, d: int) -> Array:
        return np.repeat(s[None], k, 0)

    def from_full(self, matrices: Array, weights: Array) -> Array:
        w = np.maximum(weights, 1e-12)
        return np.tensordot(w / w.sum(), matrices, 1)

    def mean_variances(self, s: Array, k: int) -> Array:
        return np.broadcast_to(np.trace(s) / len(s), (k,))

    def per_component(self, s: Array) -> Array:
        return s[None]

    def select(self, s: Array, keep: Index) -> Array:
        return s

    def joined(self, s: Array, more: Array) -> Array:
        return s

    def halved(self, s: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return _longest(s), s

    def pooled(self, s: Array, weights: Array) -> Array:
        return _rounded_matrix(s)

    def pool_matrix(self, pool: Array, d: int) -> Array:
        return pool

    def absorbed(self, operator: Operator, s: Array, q: Array) -> Array:
        return np.zeros_like(q)

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        return np.zeros_like(cross)


KINDS: dict[str, Covariances] = {shape.name: shape for shape in (Spherical(), Diagonal(), Full(), Tied())}
"""Shapes of covariances by name."""


def convert(s: Array, weights: Array, d: int, before: str, after: str) -> Array:
    """Covariances of one shape as another."""
    if before == after:
        return s
    return KINDS[after].from_full(KINDS[before].to_full(s, len(weights), d), weights)


def coordinate_squares(operator: Operator) -> Array:
    """Squares of the coordinates of the frequencies, (d, m)."""
    return operator.quadratic(np.eye(operator.shape[1]))


def _average(s: Array, weights: Array) -> Array:
    a = np.maximum(weights, 1e-9)
    return np.tensordot(a / a.sum(), s, 1)


def _rounded_matrix(s: Array) -> Array:
    d = len(s)
    return 0.98 * s + 0.02 * float(np.trace(s)) / d * np.eye(d)


def _longest(s: Array) -> Array:
    """The step of a half along the longest axis of a matrix."""
    values, vectors = np.linalg.eigh(s)
    return np.asarray(_SPLIT * float(np.sqrt(values[-1])) * vectors[:, -1])


# -- merging ------------------------------------------------------------------------------------------


def merged_pairs(means: Array, weights: Array, matrices: Array) -> tuple[Index, Array, Array, Array]:
    """All pairs (i, j) of components and their moment-matched unions: weights, means, matrices."""
    i, j = np.tril_indices(len(weights), -1)
    total = weights[i] + weights[j]
    part = weights[i] / np.maximum(total, 1e-300)
    gap = means[i] - means[j]
    center = means[j] + part[:, None] * gap
    spread = (part * (1 - part))[:, None, None] * gap[:, :, None] * gap[:, None, :]
    inner = part[:, None, None] * matrices[i] + (1 - part)[:, None, None] * matrices[j]
    return np.stack([i, j]), total, center, inner + spread


def reduce_mixture(means: Array, weights: Array, matrices: Array, k: int) -> tuple[Array, Array, Array]:
    """Merge components until k are left, each time the pair with the smallest bound on the information lost.

    Runnalls (2007), "Kullback-Leibler approach to Gaussian mixture reduction", eq. 21.
    """
    while len(weights) > k:
        pairs, total, center, joint = merged_pairs(means, weights, matrices)
        alone = weights * np.linalg.slogdet(matrices)[1]
        cost = total * np.linalg.slogdet(joint)[1] - alone[pairs[0]] - alone[pairs[1]]
        p = int(np.argmin(cost))
        keep = np.setdiff1d(np.arange(len(weights)), pairs[:, p])
        means = np.vstack([means[keep], center[p]])
        weights = np.append(weights[keep], total[p])
        matrices = np.concatenate([matrices[keep], joint[p : p + 1]])
    return means, weights, matrices
