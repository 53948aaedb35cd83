"""Elliptic alpha-stable components: e(w) = exp(-(w'Sw/2)^(alpha/2)); alpha = 2 is the Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Flags, Index
from sketchlearn.decoders.families.base import Family
from sketchlearn.features.operator import Operator, lower_triangle
from sketchlearn.models.stable_law import sample_stable


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

    def _scatters(self, shapes: Array, d: int) -> Array:
        """Diagonals (k, d) or matrices (k, d, d)."""
        if self.scatter_type == "diag":
            return shapes[:, 1:]
        lower = _triangles(shapes[:, 1:], d)
        return np.asarray(lower @ lower.swapaxes(1, 2))

    def _diagonal(self, d: int) -> Flags:
        """Which numbers of a scatter are on the diagonal."""
        a, b = lower_triangle(d)
        return np.ones(d, bool) if self.scatter_type == "diag" else a == b

    @property
    def _power(self) -> float:
        """The entries of L are square roots of those of S."""
        return 1.0 if self.scatter_type == "diag" else 0.5

    def _half_form(self, shapes: Array, w: Operator) -> AnyArray:
        """w'Sw/2."""
        return np.maximum(0.5 * w.quadratic(self._scatters(shapes, w.shape[1])), np.finfo(w.dtype).tiny)

    def damping(self, shapes: Array, w: Operator) -> AnyArray:
        return np.asarray(-(self._half_form(shapes, w) ** (0.5 * shapes[:, :1])))

    def damping_vjp(self, shapes: Array, w: Operator, cotangent: AnyArray) -> AnyArray:
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
        """With stabilities of 0.3 at least."""
        on, p = self._diagonal(d), self._power
        return np.append(0.3, np.where(on, smallest**p, -(largest**p))), np.append(2.0, np.full(len(on), largest**p))

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        v = np.array(variances, np.float64)[:, None]
        return np.hstack([np.full_like(v, 1.5), v**self._power * self._diagonal(d)])

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        s = self._scatters(shapes, d)
        return s[:, :, None] * np.eye(d) if s.ndim == 2 else s

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        return {"alphas": shapes[:, 0], "scatters": self._scatters(shapes, d)}

    def moved(self, shapes: Array, step: Array) -> Array:
        out = super().moved(shapes, step)
        out[:, 0] = np.minimum(out[:, 0], 2.0)
        return out

    def sizes(self, d: int) -> Flags:
        return np.append(False, self._diagonal(d))

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
