"""Mixtures of flat components: several Gaussians inside each of some subspaces, and one thickness for all.

Component j of subspace l is ``N(o_l + U_l a_j, U_l L_j L_j' U_l' + s^2 I)``.  Its characteristic function needs the
products of the frequencies with the bases only, so that a fit costs no more in many columns than in few, and there are
dim times as many numbers a subspace as columns to follow the noise with, not half their square.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.steps.lbfgs import lbfgs
from sketchlearn.kernels import atoms

Array = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]

_LIGHTEST = 6.0  # logarithm of the ratio of weights at most, from the mean of the logarithms
_THINNEST, _THICKEST = 1e-6, 1.0  # variances across, in units of those inside
_MEMORY, _TOLERANCE = 12, 1e-7


@dataclass(frozen=True, eq=False)
class Data:
    """A sketch in units of the spread inside the subspaces.

    Attributes
    ----------
    frequencies : ndarray (m, d)
        Times the spread.
    values : ndarray (m,), complex
        Averages of the sketch.
    importance : ndarray (m,)
        Weights of the squared misfits: they sum to 1 where all noise is that of sampling.
    rows : float
        Rows behind the sketch.
    added : ndarray (m,)
        Variance of what was added to the averages.
    """

    frequencies: F32
    values: npt.NDArray[np.complex128]
    importance: Array
    rows: float
    added: Array


@dataclass(frozen=True, eq=False)
class Flats:
    """The mixture: logarithms of weights (g, c), bases (g, d, r), places (g, c, r), roots (g, c, r, r), offsets (g, d).

    Attributes
    ----------
    log_weights, bases, places, roots : ndarray
        As above; weights up to a factor.
    offsets : ndarray (g, d) or None
        Where the flats are; None: at the origin.
    log_variance : float
        Logarithm of the variance across the subspaces.
    """

    log_weights: Array
    bases: Array
    places: Array
    roots: Array
    offsets: Array | None
    log_variance: float

    @property
    def weights(self) -> Array:
        """Shares of the components, (g, c)."""
        raw = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(raw / raw.sum())

    def orthonormal(self) -> Flats:
        """The same mixture with orthonormal bases."""
        q, r = np.linalg.qr(self.bases)
        turned = r[:, None]
        return Flats(
            self.log_weights,
            q,
            (turned @ self.places[..., None])[..., 0],
            turned @ self.roots,
            self.offsets,
            self.log_variance,
        )

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, npt.NDArray[np.intp]]:
        """Rows of the mixture, and the groups that they are from."""
        share = self.weights.ravel()
        group, part = np.divmod(rng.choice(share.size, n, p=share), self.places.shape[1])
        noise = rng.standard_normal((n, self.places.shape[2], 1))
        inside = self.places[group, part] + (self.roots[group, part] @ noise)[..., 0]
        rows = (self.bases[group] @ inside[..., None])[..., 0]
        if self.offsets is not None:
            rows += self.offsets[group]
        return rows + np.exp(0.5 * self.log_variance) * rng.standard_normal(rows.shape), group

    def vector(self) -> Array:
        """All numbers in a row."""
        parts = [self.log_weights, self.bases, self.places, self.roots]
        if self.offsets is not None:
            parts.append(self.offsets)
        return np.concatenate([*(p.ravel() for p in parts), [self.log_variance]])

    def from_vector(self, x: Array) -> Flats:
        """A mixture of the same shape from its numbers."""
        parts = [self.log_weights, self.bases, self.places, self.roots]
        if self.offsets is not None:
            parts.append(self.offsets)
        cut = np.split(x, np.cumsum([p.size for p in parts]))
        found = [c.reshape(p.shape) for c, p in zip(cut, parts, strict=False)]
        return Flats(
            found[0], found[1], found[2], found[3], found[4] if self.offsets is not None else None, float(cut[-1][0])
        )


def fit_flats(data: Data, start: Flats, steps: int) -> tuple[Flats, float]:
    """Fit a mixture to a sketch by least squares; also the misfit."""
    objective = _Objective(data, start)
    x = start.vector()
    lower, upper = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    middle = float(start.log_weights.mean())
    lower[: start.log_weights.size], upper[: start.log_weights.size] = middle - _LIGHTEST, middle + _LIGHTEST
    lower[-1], upper[-1] = np.log(_THINNEST), np.log(_THICKEST)
    found, value, _ = lbfgs(objective, x, lower, upper, steps, _MEMORY, _TOLERANCE)
    return start.from_vector(found), value


class _Objective:
    """Half the weighted square of what the mixture leaves of the sketch, and its gradient."""

    def __init__(self, data: Data, like: Flats) -> None:
        self.data, self.like = data, like
        g, c, _ = like.places.shape
        m = len(data.values)
        self.w, self.target = data.frequencies, np.stack([data.values.real, data.values.imag])
        self.squares = (self.w * self.w).sum(1)
        self.cosine, self.sine = np.empty((g * c, m), np.float32), np.empty((g * c, m), np.float32)
        self.model, self.along = np.empty((2, m), np.float32), np.empty(g * c, np.float32)

    def __call__(self, x: Array) -> tuple[float, Array]:
        flats = self.like.from_vector(x)
        g, c, _ = flats.places.shape
        m = len(self.squares)
        weights, variance = flats.weights, np.exp(flats.log_variance)
        places, roots = flats.places.astype(np.float32), flats.roots.astype(np.float32)
        products = self.w @ flats.bases.astype(np.float32)  # (g, m, r)
        phases = places @ products.transpose(0, 2, 1)
        if flats.offsets is not None:
            phases += (flats.offsets.astype(np.float32) @ self.w.T)[:, None]
        inside = products[:, None] @ roots  # (g, c, m, r)
        damping = -0.5 * (np.einsum("gcmr,gcmr->gcm", inside, inside) + np.float32(variance) * self.squares)
        flat = weights.astype(np.float32).ravel()
        atoms.atoms(
            np.ascontiguousarray(phases.reshape(g * c, m)), np.ascontiguousarray(damping.reshape(g * c, m)), flat,
            self.cosine, self.sine, self.model,
        )  # fmt: skip
        left = self.model - self.target
        u = self.data.importance
        value = 0.5 * float(u @ (left[0] ** 2 + left[1] ** 2))
        atoms.products(self.cosine, self.sine, (u * left).astype(np.float32), self.along)
        along = self.along.reshape(g, c).astype(np.float64)
        d_weights = weights * (along - float((weights * along).sum()))
        share = weights.astype(np.float32)[:, :, None]
        turns, shrinks = share * self.sine.reshape(g, c, m), share * self.cosine.reshape(g, c, m)
        d_places = turns @ products
        pulls = -shrinks[..., None] * inside
        d_roots = products.transpose(0, 2, 1)[:, None] @ pulls
        d_products = turns.transpose(0, 2, 1) @ places + (pulls @ roots.transpose(0, 1, 3, 2)).sum(1)
        parts = [d_weights, self.w.T @ d_products, d_places, d_roots]
        if flats.offsets is not None:
            parts.append(turns.sum(1) @ self.w)
        d_variance = -0.5 * variance * float(shrinks.sum((0, 1)) @ self.squares)
        gradient = np.concatenate([*(np.asarray(p, np.float64).ravel() for p in parts), [d_variance]])
        return value, gradient
