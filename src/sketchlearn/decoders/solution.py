"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weighted Gaussian components (points, if they have no width).

    Attributes
    ----------
    weights : ndarray (k,)
        Non-negative, summing to 1.
    means : ndarray (k, d)
        Centres.
    covariances : ndarray
        (k,) variances, (k, d) diagonals or (k, d, d) matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.decoders import Mixture
    >>> mixture = Mixture(np.array([0.5, 0.5]), np.array([[0.0], [4.0]]), np.array([1.0, 1.0]))
    >>> mixture.mean, mixture.total_variance
    (array([2.]), 5.0)
    """

    weights: Array
    means: Array
    covariances: Array

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def mean(self) -> Array:
        """Mean of the mixture."""
        return self.weights @ self.means

    def variances(self) -> Array:
        """Trace of each component's covariance, (k,)."""
        if self.covariances.ndim == 1:
            return self.covariances * self.means.shape[1]
        if self.covariances.ndim == 2:
            return self.covariances.sum(1)
        return np.trace(self.covariances, axis1=1, axis2=2)

    @property
    def total_variance(self) -> float:
        """Trace of the covariance of the whole mixture."""
        spread = ((self.means - self.mean) ** 2).sum(1)
        return float(self.weights @ (self.variances() + spread))

    def full_covariances(self) -> Array:
        """Covariances as matrices, (k, d, d)."""
        d = self.means.shape[1]
        if self.covariances.ndim == 1:
            return self.covariances[:, None, None] * np.eye(d)
        if self.covariances.ndim == 2:
            return self.covariances[:, :, None] * np.eye(d)
        return self.covariances

    def log_densities(self, rows: Array) -> Array:
        """Logarithm of weight times density of each component at some points, (n, k)."""
        out = np.empty((len(rows), len(self.weights)))
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        for l, (mean, s) in enumerate(zip(self.means, self.full_covariances(), strict=True)):
            root = np.linalg.cholesky(s)
            y = np.linalg.solve(root, (rows - mean).T)
            out[:, l] = logs[l] - np.log(np.diag(root)).sum() - 0.5 * (y * y).sum(0)
        return out - 0.5 * rows.shape[1] * np.log(2 * np.pi)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, npt.NDArray[np.intp]]:
        """About n points, their weights and components: antithetic pairs, half of them shared out evenly."""
        k, d = self.means.shape
        share = 0.5 * self.weights + 0.5 / k
        pairs = np.maximum(5, np.ceil(n * share / 2)).astype(int)
        owner = np.repeat(np.arange(k), pairs)
        noise = rng.standard_normal((len(owner), d))
        if self.covariances.ndim == 1:
            step = noise * np.sqrt(np.maximum(self.covariances, 0.0))[owner, None]
        elif self.covariances.ndim == 2:
            step = noise * np.sqrt(np.maximum(self.covariances, 0.0))[owner]
        else:
            values, vectors = np.linalg.eigh(self.covariances)
            roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            ends = np.cumsum(pairs)
            parts = zip(roots, ends, pairs, strict=True)
            step = np.concatenate([noise[end - count : end] @ root.T for root, end, count in parts])
        points = np.concatenate([self.means[owner] + step, self.means[owner] - step])
        weights = (self.weights / (2 * pairs))[owner]
        return points, np.concatenate([weights, weights]), np.concatenate([owner, owner])

    def stretched(self, spread: Array | None) -> Mixture:
        """The mixture of ``spread * x``, column by column."""
        if spread is None:
            return self
        s = self.covariances
        if s.ndim == 3:
            s = s * np.outer(spread, spread)
        else:
            s = (s[:, None] if s.ndim == 1 else s) * spread**2
        return Mixture(self.weights, self.means * spread, s)

    def scaled(self, scale: float, shift: Array) -> Mixture:
        """The mixture of ``scale * x + shift``."""
        return Mixture(self.weights, self.means * scale + shift, self.covariances * scale**2)


@dataclass(frozen=True, eq=False)
class Solution:
    """A decoded model and what is known about its quality.

    Attributes
    ----------
    mixture : Mixture
        The mixture that explains the sketch.
    centers, weights : ndarray
        Centres of the partition (k, d) and the share of each cell.
    residual : float
        Weighted mean squared misfit of the sketch.
    noise_floor : float
        What sampling noise alone would leave, given the model.
    ratio : float
        residual / noise_floor: near 1 if the model explains the data down to the noise.
    reliable : bool
        The certificate: False if the ratio says that something is missing.
    verdict : str
        The same in words.
    decoder : str
        Which decoder made it, and by which path.
    iterations : int
        Rounds of the decoder.
    inertia : float
        Estimated mean squared distance of a row to its centre (in units of the spread of each column, if the map
        is standardised).
    trace : list of dict
        What happened, round by round, if asked for.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> phi = sl.design(X[::5], n_components=2, seed=0)
    >>> solution = sl.decode(sl.sketch(X, phi), 2)
    >>> solution.reliable, solution.centers.shape
    (True, (2, 2))
    """

    mixture: Mixture
    centers: Array
    weights: Array
    residual: float
    noise_floor: float
    ratio: float
    reliable: bool
    verdict: str
    decoder: str
    iterations: int
    inertia: float
    trace: list[dict[str, Any]] = field(default_factory=list)
