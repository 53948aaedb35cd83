"""Mixtures with known parameters: Gaussian and elliptic stable components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.datasets.clusters import separated_variance
from sketchlearn.datasets.draws import Labels, Seed, component_weights, generator, owners, positive
from sketchlearn.decoders.families import sample_stable
from sketchlearn.models.mixture import Mixture

DEGREES, SCALE = 10, 8.0
"""Variances of components are 8 / χ² with 10 degrees of freedom: their mean is 1 (Keriven 2017, section 5.3)."""


@dataclass(frozen=True, eq=False)
class MixtureData:
    """Rows of a Gaussian mixture, and the mixture.

    Attributes
    ----------
    rows : ndarray (n, d)
        The data.
    labels : ndarray (n,)
        The component of each row.
    mixture : Mixture
        The law of the rows.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.gaussian_mixture(1000, n_components=3, dim=2, seed=0)
    >>> data.mixture.n_components, data.mixture.log_density(data.rows).shape
    (3, (1000,))
    """

    rows: Array
    labels: Labels
    mixture: Mixture


@dataclass(frozen=True, eq=False)
class StableData:
    """Rows of a mixture of elliptic stable laws, and its parameters.

    Attributes
    ----------
    rows : ndarray (n, d)
        The data.
    labels : ndarray (n,)
        The component of each row.
    weights, alphas : ndarray (k,)
        Shares and stability indices; an index of 2 is Gaussian.
    locations : ndarray (k, d)
        Centres.
    scatters : ndarray (k, d)
        Diagonals of the scatter matrices.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.stable_mixture(1000, n_components=3, dim=2, seed=0).alphas.shape
    (3,)
    """

    rows: Array
    labels: Labels
    weights: Array
    alphas: Array
    locations: Array
    scatters: Array


def _variances(k: int, d: int, rng: np.random.Generator) -> Array:
    return np.asarray(SCALE / rng.chisquare(DEGREES, (k, d)))


def gaussian_mixture(
    n_rows: int,
    n_components: int,
    dim: int,
    *,
    separation: float = 1.0,
    weights: str | npt.ArrayLike = "dirichlet",
    covariance_type: str = "diag",
    seed: Seed = 0,
) -> MixtureData:
    """A random Gaussian mixture (Keriven 2017, section 5.3).

    Parameters
    ----------
    n_rows, n_components, dim : int
        Rows, components and columns.
    separation : float
        Means have the standard deviation ``separation * k^(1/d)`` per column.
    weights : {"balanced", "unbalanced", "dirichlet"} or array (k,)
        Shares of the components.
    covariance_type : {"spherical", "diag", "full"}
        Shape of the components.  Variances along the axes are inverse χ² with mean 1; "full" turns them at random.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    MixtureData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.gaussian_mixture(20_000, n_components=3, dim=2, separation=4.0, seed=0)
    >>> model = sl.CompressiveGaussianMixture(3, covariance_type="diag", random_state=0).fit(data.rows)
    >>> model.means_.shape
    (3, 2)
    """
    positive(n_rows=n_rows, n_components=n_components, dim=dim)
    if covariance_type not in ("spherical", "diag", "full"):
        raise ValueError(f"covariance_type={covariance_type!r}: choose 'spherical', 'diag' or 'full'")
    rng = generator(seed)
    k = n_components
    shares = component_weights(weights, k, rng)
    means = rng.standard_normal((k, dim)) * np.sqrt(separated_variance(k, dim, separation))
    covariances = _variances(k, 1 if covariance_type == "spherical" else dim, rng)
    if covariance_type == "spherical":
        covariances = covariances[:, 0]
    elif covariance_type == "full":
        turns = np.linalg.qr(rng.standard_normal((k, dim, dim)))[0]
        covariances = (turns * covariances[:, None, :]) @ turns.swapaxes(1, 2)
    mixture = Mixture(shares, means, covariances)
    rows, labels = mixture.sample(n_rows, random_state=rng)
    order = rng.permutation(n_rows)
    return MixtureData(rows[order], labels[order], mixture)


def stable_mixture(
    n_rows: int,
    n_components: int,
    dim: int,
    *,
    alphas: npt.ArrayLike | None = None,
    separation: float = 1.5,
    weights: str | npt.ArrayLike = "dirichlet",
    seed: Seed = 0,
) -> StableData:
    """A random mixture of elliptic stable laws (Keriven 2017, section 5.6).

    Parameters
    ----------
    n_rows, n_components, dim : int
        Rows, components and columns.
    alphas : array (k,), optional
        Stability indices in (0, 2]; uniform in [0.5, 2] by default.
    separation : float
        Locations have the standard deviation ``separation * k^(1/d)`` per column.
    weights : {"balanced", "unbalanced", "dirichlet"} or array (k,)
        Shares of the components.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    StableData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.stable_mixture(5000, n_components=3, dim=10, alphas=(0.63, 1.9, 1.2), seed=0)
    >>> data.rows.shape, data.alphas
    ((5000, 10), array([0.63, 1.9 , 1.2 ]))
    """
    positive(n_rows=n_rows, n_components=n_components, dim=dim)
    rng = generator(seed)
    k = n_components
    shares = component_weights(weights, k, rng)
    locations = rng.standard_normal((k, dim)) * np.sqrt(separated_variance(k, dim, separation))
    scatters = _variances(k, dim, rng)
    indices = np.asarray(rng.uniform(0.5, 2.0, k) if alphas is None else alphas, np.float64)
    if indices.shape != (k,):
        raise ValueError(f"alphas must be {k} numbers, got shape {indices.shape}")
    labels = owners(n_rows, shares, rng)
    rows = np.empty((n_rows, dim))
    for l in range(k):
        mine = labels == l
        rows[mine] = sample_stable(int(mine.sum()), float(indices[l]), locations[l], scatters[l], rng)
    return StableData(rows, labels, shares, indices, locations, scatters)
