"""A sketch in the metric of its own sampling noise, around a fitted mixture.

Let a row of component l be ``c + s g`` with g standard normal.  Its feature exp(i w·x) is split by the Hermite
polynomials of g: what is constant in g is a multiple of the atom (the row counts for the weight of l), what is linear
is a multiple of the derivative of the atom in c (the row pulls the mean of l), and the rest is uncorrelated with both.
So the noise of the sketch is exactly

    N = T C T' + R,

T the derivatives of the model in weights and means, C the sampling covariance that somebody who knows the labels would
have, and R the covariance of the rest, with ``q12 = w1'Sw2``

    R(w1, w2) = sum_l a_l exp(i (w1 - w2)·c_l) [exp(-(q11 + q22 - 2 q12)/2) - exp(-(q11 + q22)/2) (1 + q12)],

and -w2 for the conjugate.  Generalised least squares with N and with R are the same estimate (they differ in the
span of T alone), and its covariance is C plus the one that R alone would leave.  R is close to diagonal in more than a
few dimensions, where no two frequencies are near each other: small sketches take the whole matrix, large ones the 2 x 2
blocks of cosine and sine, and what that leaves out is measured by rows drawn from the mixture
(:mod:`sketchlearn.decoders.certificate.examine`).
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from sketchlearn.arrays import AnyArray, Array, Complex
from sketchlearn.decoders.budget import charge
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.features.operator import DenseOperator

T = TypeVar("T", np.float32, np.float64)

DENSE = 300  # frequencies up to which all of R is used,
FEW = 5  # or dimensions
APART = 4.0  # widths beyond which two components share no rows


def row_blocks(rows: int, width: int) -> list[slice]:
    """Some of the rows of a matrix at a time, 16 MB of it."""
    step = max(2**21 // max(width, 1), 1)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def real(values: Complex) -> Array:
    """Real parts over imaginary parts, (m, ...) to (2 m, ...)."""
    return np.concatenate([values.real, values.imag], axis=0)


class Whitened:
    """The whitened problem: residuals and derivatives divided by the noise.

    Parameters
    ----------
    w : ndarray (m, d)
        Frequencies, normalised.
    z : ndarray (m,) complex
        The sketch.
    n : float
        Number of rows behind it (the effective one, if they are weighted).
    extra : ndarray (m,) or float
        Variance that a release has added to each part of each entry.
    dense : bool, optional
        Whether all of R is used, or its blocks; by default as the size of the sketch and the dimension say.
    single : bool
        Whether normal equations are made in single precision, in a third of the memory.
    """

    def __init__(
        self,
        w: Array,
        z: Complex,
        n: float,
        state: State,
        extra: Array | float = 0.0,
        dense: bool | None = None,
        single: bool = False,
    ) -> None:
        self.w, self.z, self.n, self.state, self.single = w, z, n, state, single
        self.operator = DenseOperator(w)
        self.extra = np.broadcast_to(np.asarray(extra, np.float64), len(w))
        # below this a single row moves a direction by more than its standard deviation: no central limit there
        self.ridge = max(1.0 / n, 1e-8)
        self.y = real(z)
        self.released = bool(n * self.extra.max(initial=0.0) > 0)
        self.dense = len(w) <= DENSE or w.shape[1] <= FEW if dense is None else dense
        self.refresh()

    @classmethod
    def of(
        cls, problem: Problem, state: State, index: Any = slice(None), dense: bool | None = None, single: bool = False
    ) -> Whitened:
        """Some of the frequencies of a problem that was made from a sketch."""
        view = problem.view
        assert view is not None
        w = view.operator.rows(np.arange(len(view.mean))[index]).frequencies()
        z = view.mean[index] * np.exp(-1j * (w @ problem.center))
        # (additive noise is alike in both parts)
        return cls(w * problem.scale, z, problem.n, state, 0.5 * view.added[index], dense, single)

    def copy(self) -> Whitened:
        """A copy, to be changed."""
        return Whitened(self.w, self.z, self.n, self.state, self.extra, self.dense, self.single)

    # -- the noise -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take the noise of the present state."""
        if self.dense:
            # (the covariance of two frequencies within a component takes as long as 40 multiply-adds)
            charge(8.0 * len(self.w) ** 3 / 6.0 + 40.0 * len(self.w) ** 2 * self.state.k)
            noise = remainder_covariance(self.w, self.state)
            noise[np.diag_indices_from(noise)] += self.ridge + self.n * np.concatenate([self.extra, self.extra])
            self._root = cholesky(noise, lower=True, overwrite_a=True, check_finite=False)
        else:
            direct, conjugate = remainder_variance(self.w, self.state)
            floor = self.ridge + self.n * self.extra
            cc = 0.5 * (direct + conjugate.real) + floor
            ss = 0.5 * (direct - conjugate.real) + floor
            cs = 0.5 * conjugate.imag
            self._first = np.sqrt(cc)
            self._cross = cs / self._first
            self._second = np.sqrt(np.maximum(ss - self._cross**2, 0.5 * floor))

    @property
    def variances(self) -> Array:
        """Noise of each frequency, both parts together, (m,)."""
        if self.dense:
            rows: Array = np.einsum("ij,ij->i", self._root, self._root)
            return rows[: len(self.w)] + rows[len(self.w) :]
        return np.asarray(self._first**2 + self._second**2 + self._cross**2)

    @property
    def trace(self) -> float:
        """Trace of the noise in whitened coordinates: the ridge is no noise."""
        m = len(self.w)
        if self.dense:
            inverse = solve_triangular(self._root, np.eye(2 * m), lower=True) ** 2
        else:
            inverse = 1.0 / self._first**2 + (self._cross / (self._first * self._second)) ** 2 + 1.0 / self._second**2
        return 2.0 * m - self.ridge * float(inverse.sum())

    def white(self, values: npt.NDArray[T], out: npt.NDArray[T] | None = None) -> npt.NDArray[T]:
        """Real vectors (2 m, ...) over the noise; `out` may be the vectors themselves."""
        if self.dense:
            solved: Any = solve_triangular(self._root, values, lower=True, check_finite=False)
            return np.asarray(solved, values.dtype)
        m = len(self.w)
        shape = (m,) + (1,) * (values.ndim - 1)
        first, cross, second = (
            part.astype(values.dtype).reshape(shape)
            for part in (1.0 / self._first, self._cross / self._second, 1.0 / self._second)
        )
        out = np.empty_like(values) if out is None else out
        np.multiply(values[:m], first, out=out[:m])
        np.multiply(values[m:], second, out=out[m:])
        for at in row_blocks(m, out[0].size):
            out[m:][at] -= cross[at] * out[at]
        return out

    def white_adjoint(self, values: Array) -> Array:
        """The transpose of :meth:`white`, for one vector."""
        if self.dense:
            return np.asarray(solve_triangular(self._root, values, lower=True, trans=1, check_finite=False))
        m = len(self.w)
        low = values[m:] / self._second
        return np.concatenate([(values[:m] - self._cross * low) / self._first, low])

    # -- the model -----------------------------------------------------------------------------

    def atoms(self, state: State) -> Complex:
        """Characteristic functions of the components, (m, k)."""
        return np.ascontiguousarray(state.family.values(state.means, state.shapes, self.operator).T)

    def model(self, state: State) -> Array:
        """The model of the sketch, (2 m,)."""
        return real(self.atoms(state) @ state.weights)

    def tangents(self, state: State, dtype: npt.DTypeLike = np.float64) -> tuple[AnyArray, Array]:
        """Derivatives of the model, one column a parameter, and the model.

        Means (k d), weights along directions that keep their sum (k - 1), then the free numbers of the shapes.
        """
        w, (k, d), family = self.w, state.means.shape, state.family
        m = len(w)
        g = self.atoms(state)
        weighted = g * state.weights
        slopes = family.slopes(state.shapes, self.operator)
        rows, _, size = slopes.shape
        first = k * d + k - 1
        out = np.empty((2 * m, first + rows * size), dtype)
        means = out[:, : k * d].reshape(2, m, k, d)
        along = w.astype(dtype)[:, None, :]
        np.multiply(-weighted.imag.astype(dtype)[:, :, None], along, out=means[0])
        np.multiply(weighted.real.astype(dtype)[:, :, None], along, out=means[1])
        if k > 1:
            out[:, k * d : first] = real(g @ simplex_basis(k))
        pulled = weighted.sum(1, keepdims=True) if family.shared else weighted
        for l in range(rows):
            at = slice(first + l * size, first + (l + 1) * size)
            out[:, at] = real(pulled[:, l : l + 1] * slopes[l])
        return out, real(weighted.sum(1))

    def moved(self, step: Array) -> State:
        """The state after a step in the parameters, kept possible."""
        state, family = self.state, self.state.family
        k, d = state.means.shape
        move = step[: k * d].reshape(k, d)
        # what the sketch does not determine must not run away: five standard deviations of the data at most
        means = state.means + move * np.minimum(1.0, 5.0 / np.maximum(np.abs(move).max(1), 1e-300))[:, None]
        weights = state.weights + (simplex_basis(k) @ step[k * d : k * d + k - 1] if k > 1 else 0.0)
        weights = np.maximum(weights, 1e-9)
        tail = step[k * d + k - 1 :].reshape(len(state.shapes), -1)
        return State(family, weights / weights.sum(), means, family.moved(state.shapes, tail))

    # -- the fit -------------------------------------------------------------------------------

    @property
    def many(self) -> bool:
        """Whether there are so many parameters that each step is costly."""
        return self.state.means.size + self.state.k > 500

    def polish(self) -> float:
        """Damped Gauss-Newton steps in this metric; returns how far a mean has moved, in widths.

        Six of them, or one where each is costly and the search has left little to do.
        """
        start = self.state.means.copy()
        many = self.many
        dtype = np.float32 if many else np.float64  # (of many, single precision finds a direction as good)
        tangents, model = self.tangents(self.state, dtype)
        residual = self.white(self.y - model)
        best, damping = float(residual @ residual), 1e-6
        for i in range(1 if many else 6):
            if i:
                tangents = self.tangents(self.state, dtype)[0]
            charge(tangents.size * (tangents.shape[1] + tangents.shape[0] * bool(self.dense)))
            columns = self.white(tangents, out=tangents)
            normal = (columns.T @ columns).astype(np.float32 if self.single else np.float64, copy=False)
            scale = np.sqrt(np.diag(normal).astype(np.float64)) + 1e-150
            for at in row_blocks(len(normal), len(normal)):
                normal[at] /= scale[at, None] * scale
            slope = (columns.T @ residual.astype(dtype)) / scale
            del columns, tangents
            gain = 0.0
            for _ in range(6):
                system = normal.copy()
                system[np.diag_indices_from(system)] += damping
                try:
                    step = cho_solve(cho_factor(system, overwrite_a=True, check_finite=False), slope) / scale
                except np.linalg.LinAlgError:  # directions that nothing determines, to rounding
                    damping = max(100 * damping, 1e-6)
                    continue
                trial = self.moved(step)
                value_at = self.white(self.y - self.model(trial))
                value = float(value_at @ value_at)
                if value < best:
                    gain, best, damping = best - value, value, max(0.1 * damping, 1e-9)
                    self.state, residual = trial, value_at
                    break
                damping = max(10 * damping, 1e-6)
            if gain * self.n < 1e-2:
                break
        return float(np.max(np.sqrt(((self.state.means - start) ** 2).sum(1)) / self.state.widths))

    def settle(self, rounds: int = 2) -> float:
        """Polish and take the new noise, until nothing moves; returns how far a mean has moved, in widths."""
        moved = 0.0
        for _ in range(1 if self.many else rounds):
            step = self.polish()
            moved = max(moved, step)
            self.refresh()
            if step < 0.05:
                break
        return moved

    def replace(self, state: State) -> None:
        """Another mixture, and its noise."""
        self.state = state.with_weights(state.weights / state.weights.sum())
        self.refresh()


