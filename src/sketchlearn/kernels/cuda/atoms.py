"""Atoms of one width on a graphics processor: what a search asks of all frequencies, with arrays that stay there.

Written in terms of an array module, so that tests run it with NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array

_F32 = npt.NDArray[np.float32]
_PIECE = 2**28  # atoms that are held at once: five arrays of 1 GB


class ResidentAtoms:
    """Frequencies, sketch and weights on a device, and the products that are made there.

    Parameters
    ----------
    arrays : module
        CuPy, or NumPy.
    frequencies, z, u : ndarray (m, d), (2, m), (m,)
        The problem: frequencies, sketch, weights.
    """

    def __init__(self, arrays: Any, frequencies: AnyArray, z: _F32, u: _F32) -> None:
        self.xp = arrays
        self.w, self.z, self.u = (arrays.asarray(a, dtype=np.float32) for a in (frequencies, z, u))
        self.squares = (self.w * self.w).sum(1)

    def shared_width(self, means: AnyArray, variance: float, weights: AnyArray) -> tuple[float, float, _F32, _F32]:
        """See :meth:`sketchlearn.decoders.problem.Problem.shared_width`."""
        xp, c, a = self.xp, self._there(means), self._there(weights)
        sums, along, pull = xp.zeros(2), xp.zeros(len(c), np.float32), xp.zeros(c.shape, np.float32)
        for at in self._pieces(len(c)):
            cosine, sine = self._turns(c, at)
            squares, u = self.squares[at], self.u[at]
            envelope = xp.exp(np.float32(-0.5 * variance) * squares)
            model = xp.stack([a @ cosine, a @ sine]) * envelope
            residual = self.z[:, at] - model
            weighted = u * residual
            sums[0] += (weighted * residual).sum(dtype=np.float64)
            sums[1] += (squares * weighted * model).sum(dtype=np.float64)
            weighted *= envelope
            along += cosine @ weighted[0] + sine @ weighted[1]
            pull += self._pulled(cosine, sine, weighted) @ self.w[at]
        value, spread = self._here(sums)
        return float(value), float(spread), self._here(along), self._here(pull)

    def slopes(self, means: AnyArray, variances: AnyArray, weights: AnyArray) -> tuple[float, Array, Array, Array]:
        """Misfit of components with a variance each, and products of which its gradient is made.

        Those are of the weighted residual with every atom (k,), the pull on its mean (k, d), and its share in the slope
        in the variance (k,), each -1/2 of the slope for a weight of 1.
        """
        xp, c, a = self.xp, self._there(means), self._there(weights)
        damping = -0.5 * self._there(variances)[:, None]
        k = len(c)
        value, along, widening = xp.zeros(1), xp.zeros(k), xp.zeros(k)
        pull = xp.zeros(c.shape)
        for at in self._pieces(k):
            cosine, sine = self._turns(c, at)
            envelope = xp.exp(damping * self.squares[at])
            cosine *= envelope
            sine *= envelope
            residual = self.z[:, at] - xp.stack([a @ cosine, a @ sine])
            weighted = self.u[at] * residual
            value += (weighted * residual).sum(dtype=np.float64)
            along += cosine @ weighted[0] + sine @ weighted[1]
            damped = weighted * self.squares[at]
            widening -= 0.5 * (cosine @ damped[0] + sine @ damped[1])
            pull += self._pulled(cosine, sine, weighted) @ self.w[at]
        return float(self._here(value)[0]), self._here(along), self._here(pull), self._here(widening)

    def correlation(self, points: AnyArray, target: AnyArray) -> tuple[_F32, _F32]:
        """See :meth:`sketchlearn.decoders.problem.Problem.correlation`."""
        xp, c, y = self.xp, self._there(points), self._there(target)
        along, pull = xp.zeros(len(c), np.float32), xp.zeros(c.shape, np.float32)
        for at in self._pieces(len(c)):
            cosine, sine = self._turns(c, at)
            along += cosine @ y[0, at] + sine @ y[1, at]
            pull += self._pulled(cosine, sine, y[:, at]) @ self.w[at]
        return self._here(along), self._here(pull)

    def bends(self, means: AnyArray, variance: float, weights: AnyArray) -> Array:
        """See :meth:`sketchlearn.decoders.problem.Problem.bends`."""
        xp, c, a = self.xp, self._there(means), self._there(weights)
        (k, d), (rows, columns) = c.shape, np.tril_indices(c.shape[1])
        out, packed = np.empty((k, d, d)), xp.zeros((k, len(rows)))
        for at in self._pieces(max(k, len(rows))):
            cosine, sine = self._turns(c, at)
            envelope = xp.exp(np.float32(-0.5 * variance) * self.squares[at])
            model = xp.stack([a @ cosine, a @ sine]) * envelope
            weighted = self.u[at] * envelope * (self.z[:, at] - model)
            cosine *= weighted[0]
            sine *= weighted[1]
            cosine += sine
            packed += cosine @ (self.w[at][:, rows] * self.w[at][:, columns])
        out[:, rows, columns] = out[:, columns, rows] = self._here(packed)
        return out

    def model(self, means: AnyArray, variance: float, weights: AnyArray) -> _F32:
        """The weighted sum of the atoms, (2, m)."""
        xp, c, a = self.xp, self._there(means), self._there(weights)
        out = xp.empty(self.z.shape, np.float32)
        for at in self._pieces(len(c)):
            cosine, sine = self._turns(c, at)
            out[0, at], out[1, at] = a @ cosine, a @ sine
        out *= xp.exp(np.float32(-0.5 * variance) * self.squares)
        return self._here(out)

    def gram(self, points: AnyArray, variance: float, target: AnyArray) -> tuple[Array, Array]:
        """See :meth:`sketchlearn.decoders.problem.Problem.gram`."""
        xp, c, y = self.xp, self._there(points), self._there(target)
        gram, along = xp.zeros((len(c), len(c)), np.float32), xp.zeros(len(c), np.float32)
        for at in self._pieces(len(c)):
            cosine, sine = self._turns(c, at)
            root = xp.sqrt(self.u[at])
            scale = root * xp.exp(np.float32(-0.5 * variance) * self.squares[at])
            cosine *= scale
            sine *= scale
            gram += cosine @ cosine.T + sine @ sine.T
            along += cosine @ (root * y[0, at]) + sine @ (root * y[1, at])
        return self._here(gram).astype(np.float64), self._here(along).astype(np.float64)

    def _pieces(self, k: int) -> Iterator[slice]:
        m = len(self.w)
        step = max(1, _PIECE // max(k, 1))
        for i in range(0, m, step):
            yield slice(i, i + step)

    def _turns(self, points: Any, at: slice) -> tuple[Any, Any]:
        phases = points @ self.w[at].T
        return self.xp.cos(phases), self.xp.sin(phases)

    @staticmethod
    def _pulled(cosine: Any, sine: Any, target: Any) -> Any:
        """Im(target) cos - Re(target) sin, in place of the cosines."""
        cosine *= target[1]
        sine *= target[0]
        cosine -= sine
        return cosine

    def _there(self, array: AnyArray) -> Any:
        return self.xp.asarray(np.ascontiguousarray(array, np.float32))

    def _here(self, array: Any) -> Any:
        return array if self.xp is np else array.get()
