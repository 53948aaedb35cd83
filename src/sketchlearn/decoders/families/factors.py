"""Gaussian components whose covariances are a diagonal plus a few factors, ``S = D + VV'`` with V of r columns.

They lie between diagonal (r = 0) and full covariances (r = d).  The damping needs products of the frequencies with the
factors only, so that a fit in many columns costs r / d of one with full covariances, and has fewer numbers to follow
the noise with.  Shapes are (k, 1 + r, d): the diagonal, then the factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders.families.gaussian import FULL, Gaussian
from sketchlearn.features.operator import Operator
from sketchlearn.kernels import tiers

_FIRST = 0.3  # standard deviations: length of new factors, and share of the diagonal that they leave at least


class Factors(Gaussian):
    """A diagonal plus `rank` factors per component.

    Examples
    --------
    >>> from sketchlearn.decoders.families import Factors
    >>> Factors(2).numbers(10)
    30
    """

    name = "factors"
    like = "full"
    charted = "FactorChart"

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def tiled(self, shapes: Array, w: Operator) -> tuple[AnyArray, Callable[[AnyArray], AnyArray]]:
        k, _, d = shapes.shape
        damping = np.ascontiguousarray(w.quadratic(-0.5 * shapes[:, 0]))
        projected = w.forward(shapes[:, 1:].reshape(k * self.rank, d))
        loops = tiers.loops("factors")
        if self.rank:
            loops.damp(projected, damping)

        def pull(cotangent: AnyArray) -> AnyArray:
            out = np.empty(shapes.shape, cotangent.dtype)
            out[:, 0] = -0.5 * w.quadratic_adjoint(cotangent, "diag")
            if self.rank:
                loops.scale(projected, cotangent)
                out[:, 1:] = -w.adjoint(projected).reshape(k, self.rank, d)
            return out

        return damping, pull

    def damping(self, shapes: Array, w: Operator) -> AnyArray:
        diagonal = w.quadratic(-0.5 * shapes[:, 0])
        projected = w.forward(shapes[:, 1:].reshape(-1, shapes.shape[2])).reshape(len(shapes), self.rank, -1)
        return np.asarray(diagonal - 0.5 * (projected**2).sum(1))

    def damping_vjp(self, shapes: Array, w: Operator, cotangent: AnyArray) -> AnyArray:
        return self.tiled(shapes, w)[1](cotangent)

    def absorbed(self, shapes: Array, w: Operator, q: Array) -> Array:
        return FULL.absorbed(shapes, w, q)

    def bounds(self, d: int, smallest: float, largest: float) -> tuple[Array, Array]:
        low, high = np.full((1 + self.rank, d), -np.inf), np.full((1 + self.rank, d), np.inf)
        low[0], high[0] = smallest, largest
        return low, high

    def rounded(self, variances: npt.ArrayLike, d: int) -> Array:
        v = np.array(variances, np.float64)
        out = np.zeros((len(v), 1 + self.rank, d))
        out[:, 0] = v[:, None]
        return out

    def covariances(self, shapes: Array, k: int, d: int) -> Array:
        factors = shapes[:, 1:]
        return np.einsum("kra,krb->kab", factors, factors) + shapes[:, 0, :, None] * np.eye(d)

    def describe(self, shapes: Array, k: int, d: int) -> dict[str, Any]:
        return {"covariances": self.covariances(shapes, k, d) if self.rank else shapes[:, 0]}

    def widened(self, diagonals: Array, weights: Array, rng: np.random.Generator) -> Array:
        """Shapes for diagonals (k, d): short factors in random directions, taken from the diagonals."""
        k, d = diagonals.shape
        average = np.average(diagonals, axis=0, weights=weights)
        s = np.maximum(diagonals, 0.02 * average)
        more = _FIRST / np.sqrt(self.rank) * rng.standard_normal((k, self.rank, d)) * np.sqrt(s)[:, None, :]
        rest = np.maximum(s - (more**2).sum(1), _FIRST * s)
        return np.concatenate([rest[:, None], more], 1)
