"""Spectral features of a graph of nearest neighbours: a substitute for those of MNIST in the literature."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh
from sklearn.neighbors import kneighbors_graph

from sketchlearn.datasets import load_table

NEIGHBOURS, FEATURES = 10, 10


def spectral_features(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Eigenvectors of the normalised Laplacian of the 10-neighbour graph, rows of unit length on average."""
    near = kneighbors_graph(rows, NEIGHBOURS, include_self=False)
    graph = csr_array(0.5 * (near + near.T))
    scale = diags_array(1.0 / np.sqrt(np.asarray(graph.sum(1)).ravel()))
    start = np.random.default_rng(0).standard_normal(len(rows))
    _, vectors = eigsh(scale @ graph @ scale, FEATURES, which="LA", v0=start)
    return np.asarray(vectors * np.sqrt(len(rows) / FEATURES))


@lru_cache(maxsize=1)
def digits_embedding() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Spectral features of scikit-learn's digits, and their labels."""
    table = load_table("digits")
    return spectral_features(table.rows), table.labels
