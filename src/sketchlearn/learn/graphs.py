"""Rows as nodes of a graph, and nodes as rows: spectral embeddings of sparse graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, diags_array, issparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.validation import check_array

from sketchlearn.arrays import AnyArray, Array

_TOLERANCE = 1e-6  # of eigenvalues, relative
_DENSE = 200  # nodes: up to here all eigenvectors are quicker than some


def neighbour_graph(rows: AnyArray, n_neighbors: int, workers: int | None = None) -> Any:
    """Each row is joined with its nearest ones; an edge counts whichever end found it.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.graphs import neighbour_graph
    >>> neighbour_graph(np.array([[0.0], [1.0], [3.0]]), 1).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    n = rows.shape[0]
    count = min(n_neighbors, n - 1)
    if count < 1:
        return csr_matrix((n, n))
    found = kneighbors_graph(rows, count, n_jobs=workers)
    return found.maximum(found.T).tocsr()


def checked_graph(graph: Any) -> Any:
    """A sparse, symmetric matrix of weights that are not negative; ValueError with the reason if it is none."""
    found: Any = check_array(graph, accept_sparse="csr", dtype=np.float64)
    if found.shape[0] != found.shape[1]:
        raise ValueError(f"a graph is a square matrix of weights, this one has shape {found.shape}")
    found = csr_matrix(found) if not issparse(found) else found
    if found.nnz and found.data.min() < 0:
        raise ValueError("the weights of a graph must not be negative")
    if abs(found - found.T).max() > 1e-9 * max(abs(found).max(), 1e-300):
        raise ValueError("the matrix is not symmetric: for a directed graph take A.maximum(A.T) or A + A.T")
    return found


def scaled_graph(graph: Any, degree: Array) -> Any:
    """Weights divided by the square roots of the degrees of both ends: eigenvalues are between -1 and 1."""
    root = 1.0 / np.sqrt(np.where(degree > 0, degree, np.inf))
    return (diags_array(root) @ graph @ diags_array(root)).tocsr()


def modularity(graph: Any, labels: npt.ArrayLike) -> float:
    """Share of the edges within clusters, less what is expected if edges join nodes by their degrees alone.

    Parameters
    ----------
    graph : sparse matrix (n, n)
        Weights of edges, symmetric.
    labels : array (n,)
        The cluster of each node.

    Returns
    -------
    float
        At most 1; 0 for a single cluster, and for a graph without edges.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from sketchlearn.learn.graphs import modularity
    >>> two_pairs = csr_matrix(np.kron(np.eye(2), 1 - np.eye(2)))
    >>> modularity(two_pairs, [0, 0, 1, 1]), modularity(two_pairs, [0, 0, 0, 0])
    (0.5, 0.0)
    """
    a = checked_graph(graph).tocoo()
    found = np.asarray(labels)
    if found.shape != (a.shape[0],):
        given = " x ".join(map(str, found.shape)) or "no"
        raise ValueError(f"{given} labels for {a.shape[0]} nodes: there should be one for each node")
    owner = np.unique(found, return_inverse=True)[1]
    total = float(a.data.sum())
    if total <= 0:
        return 0.0
    inside = float(a.data[owner[a.row] == owner[a.col]].sum())
    shares = np.bincount(owner, np.asarray(a.sum(axis=1)).ravel()) / total
    return inside / total - float(shares @ shares)


def spectral_embedding(graph: Any, n_components: int, random_state: Any = None) -> tuple[Array, Array]:
    """Eigenvectors of the normalised Laplacian with the smallest eigenvalues, as rows of unit length.

    Parameters
    ----------
    graph : sparse matrix (n, n)
        Weights of edges, symmetric.
    n_components : int
        Number of eigenvectors.
    random_state : int, RandomState or None
        For the start of the iteration; results differ by its tolerance only.

    Returns
    -------
    embedding : ndarray (n, n_components)
        A row per node, of unit length (Ng, Jordan and Weiss, 2002); nodes without edges are zero.
    eigenvalues : ndarray (n_components + 1,)
        Of the Laplacian ``I - D^-1/2 A D^-1/2``, rising: one more than there are columns, for the gap (fewer, if there
        are no more).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from sketchlearn.learn.graphs import spectral_embedding
    >>> two_pairs = csr_matrix(np.kron(np.eye(2), 1 - np.eye(2)))
    >>> embedding, values = spectral_embedding(two_pairs, 2)
    >>> np.abs(embedding @ embedding.T).round(6)
    array([[1., 1., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 1.],
           [0., 0., 1., 1.]])
    >>> values.round(6) + 0.0
    array([0., 0., 2.])
    """
    a = checked_graph(graph)
    n, k = a.shape[0], int(n_components)
    if k < 1:
        raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
    degree = np.asarray(a.sum(axis=1)).ravel()
    scaled = scaled_graph(a, degree)
    # each connected part has an eigenvector of its own for eigenvalue 0: iterations miss some of several equal ones
    count, part = connected_components(a, directed=False)
    sizes = np.bincount(part, minlength=count)
    first = np.argsort(-sizes, kind="stable")[: k + 1]
    known = np.sqrt(degree)[:, None] * (part[:, None] == first)
    known = known / np.maximum(np.linalg.norm(known, axis=0), 1e-300)
    wanted = min(k + 1 - len(first), n - count)
    if wanted > 0:
        values, more = _others(scaled, known, wanted, random_state)
        values, vectors = np.concatenate([np.ones(len(first)), values]), np.concatenate([known, more], axis=1)[:, :k]
    else:
        values, vectors = np.ones(len(first)), known[:, :k]
    strongest = np.abs(vectors).argmax(0)
    vectors = vectors * np.where(vectors[strongest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    vectors[degree == 0] = 0.0
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0)), np.asarray(1.0 - values)


def _others(scaled: Any, known: Array, count: int, random_state: Any) -> tuple[Array, Array]:
    """The largest eigenvalues, falling, and eigenvectors of a matrix besides some whose eigenvalue is 1."""
    n = scaled.shape[0]
    if n <= max(_DENSE, 2 * count):
        values, vectors = np.linalg.eigh(scaled.toarray() - 3.0 * known @ known.T)
    else:
        operator = LinearOperator((n, n), matvec=lambda x: scaled @ x - 3.0 * (known @ (known.T @ x)), dtype=np.float64)
        start = np.random.default_rng(random_state).standard_normal(n)
        values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=_TOLERANCE)
    order = np.argsort(-values)[:count]
    return values[order], vectors[:, order]
