"""Clusters: round, oblong, nested, rare, with heavy tails, with a few far rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.datasets.draws import Labels, Seed, component_weights, generator, owners, positive


@dataclass(frozen=True, eq=False)
class ClusterData:
    """Rows in clusters, and the truth.

    Attributes
    ----------
    rows : ndarray (n, d)
        The data.
    labels : ndarray (n,)
        The cluster of each row.
    centers : ndarray (k, d)
        True centres.
    weights : ndarray (k,)
        Shares of the clusters in the law that rows are drawn from.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.clusters(500, n_clusters=4, dim=2, seed=1)
    >>> data.n_clusters, data.weights
    (4, array([0.25, 0.25, 0.25, 0.25]))
    """

    rows: Array
    labels: Labels
    centers: Array
    weights: Array

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.centers)


def separated_variance(n_clusters: int, dim: int, separation: float = 2.5) -> float:
    """Variance of the centres, a column, that keeps k clusters of unit width about equally far apart in any dimension.

    ``(separation * k^(1/d))^2`` (Chatalic 2020, section 4.1; Keriven 2017, section 5.3, with 1.5 for clusters and 1
    for mixtures).

    Examples
    --------
    >>> import sketchlearn as sl
    >>> round(sl.datasets.separated_variance(10, 10), 2)
    9.91
    """
    positive(n_clusters=n_clusters, dim=dim)
    return (separation * n_clusters ** (1.0 / dim)) ** 2


def clusters(
    n_rows: int,
    n_clusters: int,
    dim: int,
    *,
    separation: float = 2.5,
    variance: float | None = None,
    weights: str | npt.ArrayLike = "balanced",
    widths: npt.ArrayLike = 1.0,
    seed: Seed = 0,
) -> ClusterData:
    """Round normal clusters with normal centres: the k-means data of the literature.

    Chatalic (2020, eq. 4.5) has balanced clusters with ``separation=2.5``; Keriven (2017, section 5.3) has
    ``separation=1.5, weights="dirichlet"``.  Below a separation of about 1 clusters overlap.

    Parameters
    ----------
    n_rows, n_clusters, dim : int
        Rows, clusters and columns.
    separation : float
        Centres have the standard deviation ``separation * k^(1/d)`` per column, in units of the width of a cluster.
    variance : float, optional
        Variance of the centres per column, instead of the separation.
    weights : {"balanced", "unbalanced", "dirichlet"} or array (k,)
        Shares of the clusters: equal, up to 20 to 1, or drawn from a Dirichlet law with concentration 5.
    widths : number or array (k,)
        Standard deviation of the clusters, per column.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    ClusterData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.clusters(10_000, n_clusters=10, dim=10, seed=0)
    >>> model = sl.CompressiveKMeans(10, random_state=0).fit(data.rows)
    >>> model.cluster_centers_.shape == data.centers.shape
    True
    """
    positive(n_rows=n_rows, n_clusters=n_clusters, dim=dim)
    spread = separated_variance(n_clusters, dim, separation) if variance is None else variance
    if not spread >= 0:
        raise ValueError(f"variance={variance!r}: give a number that is not negative")
    rng = generator(seed)
    centers = rng.standard_normal((n_clusters, dim)) * math.sqrt(spread)
    shares = component_weights(weights, n_clusters, rng)
    labels = owners(n_rows, shares, rng)
    width = np.broadcast_to(np.asarray(widths, np.float64), (n_clusters,))
    rows = centers[labels] + width[labels][:, None] * rng.standard_normal((n_rows, dim))
    return ClusterData(rows, labels, centers, shares)


def oblong_clusters(
    n_rows: int, n_clusters: int, dim: int, *, variance: float = 100.0, ratio: float = 10.0, seed: Seed = 0
) -> ClusterData:
    """Clusters that are ellipsoids with axes of random direction.

    Parameters
    ----------
    n_rows, n_clusters, dim : int
        Rows, clusters and columns.
    variance : float
        Variance of the centres, per column.
    ratio : float
        Largest ratio of two axes of a cluster; lengths are log-uniform around 1.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    ClusterData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.oblong_clusters(100, n_clusters=3, dim=4, seed=0).rows.shape
    (100, 4)
    """
    positive(n_rows=n_rows, n_clusters=n_clusters, dim=dim)
    if not ratio >= 1:
        raise ValueError(f"ratio={ratio!r}: give a number of at least 1")
    rng = generator(seed)
    centers = rng.standard_normal((n_clusters, dim)) * math.sqrt(variance)
    labels = owners(n_rows, np.full(n_clusters, 1.0 / n_clusters), rng)
    turns = np.linalg.qr(rng.standard_normal((n_clusters, dim, dim)))[0]
    half = 0.5 * math.log(ratio)
    axes = turns * np.exp(rng.uniform(-half, half, (n_clusters, 1, dim)))
    rows = centers[labels] + np.einsum("nab,nb->na", axes[labels], rng.standard_normal((n_rows, dim)))
    return ClusterData(rows, labels, centers, np.full(n_clusters, 1.0 / n_clusters))


def nested_clusters(
    n_rows: int,
    groups: int,
    per_group: int,
    dim: int,
    *,
    variance: float = 1000.0,
    inner_variance: float = 20.0,
    seed: Seed = 0,
) -> ClusterData:
    """Clusters within clusters: groups far apart, each of several close clusters of unit width.

    Parameters
    ----------
    n_rows, groups, per_group, dim : int
        Rows, groups, clusters of a group, and columns.
    variance : float
        Variance of the centres of the groups, per column.
    inner_variance : float
        Variance of the centres around the centre of their group, per column.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    ClusterData
        Clusters ``i * per_group`` to ``(i + 1) * per_group - 1`` are those of group i.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.nested_clusters(600, groups=3, per_group=2, dim=5, seed=0)
    >>> data.n_clusters, len(set(data.labels // 2))
    (6, 3)
    """
    positive(n_rows=n_rows, groups=groups, per_group=per_group, dim=dim)
    rng = generator(seed)
    middles = rng.standard_normal((groups, dim)) * math.sqrt(variance)
    centers = np.repeat(middles, per_group, 0)
    centers = centers + rng.standard_normal(centers.shape) * math.sqrt(inner_variance)
    k = len(centers)
    labels = owners(n_rows, np.full(k, 1.0 / k), rng)
    return ClusterData(centers[labels] + rng.standard_normal((n_rows, dim)), labels, centers, np.full(k, 1.0 / k))


def rare_clusters(
    n_rows: int,
    n_clusters: int,
    dim: int,
    *,
    rare: int = 1,
    share: float = 1e-3,
    variance: float = 100.0,
    seed: Seed = 0,
) -> ClusterData:
    """Round clusters of which the last few are rare.

    Parameters
    ----------
    n_rows, n_clusters, dim : int
        Rows, clusters and columns.
    rare : int
        How many clusters are rare.
    share : float
        Share of the rows in each rare cluster; each has at least one row.
    variance : float
        Variance of the centres, per column.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    ClusterData
        The rare clusters are the last ones.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.rare_clusters(20_000, n_clusters=10, dim=5, share=1e-3, seed=0)
    >>> float(data.weights[-1]), bool(1 <= (data.labels == 9).sum() < 60)
    (0.001, True)
    """
    positive(n_rows=n_rows, n_clusters=n_clusters, dim=dim, rare=rare)
    if rare >= n_clusters or not 0 < rare * share < 1:
        raise ValueError(
            f"{rare} rare clusters with a share of {share:g} each leave nothing for others of {n_clusters}"
        )
    rng = generator(seed)
    weights = np.full(n_clusters, share)
    weights[: n_clusters - rare] = (1.0 - rare * share) / (n_clusters - rare)
    data = clusters(n_rows, n_clusters, dim, variance=variance, weights=weights, seed=rng)
    labels, rows = data.labels.copy(), data.rows.copy()
    for cluster in range(n_clusters - rare, n_clusters):
        if not (labels == cluster).any():  # a cluster that no row shows is not there
            at = int(rng.integers(n_rows))
            labels[at], rows[at] = cluster, data.centers[cluster] + rng.standard_normal(dim)
    return ClusterData(rows, labels, data.centers, data.weights)


def heavy_tails(
    n_rows: int, n_clusters: int, dim: int, *, degrees: float = 3.0, variance: float = 100.0, seed: Seed = 0
) -> ClusterData:
    """Clusters whose columns have Student's t law.

    Parameters
    ----------
    n_rows, n_clusters, dim : int
        Rows, clusters and columns.
    degrees : float
        Degrees of freedom; the variance is finite above 2.
    variance : float
        Variance of the centres, per column.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    ClusterData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.heavy_tails(10_000, n_clusters=3, dim=2, seed=0)
    >>> bool(abs(data.rows - data.centers[data.labels]).max() > 10)
    True
    """
    positive(n_rows=n_rows, n_clusters=n_clusters, dim=dim)
    rng = generator(seed)
    centers = rng.standard_normal((n_clusters, dim)) * math.sqrt(variance)
    labels = owners(n_rows, np.full(n_clusters, 1.0 / n_clusters), rng)
    rows = centers[labels] + rng.standard_t(degrees, (n_rows, dim))
    return ClusterData(rows, labels, centers, np.full(n_clusters, 1.0 / n_clusters))


def far_groups(
    n_rows: int,
    n_clusters: int,
    dim: int,
    *,
    share: float = 1e-3,
    distance: float = 90.0,
    variance: float = 10.0,
    seed: Seed = 0,
) -> ClusterData:
    """Clusters of which one is both rare and far away, so that it carries much of the cost of k-means.

    Parameters
    ----------
    n_rows, n_clusters, dim : int
        Rows, clusters and columns.
    share : float
        Share of the rows in the far cluster, which is the last one.
    distance : float
        Distance of its centre from the origin, along the first column.
    variance : float
        Variance of the other centres, per column.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    ClusterData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.far_groups(10_000, n_clusters=5, dim=3, seed=0).centers[-1]
    array([90.,  0.,  0.])
    """
    rng = generator(seed)
    data = rare_clusters(n_rows, n_clusters, dim, share=share, variance=variance, seed=rng)
    centers, rows = data.centers.copy(), data.rows.copy()
    centers[-1] = 0.0
    centers[-1, 0] = distance
    last = data.labels == n_clusters - 1
    rows[last] += centers[-1] - data.centers[-1]
    return ClusterData(rows, data.labels, centers, data.weights)
