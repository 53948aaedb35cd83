"""Gaussian components: e(w) = exp(-w'Sw/2) with every shape of covariance S."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.atoms.base import Array, Atom
from sketchlearn.features.operator import Operator, lower_triangle


class SphericalGaussian(Atom):
    """One variance per component.

    Examples
    --------
    >>> from sketchlearn.atoms import SphericalGaussian
    >>> SphericalGaussian().shape_size(10)
    1
    """

    def shape_size(self, d: int) -> int:
        return 1

    def envelope(self, shapes: Array, w: Operator) -> Array:
        return np.exp(-0.5 * w.quadratic(shapes[:, 0]))

    def envelope_vjp(self, shapes: Array, w: Operator, cotangent: Array) -> Array:
        return -0.5 * w.quadratic_adjoint(cotangent * self.envelope(shapes, w), "spherical")[:, None]

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.array([smallest]), np.array([largest])

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.array(variances, np.float64)[:, None]

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": shapes[:, 0]}


class DiagonalGaussian(Atom):
    """One variance per component and coordinate (Keriven 2017, eq. 5.15-5.17).

    Examples
    --------
    >>> from sketchlearn.atoms import DiagonalGaussian
    >>> DiagonalGaussian().shape_size(10)
    10
    """

    def shape_size(self, d: int) -> int:
        return d

    def envelope(self, shapes: Array, w: Operator) -> Array:
        return np.exp(-0.5 * w.quadratic(shapes))

    def envelope_vjp(self, shapes: Array, w: Operator, cotangent: Array) -> Array:
        return -0.5 * w.quadratic_adjoint(cotangent * self.envelope(shapes, w), "diag")

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.full(d, smallest), np.full(d, largest)

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.repeat(np.array(variances, np.float64)[:, None], d, 1)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": shapes}


class FullGaussian(Atom):
    """A covariance matrix L L' per component; the shape is the lower triangle of L, row by row.

    The envelope is ``exp(-w'LL'w/2)``, and its gradient in L is ``-e w w'L``.

    Examples
    --------
    >>> from sketchlearn.atoms import FullGaussian
    >>> FullGaussian().shape_size(10)
    55
    """

    def shape_size(self, d: int) -> int:
        return d * (d + 1) // 2

    def envelope(self, shapes: Array, w: Operator) -> Array:
        return np.exp(-0.5 * w.quadratic(squares(shapes, w.shape[1])))

    def envelope_vjp(self, shapes: Array, w: Operator, cotangent: Array) -> Array:
        return triangle_vjp(shapes, w, -cotangent * self.envelope(shapes, w))

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        a, b = lower_triangle(d)
        reach = np.sqrt(largest)
        return np.where(a == b, np.sqrt(smallest), -reach), np.full(len(a), reach)

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        a, b = lower_triangle(d)
        return np.sqrt(np.array(variances, np.float64))[:, None] * (a == b)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": squares(shapes, d)}


class TiedGaussian(FullGaussian):
    """One covariance matrix that all components share: shapes are (1, d (d + 1) / 2).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.atoms import TiedGaussian
    >>> from sketchlearn.features.operator import DenseOperator
    >>> TiedGaussian().value(np.zeros((3, 1)), np.ones((1, 1)), DenseOperator(np.ones((4, 1)))).shape
    (3, 4)
    """

    shared: ClassVar[bool] = True

    def envelope_vjp(self, shapes: Array, w: Operator, cotangent: Array) -> Array:
        return super().envelope_vjp(shapes, w, cotangent.sum(0, keepdims=True))

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return super().round_shapes([float(np.asarray(variances, np.float64).mean())], d)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": squares(shapes, d)[0]}


class KnownGaussian(Atom):
    """A fixed covariance for all components: only weights and means are learned (Bourrier et al. 2013).

    Parameters
    ----------
    covariance : float or array (d,) or (d, d)
        Variance, variances or covariance matrix.

    Examples
    --------
    >>> from sketchlearn.atoms import KnownGaussian
    >>> KnownGaussian(2.0).shape_size(3)
    0
    """

    def __init__(self, covariance: npt.ArrayLike) -> None:
        self.covariance = np.array(covariance, np.float64)
        if self.covariance.ndim > 2 or not np.isfinite(self.covariance).all():
            raise ValueError(f"covariance must be a number, d numbers or a d x d matrix, got {covariance!r}")

    def shape_size(self, d: int) -> int:
        return 0

    def envelope(self, shapes: Array, w: Operator) -> Array:
        s = self.covariance
        return np.repeat(np.exp(-0.5 * w.quadratic(s if s.ndim == 0 else s[None])), len(shapes), 0)

    def envelope_vjp(self, shapes: Array, w: Operator, cotangent: Array) -> Array:
        return np.zeros_like(shapes)

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(0)

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.zeros((len(np.atleast_1d(np.asarray(variances))), 0))

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": self.covariance}


def triangles(shapes: Array, d: int) -> Array:
    """Lower triangular matrices from their packed entries, (k, s) to (k, d, d)."""
    a, b = lower_triangle(d)
    lower = np.zeros((len(shapes), d, d))
    lower[:, a, b] = shapes
    return lower


def squares(shapes: Array, d: int) -> Array:
    """Matrices L L' from the packed entries of L, (k, s) to (k, d, d)."""
    lower = triangles(shapes, d)
    return np.asarray(lower @ lower.swapaxes(1, 2))


def triangle_vjp(shapes: Array, w: Operator, values: Array) -> Array:
    """``sum_j values[l, j] * d (w'LL'w/2) / dL``, packed: the lower triangle of ``sum_j values_j w w'L``."""
    d = w.shape[1]
    a, b = lower_triangle(d)
    return np.asarray((w.quadratic_adjoint(values, "full") @ triangles(shapes, d))[:, a, b])


GAUSSIANS: dict[str, type[Atom]] = {
    "spherical": SphericalGaussian,
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "tied": TiedGaussian,
}
