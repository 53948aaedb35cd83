"""Gaussian components, ``e(w) = exp(-w'Sw/2)``, with every shape of covariance S.

Shapes are one variance (1,) that all share, (k,) variances, (k, d) diagonals, (k, d, d) matrices or one matrix
(1, d, d).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Flags
from sketchlearn.decoders import noise
from sketchlearn.decoders.families.base import HALF_STEP, Family
from sketchlearn.features.operator import DenseOperator, Operator, lower_triangle


class Gaussian(Family):
    """What Gaussian families have in common."""

    like: ClassVar[str]
    """Form of the covariances, as operators name it."""
    projected = True

    def damping(self, shapes: Array, w: Operator) -> AnyArray:
        return w.quadratic(-0.5 * shapes)

    def damping_vjp(self, shapes: Array, w: Operator, cotangent: AnyArray) -> AnyArray:
        return -0.5 * w.quadratic_adjoint(cotangent, self.like)

    def pooled(self, shapes: Array, weights: Array) -> Array:
        """The average shape, slightly rounded."""
        pool = super().pooled(shapes, weights)
        if pool.ndim < 2:
            return pool
        variance = pool.mean() if pool.ndim == 2 else float(np.trace(pool[0])) / pool.shape[-1] * np.eye(pool.shape[-1])
        return 0.98 * pool + 0.02 * variance

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        return {"covariances": shapes}

    def absorbed(self, shapes: Array, w: Operator, q: Array) -> Array:
        """The part h of :func:`~sketchlearn.decoders.noise.left_by_gaussian`, for quadratic forms q, like q."""
        return np.zeros_like(q)

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        """:meth:`absorbed` between pairs of frequencies with ``cross = w S w'``, within one component."""
        return np.zeros_like(cross)

    def left(self, shapes: Array, w: Operator) -> Array:
        return noise.left_by_gaussian(*self._forms(shapes, w))

    def pairs(self, w: Array, shape: Array, absorb: bool = False) -> tuple[Array, Array]:
        d = w.shape[1]
        matrix = self.covariances(shape, 1, d)[0]
        cross = w @ matrix @ w.T if self.like == "full" else (w * np.diag(matrix)) @ w.T
        q = np.diag(cross)
        half = 0.5 * (q[:, None] + q)
        damped = np.exp(-half)
        h = self.absorbed_pairs(w, matrix, cross) if absorb and not self.shared else 0.0
        return np.exp(cross - half) - damped * (1.0 + cross + h), np.exp(-cross - half) - damped * (1.0 - cross + h)

    def own(self, w: Array, shapes: Array) -> tuple[Array, Array]:
        q, h = self._forms(shapes, DenseOperator(w))
        damped = np.exp(-q)
        return 1.0 - damped * (1.0 + q + h), np.exp(-2.0 * q) - damped * (1.0 - q + h)

    def _forms(self, shapes: Array, w: Operator) -> tuple[Array, Array | float]:
        """Quadratic forms, and the part h; what all components share absorbs next to nothing in each of them."""
        q = -2.0 * np.asarray(self.damping(shapes, w), np.float64)
        return q, 0.0 if self.shared else self.absorbed(shapes, w, q)


