"""A Gaussian mixture as a value: moments, densities, samples, marginals and conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Index
from sketchlearn.models.randomness import RandomState, as_generator

_NUMBERS = 2**17  # float64 that are computed together: a megabyte, which a cache holds
_FAR = 1e4  # widths: squares of products lose eight of sixteen digits


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
    >>> from sketchlearn.models.mixture import Mixture
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
    def dim(self) -> int:
        """Number of columns."""
        return int(self.means.shape[1])

    # -- moments -----------------------------------------------------------------------------

    @property
    def mean(self) -> Array:
        """Mean of the mixture."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        """Covariance of the whole mixture, (d, d).

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> sl.Mixture(np.array([0.5, 0.5]), np.array([[0.0], [4.0]]), np.array([1.0, 1.0])).covariance
        array([[5.]])
        """
        apart = self.means - self.mean
        between = (self.weights[:, None] * apart).T @ apart
        s = self.covariances
        if s.ndim == 3:
            return np.asarray(between + np.tensordot(self.weights, s, 1))
        return np.asarray(between + np.diag(np.broadcast_to(self.weights @ s, (self.dim,))))

    def variances(self) -> Array:
        """Trace of each component's covariance, (k,)."""
        if self.covariances.ndim == 1:
            return self.covariances * self.dim
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
        if self.covariances.ndim == 1:
            return self.covariances[:, None, None] * np.eye(self.dim)
        if self.covariances.ndim == 2:
            return self.covariances[:, :, None] * np.eye(self.dim)
        return self.covariances

    # -- densities ---------------------------------------------------------------------------

    def log_densities(self, X: npt.ArrayLike) -> Array:
        """Logarithm of weight times density of each component at some points, (n, k).

        Few rows at a time, so that they stay in the cache.
        """
        rows, (k, d) = self._rows(X), self.means.shape
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) - 0.5 * d * np.log(2 * np.pi)
        if self.covariances.ndim == 3:
            roots = np.linalg.cholesky(self.covariances)
            logs = logs - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
            factors = np.linalg.inv(roots)
        else:
            widths = np.sqrt(self.covariances if self.covariances.ndim == 2 else self.covariances[:, None])
            logs = logs - (np.log(widths) * np.ones(d)).sum(1)
            factors = 1.0 / widths
        out = np.empty((len(rows), k))
        block = max(1, _NUMBERS // (k * d))
        for start in range(0, len(rows), block):
            some = rows[start : start + block]
            out[start : start + block] = logs - 0.5 * self._squared_lengths(some, factors)
        return out

    def _squared_lengths(self, rows: Array, factors: Array) -> Array:
        """Squared Mahalanobis distances (n, k), with factors (k, d, d), (k, d) or (k, 1) of the precisions."""
        k, d = self.means.shape
        if factors.ndim == 2:
            y = (rows[:, None, :] - self.means) * factors
            return np.einsum("nkd,nkd->nk", y, y)
        middle = self.means.mean(0)
        offset = np.einsum("kij,kj->ki", factors, self.means - middle)
        if np.abs(offset).max() > _FAR:  # too far apart, in widths, for differences of products
            return np.stack([(((rows - m) @ f.T) ** 2).sum(1) for m, f in zip(self.means, factors, strict=True)], 1)
        # one product for all components
        y = (rows - middle) @ np.ascontiguousarray(factors.reshape(k * d, d).T) - offset.ravel()
        y *= y
        return np.asarray(y.reshape(-1, k, d).sum(2))

    def log_density(self, X: npt.ArrayLike) -> Array:
        """Logarithm of the density at some points, (n,).

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> sl.Mixture(np.ones(1), np.zeros((1, 1)), np.ones(1)).log_density([[0.0]]).round(3)
        array([-0.919])
        """
        return np.asarray(np.logaddexp.reduce(self.log_densities(X), axis=1))

    def quantile(self, direction: npt.ArrayLike, p: npt.ArrayLike) -> Array:
        """Quantiles of a linear form of the rows, ``direction · x``.

        Parameters
        ----------
        direction : array (d,)
            Coefficients of the form; a unit vector for a column.
        p : number or array
            Probabilities, above 0 and below 1.

        Returns
        -------
        ndarray, shaped like `p`

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> mixture = sl.Mixture(np.array([0.5, 0.5]), np.array([[0.0, 1.0], [4.0, 1.0]]), np.array([1.0, 1.0]))
        >>> mixture.quantile([1.0, 0.0], [0.05, 0.5, 0.95]).round(2)
        array([-1.28,  2.  ,  5.28])
        """
        a = np.asarray(direction, np.float64)
        if a.shape != (self.dim,) or not np.isfinite(a).all():
            raise ValueError(f"direction must be {self.dim} finite numbers, got shape {a.shape}")
        spread = np.sqrt(np.maximum(np.einsum("i,kij,j->k", a, self.full_covariances(), a), 0.0))
        given = np.asarray(p, np.float64)
        found = mixture_quantiles(self.weights[None], (self.means @ a)[None], spread[None], given.reshape(-1))
        return np.asarray(found[0].reshape(given.shape))

    # -- samples -----------------------------------------------------------------------------

    def sample(self, n: int, random_state: RandomState = None) -> tuple[Array, Index]:
        """Rows drawn from the mixture (n, d) in random order, and their components (n,).

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> rows, owner = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1)).sample(5, random_state=0)
        >>> rows.shape, owner
        ((5, 2), array([0, 0, 0, 0, 0]))
        """
        if n < 1:
            raise ValueError(f"n={n}: ask for at least one row")
        rng = as_generator(random_state)
        owner = np.sort(rng.choice(self.n_components, size=n, p=self.weights / self.weights.sum()))
        rows, order = self.means[owner] + self._steps(owner, rng), rng.permutation(n)
        return rows[order], owner[order]

    def weighted_points(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, Index]:
        """About n points, their weights and components: antithetic pairs, half of them shared out evenly."""
        k = self.n_components
        share = 0.5 * self.weights + 0.5 / k
        pairs = np.maximum(5, np.ceil(n * share / 2)).astype(int)
        owner = np.repeat(np.arange(k), pairs)
        step = self._steps(owner, rng)
        points = np.concatenate([self.means[owner] + step, self.means[owner] - step])
        weights = (self.weights / (2 * pairs))[owner]
        return points, np.concatenate([weights, weights]), np.concatenate([owner, owner])

    def _steps(self, owner: Index, rng: np.random.Generator) -> Array:
        """Draws around the means of some components, in the order of the components."""
        noise = rng.standard_normal((len(owner), self.dim))
        if self.covariances.ndim == 1:
            return noise * np.sqrt(np.maximum(self.covariances, 0.0))[owner, None]
        if self.covariances.ndim == 2:
            return noise * np.sqrt(np.maximum(self.covariances, 0.0))[owner]
        values, vectors = np.linalg.eigh(self.covariances)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        ends = np.searchsorted(owner, np.arange(self.n_components), side="right")
        starts = np.concatenate([[0], ends[:-1]])
        parts = zip(roots, starts, ends, strict=True)
        return np.concatenate([noise[start:end] @ root.T for root, start, end in parts])

    # -- parts -------------------------------------------------------------------------------

    def marginal(self, columns: Sequence[int]) -> Mixture:
        """The mixture of some of the columns, in the order given.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> mixture = sl.Mixture(np.ones(1), np.array([[1.0, 2.0, 3.0]]), np.ones(1))
        >>> mixture.marginal([2, 0]).means
        array([[3., 1.]])
        """
        at = self._columns(columns)
        s = self.covariances
        if s.ndim == 2:
            s = s[:, at]
        elif s.ndim == 3:
            s = s[:, at[:, None], at]
        return Mixture(self.weights, self.means[:, at], s)

    def conditional(self, columns: Sequence[int], values: npt.ArrayLike) -> Mixture:
        """The mixture of the other columns, given the values of some: weights, means and covariances change.

        Parameters
        ----------
        columns : sequence of int
            Columns that are known.
        values : array
            Their values, as many.

        Returns
        -------
        Mixture
            Of the remaining columns, in their order.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> mixture = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
        >>> given = mixture.conditional([0], [2.0])
        >>> given.mean, given.covariance
        (array([1.]), array([[0.75]]))
        """
        at = self._columns(columns)
        known = np.asarray(values, np.float64)
        if known.shape != (len(at),):
            raise ValueError(f"{len(at)} columns are given and values of shape {known.shape}")
        rest = np.setdiff1d(np.arange(self.dim), at)
        if len(rest) == 0:
            raise ValueError("all columns are given: nothing is left to be described")
        logs = self.marginal(at.tolist()).log_densities(known[None])[0]
        weights = np.exp(logs - np.logaddexp.reduce(logs))
        others = self.marginal(rest.tolist())
        if self.covariances.ndim < 3:
            return Mixture(weights, others.means, others.covariances)
        within = self.covariances[:, at[:, None], at]
        across = self.covariances[:, rest[:, None], at]
        slope = np.swapaxes(np.linalg.solve(within, np.swapaxes(across, 1, 2)), 1, 2)
        means = others.means + np.einsum("kij,kj->ki", slope, known - self.means[:, at])
        covariances = others.covariances - slope @ np.swapaxes(across, 1, 2)
        return Mixture(weights, means, 0.5 * (covariances + np.swapaxes(covariances, 1, 2)))

    def _columns(self, columns: Sequence[int]) -> Index:
        at = np.array(columns, np.intp)
        if at.ndim != 1 or len(at) == 0 or len(set(at.tolist())) != len(at):
            raise ValueError(f"columns must be different numbers of columns, got {columns!r}")
        if at.min() < 0 or at.max() >= self.dim:
            raise ValueError(f"columns must be between 0 and {self.dim - 1}, got {columns!r}")
        return at

    def _rows(self, X: npt.ArrayLike) -> Array:
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        return rows

    # -- other units -------------------------------------------------------------------------

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

    def mapped(self, matrix: Array) -> Mixture:
        """The mixture of ``A x`` for a matrix A, with full covariances."""
        covariances = matrix @ self.full_covariances() @ matrix.T
        return Mixture(self.weights, self.means @ matrix.T, covariances)


def mixture_quantiles(weights: Array, means: Array, spreads: Array, p: Array) -> Array:
    """Quantiles of many mixtures of normal laws on the line, (n, k) each, at probabilities p (q,): (n, q).

    By bisection between the smallest and largest quantile of a component.
    """
    from scipy.special import ndtr, ndtri  # slow to import, and few need it

    if not ((p > 0) & (p < 1)).all():
        raise ValueError("probabilities of quantiles must be above 0 and below 1")
    single = means[:, :, None] + spreads[:, :, None] * ndtri(p)
    low, high = single.min(1), single.max(1)
    floor = np.maximum(spreads, 1e-300)[:, :, None]
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = (weights[:, :, None] * ndtr((middle[:, None] - means[:, :, None]) / floor)).sum(1) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))
