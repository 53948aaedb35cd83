"""Gaussian components: e(w) = exp(-w'Sw/2) with every shape of covariance S."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.atoms.base import Array, Atom


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

    def envelope(self, shapes: Array, w: Array) -> Array:
        return np.exp(-0.5 * shapes * (w * w).sum(1))

    def envelope_vjp(self, shapes: Array, w: Array, cotangent: Array) -> Array:
        return -0.5 * ((cotangent * self.envelope(shapes, w)) @ (w * w).sum(1))[:, None]

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

    def envelope(self, shapes: Array, w: Array) -> Array:
        return np.exp(-0.5 * shapes @ (w * w).T)

    def envelope_vjp(self, shapes: Array, w: Array, cotangent: Array) -> Array:
        return -0.5 * (cotangent * self.envelope(shapes, w)) @ (w * w)

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.full(d, smallest), np.full(d, largest)

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.repeat(np.array(variances, np.float64)[:, None], d, 1)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": shapes}


class FullGaussian(Atom):
    """A covariance matrix L L' per component; the shape is the lower triangle of L, row by row.

    With ``y = L'w`` the envelope is ``exp(-|y|^2/2)``, and its gradient in L is ``-e w y'``.

    Examples
    --------
    >>> from sketchlearn.atoms import FullGaussian
    >>> FullGaussian().shape_size(10)
    55
    """

    def shape_size(self, d: int) -> int:
        return d * (d + 1) // 2

    def envelope(self, shapes: Array, w: Array) -> Array:
        return np.exp(-0.5 * (self._turned(shapes, w) ** 2).sum(2))

    def envelope_vjp(self, shapes: Array, w: Array, cotangent: Array) -> Array:
        y = self._turned(shapes, w)
        pull = -cotangent * np.exp(-0.5 * (y**2).sum(2))
        a, b = np.tril_indices(w.shape[1])
        return ((pull[:, :, None] * w).swapaxes(1, 2) @ y)[:, a, b]

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        a, b = np.tril_indices(d)
        reach = np.sqrt(largest)
        return np.where(a == b, np.sqrt(smallest), -reach), np.full(len(a), reach)

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        a, b = np.tril_indices(d)
        return np.sqrt(np.array(variances, np.float64))[:, None] * (a == b)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        lower = triangles(shapes, d)
        return {"covariances": lower @ lower.swapaxes(1, 2)}

    @staticmethod
    def _turned(shapes: Array, w: Array) -> Array:
        return w @ triangles(shapes, w.shape[1])


class TiedGaussian(FullGaussian):
    """One covariance matrix that all components share: shapes are (1, d (d + 1) / 2).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.atoms import TiedGaussian
    >>> TiedGaussian().value(np.zeros((3, 1)), np.ones((1, 1)), np.ones((4, 1))).shape
    (3, 4)
    """

    shared: ClassVar[bool] = True

    def envelope_vjp(self, shapes: Array, w: Array, cotangent: Array) -> Array:
        return super().envelope_vjp(shapes, w, cotangent.sum(0, keepdims=True))

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return super().round_shapes([float(np.asarray(variances, np.float64).mean())], d)

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        lower = triangles(shapes, d)[0]
        return {"covariances": lower @ lower.T}


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

    def envelope(self, shapes: Array, w: Array) -> Array:
        s = self.covariance
        q = ((w @ s) * w).sum(1) if s.ndim == 2 else (w * w * s).sum(1)
        return np.repeat(np.exp(-0.5 * q)[None], len(shapes), 0)

    def envelope_vjp(self, shapes: Array, w: Array, cotangent: Array) -> Array:
        return np.zeros_like(shapes)

    def shape_bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(0)

    def round_shapes(self, variances: npt.ArrayLike, d: int) -> Array:
        return np.zeros((len(np.atleast_1d(np.asarray(variances))), 0))

    def describe(self, shapes: Array, d: int) -> dict[str, Any]:
        return {"covariances": self.covariance}


def triangles(shapes: Array, d: int) -> Array:
    """Lower triangular matrices from their packed entries, (k, s) to (k, d, d)."""
    a, b = np.tril_indices(d)
    lower = np.zeros((len(shapes), d, d))
    lower[:, a, b] = shapes
    return lower


GAUSSIANS: dict[str, type[Atom]] = {
    "spherical": SphericalGaussian,
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "tied": TiedGaussian,
}
