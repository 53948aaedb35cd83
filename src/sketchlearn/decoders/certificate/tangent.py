"""Derivatives of the whitened model: what a change of the parameters explains, and the errors of the parameters."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import get_lapack_funcs

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise
from sketchlearn.decoders.certificate.whitened import Whitened, row_blocks, simplex_basis

F32 = npt.NDArray[np.float32]
T = TypeVar("T", np.float32, np.float64)

DRAWS = 200  # rows that measure the noise: variances to 10 %
HALF_A_ROW = 0.5  # a component with less explains nothing by moving


class Tangent:
    """Normal equations of the whitened problem at its state.

    The count of a released sketch has noise of its own: all averages are wrong by one factor, which is the last column
    then and no parameter.
    """

    def __init__(self, problem: Whitened) -> None:
        self.problem = problem
        state, dtype = problem.state, np.float32 if problem.single else np.float64
        columns, model = problem.tangents(state, dtype)
        columns = problem.white(columns, out=columns)
        k, d = state.means.shape
        columns[:, : k * d] *= np.repeat(state.weights * problem.n >= HALF_A_ROW, d)
        self.parameters = columns.shape[1]
        if problem.released:
            columns = np.column_stack([columns, problem.white(model).astype(dtype)])
        self.scale = np.sqrt(
            sum((columns[at] * columns[at]).sum(0, dtype=np.float64) for at in row_blocks(*columns.shape))
        )
        self.scale[self.scale <= 1e-12 * self.scale.max()] = np.inf  # no information: no column
        columns /= self.scale
        self.columns = columns
        self._factor = _factored(columns, noise.ROUNDING_SINGLE if problem.single else noise.ROUNDING)
        self.model = model
        self.residual = problem.white(problem.y - model)
        # what is taken off in single precision only chooses directions of tests
        self._single = columns.astype(np.float32, copy=False)
        self.left = self.off(self.residual[:, None])[:, 0]

    def solve(self, values: Array) -> Array:
        """Inverse of the normal equations, times columns."""
        return np.asarray(cho_solve(self._factor, values, check_finite=False))

    def off(self, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Whitened vectors (2 m, p) less what a change of the parameters explains."""
        if values.dtype == np.float64 and not self.problem.single:
            return np.asarray(values - self.columns @ self.solve(self.columns.T @ values))
        left = values
        for _ in range(1 if values.dtype == np.float32 else 2):  # (twice: what rounding has left goes as well)
            share = self.solve((self._single.T @ left.astype(np.float32, copy=False)).astype(self.columns.dtype))
            left = left - self._single @ share.astype(np.float32, copy=False)
        return left

    def covariance(self) -> Array:
        """Of the parameters (means, then weights), times n: what labels would leave, plus what the sketch adds."""
        state = self.problem.state
        k, d = state.means.shape
        count = k * d + k - 1
        invert: Any = get_lapack_funcs("potri", (self._factor[0],))
        lower, _ = invert(self._factor[0], lower=1)  # (half the work of solving for every column)
        with np.errstate(divide="ignore"):
            units = 1.0 / np.where(np.isinf(self.scale[:count]), 1e-12, self.scale[:count])
        out = np.zeros((k * d + k, k * d + k), lower.dtype)
        inverse = out[:count, :count]
        for at in row_blocks(count, count):
            inverse[at] = np.tril(lower[:count, :count][at], at.start)
            inverse[at] *= units[at, None] * units
        for at in row_blocks(count, count):  # (from what is below the diagonal)
            inverse[: at.stop, at] += np.tril(inverse[at, : at.stop], at.start - 1).T
        if k > 1:
            basis = simplex_basis(k).astype(out.dtype)
            cross, own = inverse[: k * d, k * d :].copy(), inverse[k * d :, k * d :].copy()
            out[: k * d, k * d :] = cross @ basis.T
            out[k * d :, : k * d] = out[: k * d, k * d :].T
            out[k * d :, k * d :] = basis @ own @ basis.T
        if state.family.projected:
            for l, own in enumerate(state.covariances):
                at = slice(l * d, l * d + d)
                out[at, at] += own / max(state.weights[l], 1e-12)
        a = state.weights
        out[k * d :, k * d :] += np.diag(a) - np.outer(a, a)
        return out

    def width_error(self) -> float:
        """Largest relative standard error of a width."""
        state = self.problem.state
        k, d = state.means.shape
        sizes = state.family.free(state.shapes)
        chosen = np.broadcast_to(state.family.sizes(d), sizes.shape)
        if not chosen.any():
            return 0.0
        pick = k * d + k - 1 + np.flatnonzero(chosen.ravel())
        unit = np.zeros((len(self.scale), len(pick)))
        unit[pick, np.arange(len(pick))] = 1.0
        variance = self.solve(unit)[pick, np.arange(len(pick))]
        scale = np.where(np.isinf(self.scale[pick]), 1e-12, self.scale[pick])
        error = np.sqrt(np.maximum(variance, 0.0) / self.problem.n) / scale / np.abs(sizes[chosen])
        return 0.5 * float(error.reshape(len(sizes), -1).min(1).max())


def _factored(columns: Array, ridge: float) -> tuple[Array, bool]:
    """Cholesky factor of the normal equations, with a ridge that is larger where rounding asks for it."""
    normal = columns.T @ columns
    normal[np.diag_indices_from(normal)] += ridge
    try:
        factor: tuple[Array, bool] = cho_factor(normal, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        if ridge >= 1.0:
            raise
        del normal
        return _factored(columns, 10.0 * ridge)
    return factor


def remainders(problem: Whitened, rng: np.random.Generator, count: int = DRAWS) -> F32:
    """Whitened noise of rows drawn from the mixture, without what counts for weights and means, (2 m, count)."""
    state, w = problem.state, problem.w
    k, d = state.means.shape
    owner = rng.choice(k, count, p=state.weights)
    step = state.family.draw(state.shapes, owner, d, rng)
    moves = (w @ step.T).astype(np.float32)
    e = np.exp(state.family.damping(state.shapes, problem.operator)).astype(np.float32).T
    envelope = e if e.shape[1] == 1 else e[:, owner]
    turns = (w @ state.means.T).astype(np.float32)
    c, s = np.cos(turns)[:, owner], np.sin(turns)[:, owner]
    # (where the moves are small, the difference is taken of numbers close to 1: an error of 1e-7, below the ridge)
    along, across = np.cos(moves) - envelope, np.sin(moves)
    if state.family.projected:
        across -= envelope * moves
    return problem.white(np.concatenate([c * along - s * across, s * along + c * across]))
