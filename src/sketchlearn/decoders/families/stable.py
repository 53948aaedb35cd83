"""Elliptic alpha-stable components: e(w) = exp(-(w'Sw/2)^(alpha/2)); alpha = 2 is the Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Flags, Index
from sketchlearn.decoders.families.base import Family
from sketchlearn.features.operator import Operator, lower_triangle
from sketchlearn.models.stable_law import sample_stable

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

    def _half_form(self, shapes: Array, w: Operator) -> AnyArray:
        """w'Sw/2."""
        inner = shapes[:, 1:]
        s = inner if self.scatter_type == "diag" else _squares(inner, w.shape[1])
        return np.maximum(0.5 * w.quadratic(s), np.finfo(w.dtype).tiny)

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

    def sizes(self, d: int) -> Flags:
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
