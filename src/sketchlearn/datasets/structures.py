"""Rows near subspaces, mixed sources, low-rank rows, and graphs with planted groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.datasets.draws import Labels, Seed, component_weights, generator, owners, positive


@dataclass(frozen=True, eq=False)
class SubspaceData:
    """Rows near a union of subspaces.

    Attributes
    ----------
    rows : ndarray (n, d)
        The data.
    labels : ndarray (n,)
        The subspace of each row.
    bases : ndarray (k, d, dim)
        Orthonormal columns that span each subspace.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.subspaces(100, n_subspaces=3, subspace_dim=2, dim=8, seed=0).bases.shape
    (3, 8, 2)
    """

    rows: Array
    labels: Labels
    bases: Array


@dataclass(frozen=True, eq=False)
class SourceData:
    """Mixed independent sources.

    Attributes
    ----------
    rows : ndarray (n, d)
        What is observed: sources times the mixing matrix.
    sources : ndarray (n, d)
        Independent columns of variance 1.
    mixing : ndarray (d, d)
        ``rows = sources @ mixing.T``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> data = sl.datasets.sources(100, dim=3, seed=0)
    >>> bool(np.allclose(data.rows, data.sources @ data.mixing.T))
    True
    """

    rows: Array
    sources: Array
    mixing: Array


@dataclass(frozen=True, eq=False)
class LowRankData:
    """Rows whose second moments have a known spectrum.

    Attributes
    ----------
    rows : ndarray (n, d)
        The data, with mean zero.
    basis : ndarray (d, d)
        Orthonormal columns: the principal directions, by decreasing variance.
    variances : ndarray (d,)
        Along them.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.low_rank(100, dim=6, rank=2, seed=0).variances
    array([1., 1., 0., 0., 0., 0.])
    """

    rows: Array
    basis: Array
    variances: Array


@dataclass(frozen=True, eq=False)
class GraphData:
    """A graph with planted groups.

    Attributes
    ----------
    adjacency : scipy sparse array (n, n)
        Symmetric, of zeros and ones, with an empty diagonal.
    labels : ndarray (n,)
        The group of each node.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.planted_partition(60, n_groups=3, seed=0).adjacency.shape
    (60, 60)
    """

    adjacency: Any
    labels: Labels


def subspaces(
    n_rows: int,
    n_subspaces: int,
    subspace_dim: int,
    dim: int,
    *,
    noise: float = 0.05,
    weights: str | npt.ArrayLike = "balanced",
    seed: Seed = 0,
) -> SubspaceData:
    """Normal rows in random subspaces, with noise.

    Parameters
    ----------
    n_rows, n_subspaces, subspace_dim, dim : int
        Rows, subspaces, their dimension, and columns.
    noise : float
        Standard deviation of what is added to every column.
    weights : {"balanced", "unbalanced", "dirichlet"} or array (k,)
        Shares of the subspaces.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    SubspaceData

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> data = sl.datasets.subspaces(200, n_subspaces=2, subspace_dim=1, dim=3, noise=0.0, seed=0)
    >>> np.linalg.matrix_rank(data.rows[data.labels == 0]).item()
    1
    """
    positive(n_rows=n_rows, n_subspaces=n_subspaces, subspace_dim=subspace_dim, dim=dim)
    if subspace_dim >= dim:
        raise ValueError(f"subspaces of {subspace_dim} dimensions need more than {dim} columns")
    rng = generator(seed)
    bases = np.linalg.qr(rng.standard_normal((n_subspaces, dim, subspace_dim)))[0]
    labels = owners(n_rows, component_weights(weights, n_subspaces, rng), rng)
    inside = rng.standard_normal((n_rows, subspace_dim))
    rows = np.einsum("ndr,nr->nd", bases[labels], inside) + noise * rng.standard_normal((n_rows, dim))
    return SubspaceData(rows, labels, bases)


def sources(n_rows: int, dim: int, *, kinds: tuple[str, ...] = ("uniform", "laplace"), seed: Seed = 0) -> SourceData:
    """Independent sources mixed by a random matrix with singular values in [0.5, 2].

    Parameters
    ----------
    n_rows, dim : int
        Rows, and sources (as many as columns).
    kinds : tuple of {"uniform", "laplace", "binary", "t"}
        Laws of the sources, by turns; t has five degrees of freedom.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    SourceData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.sources(5000, dim=4, kinds=("uniform",), seed=0)
    >>> bool(abs(data.sources).max() < 1.733)
    True
    """
    positive(n_rows=n_rows, dim=dim)
    rng = generator(seed)
    draw: dict[str, Callable[[], Array]] = {
        "uniform": lambda: rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), n_rows),
        "laplace": lambda: rng.laplace(scale=np.sqrt(0.5), size=n_rows),
        "binary": lambda: rng.choice([-1.0, 1.0], n_rows),
        "t": lambda: rng.standard_t(5, n_rows) / np.sqrt(5.0 / 3.0),
    }
    unknown = [kind for kind in kinds if kind not in draw]
    if unknown or not kinds:
        raise ValueError(f"kinds={kinds!r}: choose from {', '.join(draw)}")
    independent = np.column_stack([draw[kinds[i % len(kinds)]]() for i in range(dim)])
    left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
    mixing = (left * np.exp(rng.uniform(np.log(0.5), np.log(2.0), dim))) @ right
    return SourceData(independent @ mixing.T, independent, mixing)


def low_rank(
    n_rows: int, dim: int, rank: int, *, decay: float = 0.0, noise: float = 0.0, seed: Seed = 0
) -> LowRankData:
    """Normal rows with a spectrum that decays like a power, cut off at a rank.

    Parameters
    ----------
    n_rows, dim, rank : int
        Rows, columns, and directions that have a variance of their own.
    decay : float
        The variance of direction j (from 1) is ``j ** -decay``.
    noise : float
        Variance that is added to every direction.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    LowRankData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.low_rank(100, dim=4, rank=4, decay=1.0, seed=0).variances.round(2)
    array([1.  , 0.5 , 0.33, 0.25])
    """
    positive(n_rows=n_rows, dim=dim, rank=rank)
    if rank > dim:
        raise ValueError(f"a rank of {rank} needs at least as many columns, got {dim}")
    rng = generator(seed)
    basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    variances = np.full(dim, float(noise))
    variances[:rank] += np.arange(1.0, rank + 1) ** -decay
    rows = (rng.standard_normal((n_rows, dim)) * np.sqrt(variances)) @ basis.T
    return LowRankData(rows, basis, variances)


def planted_partition(
    n_nodes: int, n_groups: int, *, inside: float = 10.0, outside: float = 2.0, seed: Seed = 0
) -> GraphData:
    """A random graph in which nodes of one group have more edges with each other than with others.

    Parameters
    ----------
    n_nodes, n_groups : int
        Nodes, and groups of equal size (up to one node).
    inside, outside : float
        Expected number of edges of a node within its group, and with all others.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    GraphData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> graph = sl.datasets.planted_partition(1000, n_groups=4, seed=0)
    >>> bool(abs(graph.adjacency.sum() / 1000 - 12) < 1)
    True
    """
    from scipy.sparse import coo_array

    positive(n_nodes=n_nodes, n_groups=n_groups)
    rng = generator(seed)
    labels = np.sort(np.arange(n_nodes) % n_groups)
    within = rng.poisson(0.5 * inside * n_nodes)
    starts = np.searchsorted(labels, np.arange(n_groups))
    sizes = np.bincount(labels, minlength=n_groups)
    first = rng.integers(n_nodes, size=within)
    second = starts[labels[first]] + (rng.random(within) * sizes[labels[first]]).astype(np.intp)
    across = rng.poisson(0.5 * outside * n_nodes)
    third, fourth = rng.integers(n_nodes, size=(2, across))
    if n_groups > 1:
        same = labels[third] == labels[fourth]
        while same.any():
            fourth[same] = rng.integers(n_nodes, size=int(same.sum()))
            same = labels[third] == labels[fourth]
        first, second = np.concatenate([first, third]), np.concatenate([second, fourth])
    proper = first != second
    one, other = first[proper], second[proper]
    both = coo_array(
        (np.ones(2 * len(one)), (np.concatenate([one, other]), np.concatenate([other, one]))), shape=(n_nodes, n_nodes)
    ).tocsr()
    both.data[:] = 1.0  # repeated edges count once
    return GraphData(both, np.asarray(labels, np.intp))