class Spherical(Gaussian):
    """One variance per component.

    Examples
    --------
    >>> from sketchlearn.decoders.families import SPHERICAL
    >>> SPHERICAL.parameters(k=5, d=3)
    25
    """

    name = "spherical"
    like = "spherical"
    charted = "AxisChart"

    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.array(smallest), np.array(largest)

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.array(variances, np.float64)

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        return np.broadcast_to(shapes, k)[:, None, None] * np.eye(d)

    def variances(self, shapes: Array, k: int, d: int) -> Array:
        return np.broadcast_to(shapes, k)

    def halved(self, shapes: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        direction = rng.standard_normal(d)
        step = HALF_STEP * float(np.sqrt(shapes[l])) * (direction / float(np.linalg.norm(direction)))
        return step, self.joined(shapes, shapes[l : l + 1])

    def draw(self, shapes: Array, owner: Any, d: int, rng: np.random.Generator) -> Array:
        width = np.sqrt(np.maximum(shapes, 0.0))
        return rng.standard_normal((len(owner), d)) * (width if self.shared else width[owner, None])

    def slopes(self, shapes: Array, w: Operator) -> AnyArray:
        return np.broadcast_to(-0.5 * w.squared_norms[None, :, None], (len(shapes), w.shape[0], 1))

    def absorbed(self, shapes: Array, w: Operator, q: Array) -> Array:
        return q * q / (2.0 * w.shape[1])

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        q = np.diag(cross)
        return np.outer(q, q) / (2 * w.shape[1])


class Shared(Spherical):
    """One variance for all components."""

    name = "shared"
    shared = True

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.array([float(np.mean(np.asarray(variances, np.float64)))])


class Diagonal(Gaussian):
    """One variance per component and coordinate (Keriven 2017, eq. 5.15-5.17)."""

    name = "diag"
    like = "diag"
    charted = "AxisChart"

    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.full(d, smallest), np.full(d, largest)

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.repeat(np.array(variances, np.float64)[:, None], d, 1)

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        return shapes[:, :, None] * np.eye(d)

    def from_covariances(self, matrices: Array, weights: Array) -> Array:
        return np.diagonal(matrices, axis1=1, axis2=2).copy()

    def variances(self, shapes: Array, k: int, d: int) -> Array:
        return shapes.mean(1)

    def halved(self, shapes: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        step = HALF_STEP * float(np.sqrt(shapes[l].max())) * np.eye(d)[int(np.argmax(shapes[l]))]
        shapes = shapes.copy()
        shapes[l] = shapes[l] - step**2
        return step, self.joined(shapes, shapes[l : l + 1])

    def slopes(self, shapes: Array, w: Operator) -> AnyArray:
        squares = w.coordinate_squares().T
        return np.broadcast_to(-0.5 * squares, (len(shapes), *squares.shape))

    def absorbed(self, shapes: Array, w: Operator, q: Array) -> Array:
        return np.asarray(0.5 * w.powers(shapes**2, 4))

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        squares = w * w * np.diag(matrix)
        return 0.5 * squares @ squares.T


class Full(Gaussian):
    """A covariance matrix per component."""

    name = "full"
    like = "full"
    charted = "MatrixChart"
    boxed = False

    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        eye = np.eye(d, dtype=bool)
        return np.where(eye, smallest, -largest), np.full((d, d), largest)

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.array(variances, np.float64)[:, None, None] * np.eye(d)

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        return shapes

    def from_covariances(self, matrices: Array, weights: Array) -> Array:
        return matrices

    def numbers(self, d: int) -> int:
        return d * (d + 1) // 2

    def halved(self, shapes: Array, l: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
        step, shapes = super().halved(shapes, l, d, rng)
        if not self.shared:
            shapes[[l, -1]] -= np.outer(step, step)
        return step, shapes

    def free(self, shapes: Array) -> Array:
        a, b = lower_triangle(shapes.shape[-1])
        return shapes[:, a, b]

    def slopes(self, shapes: Array, w: Operator) -> AnyArray:
        a, b = lower_triangle(w.shape[1])
        v = w.frequencies()
        forms = -0.5 * v[:, a] * v[:, b] * np.where(a == b, 1.0, 2.0)
        return np.broadcast_to(forms, (len(shapes), *forms.shape))

    def moved(self, shapes: Array, step: Array) -> Array:
        """At most nine tenths of the variance in any direction may go."""
        a, b = lower_triangle(shapes.shape[-1])
        change = np.zeros_like(shapes)
        change[:, a, b] = step
        change[:, b, a] = step
        root = np.linalg.cholesky(shapes)
        inverse = np.linalg.inv(root)
        values, vectors = np.linalg.eigh(inverse @ change @ np.swapaxes(inverse, 1, 2))
        grown = (vectors * np.maximum(1.0 + values, 0.1)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        return np.asarray(root @ grown @ np.swapaxes(root, 1, 2))

    def sizes(self, d: int) -> Flags:
        a, b = lower_triangle(d)
        return a == b

    def absorbed(self, shapes: Array, w: Operator, q: Array) -> Array:
        return 0.5 * q * q

    def absorbed_pairs(self, w: Array, matrix: Array, cross: Array) -> Array:
        return 0.5 * cross**2


class Tied(Full):
    """One covariance matrix that all components share."""

    name = "tied"
    shared = True

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        return float(np.mean(np.asarray(variances, np.float64))) * np.eye(d)[None]

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        return np.broadcast_to(shapes, (k, d, d))

    def from_covariances(self, matrices: Array, weights: Array) -> Array:
        a = np.maximum(weights, 1e-12)
        return np.tensordot(a / a.sum(), matrices, 1)[None]

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        return {"covariances": shapes[0]}


class Known(Gaussian):
    """A fixed covariance for all components: only weights and means are learned (Bourrier et al. 2013).

    Parameters
    ----------
    covariance : float or array (d,) or (d, d)
        Variance, variances or covariance matrix, in the units of the rows; 0 for points.

    Examples
    --------
    >>> from sketchlearn.decoders.families import Known
    >>> Known(2.0).numbers(3)
    0
    """

    name = "known"

    def __init__(self, covariance: npt.ArrayLike) -> None:
        self.covariance = np.array(covariance, np.float64)
        if self.covariance.ndim > 2 or not np.isfinite(self.covariance).all():
            raise ValueError(f"covariance must be a number, d numbers or a d x d matrix, got {covariance!r}")
        self.like = ("spherical", "diag", "full")[self.covariance.ndim]  # type: ignore[misc]

    def damping(self, shapes: Array, w: Operator) -> AnyArray:
        return w.quadratic(-0.5 * (self.covariance if self.covariance.ndim == 0 else self.covariance[None]))

    def damping_vjp(self, shapes: Array, w: Operator, cotangent: AnyArray) -> AnyArray:
        return np.zeros_like(shapes)

    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(0)

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.zeros((len(np.atleast_1d(np.asarray(variances))), 0))

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        s = self.covariance
        return np.broadcast_to(s * np.eye(d) if s.ndim < 2 else s, (k, d, d))

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        return {"covariances": self.covariance}


SHARED, SPHERICAL, DIAGONAL, FULL, TIED = Shared(), Spherical(), Diagonal(), Full(), Tied()
POINTS = Known(0.0)
"""Components without width."""
GAUSSIANS: dict[str, Gaussian] = {family.name: family for family in (SPHERICAL, DIAGONAL, FULL, TIED)}
"""Families by the name of their type of covariance, as scikit-learn has them."""