def simplex_basis(k: int) -> Array:
    """Orthonormal directions along which weights keep their sum, (k, k - 1)."""
    out = np.zeros((k, k - 1))
    for j in range(k - 1):
        out[: j + 1, j] = 1.0
        out[j + 1, j] = -(j + 1.0)
        out[:, j] /= math.sqrt((j + 1.0) * (j + 2.0))
    return out


def remainder_covariance(w: Array, state: State) -> Array:
    """R of the module for cosines and sines, (2 m, 2 m)."""
    return of_parts(*state.pairs(w))


def of_parts(direct: Complex, conjugate: Complex) -> Array:
    """Covariances of cosines and sines, (2 m, 2 m), from those with the features and with their conjugates."""
    across = 0.5 * (conjugate.imag - direct.imag)
    return np.block([[0.5 * (direct.real + conjugate.real), across], [across.T, 0.5 * (direct.real - conjugate.real)]])


def remainder_variance(w: Array, state: State) -> tuple[Array, Complex]:
    """The diagonal of R: E|.|^2 (m,), and E(.)^2 (m,).

    Where a component's shape is free, what a row contributes to it is absorbed as well.
    """
    own, turned = (np.broadcast_to(part, (state.k, len(w))) for part in state.family.own(w, state.shapes))
    direct = state.weights @ own
    turning = np.exp(2j * (w @ state.means.T))
    conjugate = ((turned.T * turning) @ state.weights).astype(np.complex128)
    return np.maximum(direct, 0.0), conjugate
