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
few dimensions, where no two frequencies are near each other: small sketches take all of it, large ones the 2 x 2 blocks
of cosine and sine, and what that leaves out is measured by rows drawn from the mixture
(:mod:`sketchlearn.decoders.certificate.examine`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

Array = npt.NDArray[np.float64]
T = TypeVar("T", np.float32, np.float64)

DENSE = 300  # frequencies up to which all of R is used,
FEW = 5  # or dimensions
_STEPS, _FEW_STEPS, _MANY = 6, 1, 500  # Gauss-Newton steps, for few and for many parameters
_FURTHEST = 5.0  # standard deviations of the data that a mean may go in one step


@dataclass
class State:
    """A mixture in normalised units; covariances are (1,) shared, (k,) own variances, (k, d) or (k, d, d)."""

    means: Array
    weights: Array
    covariances: Array

    @property
    def kind(self) -> str:
        """Which numbers of the covariances are free."""
        s = self.covariances
        if s.ndim == 1:
            return "shared" if len(s) == 1 else "spherical"
        return "diag" if s.ndim == 2 else "full"

    @property
    def widths(self) -> Array:
        """Standard deviation of each component (root mean square over the directions), (k,)."""
        s = self.covariances
        v = s if s.ndim == 1 else s.mean(1) if s.ndim == 2 else np.trace(s, axis1=1, axis2=2) / s.shape[1]
        return np.broadcast_to(np.sqrt(np.maximum(v, 0.0)), len(self.means))

    @property
    def width(self) -> float:
        """The median of them."""
        return float(np.median(self.widths))

    def roots(self) -> Array:
        """Square roots of the covariances as matrices, (k, d, d)."""
        k, d = self.means.shape
        s = self.covariances
        if s.ndim < 3:
            v = np.broadcast_to(s, k)[:, None] if s.ndim == 1 else s
            return np.sqrt(np.broadcast_to(v, (k, d)))[:, :, None] * np.eye(d)
        return np.asarray(np.linalg.cholesky(s), np.float64)


def real(values: npt.NDArray[np.complex128]) -> Array:
    """Real parts over imaginary parts, (m, ...) to (2 m, ...)."""
    return np.concatenate([values.real, values.imag], axis=0)


def quadratic(w: Array, covariances: Array) -> Array:
    """w'Sw for frequencies (m, d): (m, 1) or (m, k)."""
    s = covariances
    if s.ndim == 1:
        return (w * w).sum(1)[:, None] * s
    if s.ndim == 2:
        return np.asarray((w * w) @ s.T)
    return np.stack([((w @ each) * w).sum(1) for each in s], 1)


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
    """

    def __init__(
        self,
        w: Array,
        z: npt.NDArray[np.complex128],
        n: float,
        state: State,
        extra: Array | float = 0.0,
        dense: bool | None = None,
    ) -> None:
        self.w, self.z, self.n, self.state = w, z, n, state
        self.extra = np.broadcast_to(np.asarray(extra, np.float64), len(w))
        # below this a single row moves a direction by more than its standard deviation: no central limit there
        self.ridge = max(1.0 / n, 1e-8)
        self.y = real(z)
        self.released = bool(n * self.extra.max(initial=0.0) > 0)
        self.dense = len(w) <= DENSE or w.shape[1] <= FEW if dense is None else dense
        self.refresh()

    # -- the noise -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take the noise of the present state."""
        if self.dense:
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

    def white(self, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Real vectors (2 m, ...) over the noise."""
        if self.dense:
            out: Any = solve_triangular(self._root, values, lower=True, check_finite=False)
            return np.asarray(out, values.dtype)
        m = len(self.w)
        shape = (m,) + (1,) * (values.ndim - 1)
        first, cross, second = (
            part.astype(values.dtype).reshape(shape)
            for part in (1.0 / self._first, self._cross / self._second, 1.0 / self._second)
        )
        out = np.empty_like(values)
        np.multiply(values[:m], first, out=out[:m])
        np.multiply(values[m:], second, out=out[m:])
        out[m:] -= cross * out[:m]
        return out

    def white_adjoint(self, values: Array) -> Array:
        """The transpose of :meth:`white`, for one vector."""
        if self.dense:
            return np.asarray(solve_triangular(self._root, values, lower=True, trans=1, check_finite=False))
        m = len(self.w)
        low = values[m:] / self._second
        return np.concatenate([(values[:m] - self._cross * low) / self._first, low])

    # -- the model -----------------------------------------------------------------------------

    def atoms(self, state: State) -> npt.NDArray[np.complex128]:
        """Characteristic functions of the components, (m, k)."""
        return np.asarray(np.exp(-0.5 * quadratic(self.w, state.covariances) + 1j * (self.w @ state.means.T)))

    def model(self, state: State) -> Array:
        """The model of the sketch, (2 m,)."""
        return real(self.atoms(state) @ state.weights)

    def tangents(self, state: State, dtype: npt.DTypeLike = np.float64) -> tuple[npt.NDArray[Any], Array]:
        """Derivatives of the model, one column a parameter, and the model.

        Means (k d), weights along directions that keep their sum (k - 1), then the free numbers of the covariances.
        """
        w, (k, d) = self.w, state.means.shape
        m = len(w)
        g = self.atoms(state)
        weighted = g * state.weights
        kind = state.kind
        a, b = np.tril_indices(d)
        count = {"shared": 1, "spherical": k, "diag": k * d, "full": k * len(a)}[kind]
        out = np.empty((2 * m, k * d + k - 1 + count), dtype)
        means = out[:, : k * d].reshape(2, m, k, d)
        along = w.astype(dtype)[:, None, :]
        np.multiply(-weighted.imag.astype(dtype)[:, :, None], along, out=means[0])
        np.multiply(weighted.real.astype(dtype)[:, :, None], along, out=means[1])
        if k > 1:
            out[:, k * d : k * d + k - 1] = real(g @ simplex_basis(k))
        if kind in ("shared", "spherical"):
            columns = -0.5 * (w * w).sum(1)[:, None] * weighted
            out[:, k * d + k - 1 :] = real(columns.sum(1, keepdims=True) if kind == "shared" else columns)
        else:
            forms = w * w if kind == "diag" else w[:, a] * w[:, b] * np.where(a == b, 1.0, 2.0)
            columns = -0.5 * weighted[:, :, None] * forms[:, None, :]
            out[:, k * d + k - 1 :] = real(columns.reshape(m, count))
        return out, real(weighted.sum(1))

    def moved(self, step: Array) -> State:
        """The state after a step in the parameters, kept possible."""
        state = self.state
        k, d = state.means.shape
        move = step[: k * d].reshape(k, d)
        # what the sketch does not determine must not run away
        means = state.means + move * np.minimum(1.0, _FURTHEST / np.maximum(np.abs(move).max(1), 1e-300))[:, None]
        weights = state.weights + (simplex_basis(k) @ step[k * d : k * d + k - 1] if k > 1 else 0.0)
        weights = np.maximum(weights, 1e-9)
        tail, s = step[k * d + k - 1 :], state.covariances
        if s.ndim < 3:
            covariances = np.maximum(s + tail.reshape(s.shape), 0.1 * s)
        else:
            a, b = np.tril_indices(d)
            change = np.zeros_like(s)
            change[:, a, b] = tail.reshape(k, -1)
            change[:, b, a] = tail.reshape(k, -1)
            # at most nine tenths of the variance in any direction may go
            root = np.linalg.cholesky(s)
            inverse = np.linalg.inv(root)
            values, vectors = np.linalg.eigh(inverse @ change @ np.swapaxes(inverse, 1, 2))
            grown = (vectors * np.maximum(1.0 + values, 0.1)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
            covariances = root @ grown @ np.swapaxes(root, 1, 2)
        return State(means, weights / weights.sum(), covariances)

    # -- the fit -------------------------------------------------------------------------------

    def polish(self, steps: int | None = None) -> float:
        """Damped Gauss-Newton steps in this metric; returns how far a mean has moved, in widths.

        Six of them, or one where each is costly and the search has left little to do.
        """
        start = self.state.means.copy()
        many = self.state.means.size + len(self.state.means) > _MANY
        dtype = np.float32 if many else np.float64  # (of many, single precision finds a direction as good)
        tangents, model = self.tangents(self.state, dtype)
        residual = self.white(self.y - model)
        best, damping = float(residual @ residual), 1e-6
        if steps is None:
            steps = _FEW_STEPS if many else _STEPS
        for _ in range(steps):
            columns = self.white(tangents)
            normal = (columns.T @ columns).astype(np.float64)
            scale = np.sqrt(np.diag(normal)) + 1e-150
            normal /= scale[:, None] * scale
            slope = (columns.T @ residual.astype(dtype)) / scale
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
            tangents = self.tangents(self.state, dtype)[0]
        return float(np.max(np.sqrt(((self.state.means - start) ** 2).sum(1)) / self.state.widths))

    def settle(self, rounds: int = 2) -> float:
        """Polish and take the new noise, until nothing moves; returns how far a mean has moved, in widths."""
        moved = 0.0
        if len(self.state.means) * (self.state.means.shape[1] + 1) > _MANY:
            rounds = 1
        for _ in range(rounds):
            step = self.polish()
            moved = max(moved, step)
            self.refresh()
            if step < 0.05:
                break
        return moved

    def replace(self, state: State) -> None:
        """Another mixture, and its noise."""
        self.state = State(state.means, state.weights / state.weights.sum(), state.covariances)
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
    m = len(w)
    k = len(state.weights)
    plain = np.exp(1j * (w @ state.means.T))
    direct, conjugate = np.zeros((m, m), np.complex128), np.zeros((m, m), np.complex128)
    shared = state.covariances.ndim == 1 and len(state.covariances) == 1
    for part in [slice(None)] if shared else [slice(l, l + 1) for l in range(k)]:
        cross = _cross(w, state.covariances, 0 if shared else part.start)
        q = np.diag(cross)
        half = 0.5 * (q[:, None] + q)
        damped = np.exp(-half)
        weighted = plain[:, part] * state.weights[part]
        direct += (np.exp(cross - half) - damped * (1.0 + cross)) * (weighted @ plain[:, part].conj().T)
        conjugate += (np.exp(-cross - half) - damped * (1.0 - cross)) * (weighted @ plain[:, part].T)
    out = np.empty((2 * m, 2 * m))
    out[:m, :m] = 0.5 * (direct.real + conjugate.real)
    out[m:, m:] = 0.5 * (direct.real - conjugate.real)
    out[:m, m:] = 0.5 * (conjugate.imag - direct.imag)
    out[m:, :m] = out[:m, m:].T
    return out


def _cross(w: Array, covariances: Array, l: int) -> Array:
    s = covariances[l]
    return np.asarray((w * s if s.ndim < 2 else w @ s) @ w.T)


def remainder_variance(w: Array, state: State) -> tuple[Array, npt.NDArray[np.complex128]]:
    """The diagonal of R: E|.|^2 (m,), and E(.)^2 (m,).

    Where a component's covariance is free, what is quadratic in g is absorbed as well.
    """
    q = quadratic(w, state.covariances)
    kind = state.kind
    if kind == "full":
        h = 0.5 * q * q
    elif kind == "diag":
        h = 0.5 * ((w**4) @ (state.covariances**2).T)
    else:
        h = q * q / (2.0 * w.shape[1]) if kind == "spherical" else np.zeros_like(q)
    damped = np.exp(-q)
    direct = np.broadcast_to(1.0 - damped * (1.0 + q + h), (len(w), len(state.weights))) @ state.weights
    turning = np.exp(2j * (w @ state.means.T))
    conjugate = ((np.exp(-2.0 * q) - damped * (1.0 - q + h)) * turning) @ state.weights
    return np.maximum(direct, 0.0), conjugate
