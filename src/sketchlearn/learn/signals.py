"""Random signals on a graph through a low-pass filter: coordinates of the nodes without eigenvectors.

A filter that keeps the eigenvectors of the k largest eigenvalues of ``D^-1/2 A D^-1/2`` and removes the others turns
independent normal signals into a random projection of the spectral embedding.  Distances of nodes survive in a number
of signals that grows as log k (Johnson-Lindenstrauss).  The filter is a polynomial: it costs products of the sparse
matrix with the signals, and no orthogonalisation of k vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.learn.graphs import checked_graph, scaled_graph

_PER_LOG = 8.0  # signals for each unit of log(k + 1): half of it lost 0.7 % of modularity at k = 64
_FIRST, _LAST = 32, 256  # degrees of filters: the first that is tried, and the last
PURE = 0.1  # eigenvalues that pass in part, over k: below this a filter of twice the degree is not worth it
_CUTS = 1000  # places for the cut that are compared
_DEVIATIONS = 2.0  # standard deviations by which the estimated number of eigenvalues may differ from k


@dataclass(frozen=True, eq=False)
class Signals:
    """Filtered random signals on a graph, and what is known of the filter.

    `embedding`: a row per node, of unit length (n, n_signals). `cut`: the eigenvalue of the Laplacian at which the
    filter passes one half. `count`: estimated number of eigenvalues below the cut; `count_std`: its standard error.
    `partial`: estimated number of eigenvalues that pass in part, summed as h (1 - h). `degree`: of the polynomial.
    """

    embedding: AnyArray
    cut: float
    count: float
    count_std: float
    partial: float
    degree: int


def default_signals(k: int) -> int:
    """How many signals tell k clusters apart.

    Examples
    --------
    >>> from sketchlearn.learn.signals import default_signals
    >>> [default_signals(k) for k in (2, 10, 64, 256)]
    [9, 20, 34, 45]
    """
    return math.ceil(_PER_LOG * math.log(k + 1.0))


def filtered_signals(graph: Any, k: int, n_signals: int | None = None, random_state: Any = None) -> Signals:
    """Random signals filtered to the k lowest eigenvalues of the normalised Laplacian, as rows of unit length.

    The cut of the filter is found from the signals themselves, which count the eigenvalues on either side.  The degree
    is doubled until few eigenvalues pass in part, as they do where the graph has no gap.

    Parameters
    ----------
    graph : sparse matrix (n, n)
        Weights of edges, symmetric.
    k : int
        Eigenvalues that pass: the number of clusters.
    n_signals : int, optional
        Columns of the embedding; by default ``8 log(k + 1)``.
    random_state : int, Generator or None
        For the signals.

    Returns
    -------
    Signals

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.learn.signals import filtered_signals
    >>> graph = sl.datasets.planted_partition(2000, n_groups=5, seed=0)
    >>> found = filtered_signals(graph.adjacency, 5, random_state=0)
    >>> found.embedding.shape, bool(abs(found.count - 5) < 3 * found.count_std)
    ((2000, 15), True)
    """
    if int(k) < 1 or (n_signals is not None and int(n_signals) < 1):
        raise ValueError(f"numbers of clusters and signals must be positive, got {k!r} and {n_signals!r}")
    a = checked_graph(graph)
    degrees = np.asarray(a.sum(axis=1)).ravel()
    scaled = scaled_graph(a, degrees).astype(np.float32)
    n, columns = a.shape[0], default_signals(int(k)) if n_signals is None else int(n_signals)
    signals = np.random.default_rng(random_state).standard_normal((n, columns), np.float32)
    moments = _moments(scaled, signals)
    degree = _FIRST
    choice = _cut(next(moments), int(k), columns)
    while choice[2] > PURE * k and degree < _LAST:
        degree *= 2
        choice = _cut(next(moments), int(k), columns)
    cut, count, partial = choice
    rows = np.zeros_like(signals)
    for weight, term in zip(_step(np.array([cut]), degree)[0], _chebyshev(scaled, signals), strict=False):
        rows += np.float32(weight) * term
    rows[degrees == 0] = 0.0
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(length > 0, length, 1.0)
    return Signals(rows, 1.0 - cut, count, math.sqrt(2.0 * k / columns), partial, degree)


def _chebyshev(scaled: Any, signals: AnyArray) -> Iterator[AnyArray]:
    """Chebyshev polynomials of a matrix, times signals."""
    before, now = signals, scaled @ signals
    yield before
    while True:
        yield now
        before, now = now, 2.0 * (scaled @ now) - before


def _moments(scaled: Any, signals: AnyArray) -> Iterator[Array]:
    """Traces of the Chebyshev polynomials up to twice a degree that doubles, estimated by the signals.

    ``2 T_i T_j = T_(i+j) + T_|i-j|`` gives two traces per product.  The first trace, n, is known.
    """
    found: list[float] = []
    before: AnyArray = signals
    wanted = _FIRST
    unit = len(signals) / float(np.einsum("ij,ij->", signals, signals, dtype=np.float64))
    for j, term in enumerate(_chebyshev(scaled, signals)):
        if j == 0:
            found.append(float(len(signals)))
        else:
            across = unit * float(np.einsum("ij,ij->", before, term, dtype=np.float64))
            own = unit * float(np.einsum("ij,ij->", term, term, dtype=np.float64))
            found.append(2.0 * across - found[1] if j > 1 else across)
            found.append(2.0 * own - found[0])
        before = term
        if j == wanted:
            yield np.array(found)
            wanted *= 2


def _step(cuts: Array, degree: int) -> Array:
    """Coefficients of polynomials that are near 1 above a cut and near 0 below, between 0 and 1 (Jackson's kernel)."""
    j = np.arange(degree + 1)
    angles = np.arccos(cuts)[:, None]
    steps = np.concatenate([angles / np.pi, 2.0 / (np.pi * j[1:]) * np.sin(j[1:] * angles)], axis=1)
    a = np.pi / (degree + 2)
    damping = (1.0 - j / (degree + 2)) * np.cos(j * a) + np.sin(j * a) / ((degree + 2) * np.tan(a))
    return np.asarray(steps * damping)


def _cut(moments: Array, k: int, columns: int) -> tuple[float, float, float]:
    """The cut with the fewest eigenvalues passing in part, of those that k eigenvalues may be above; both numbers."""
    degree = (len(moments) - 1) // 2
    angles = (np.arange(_CUTS) + 0.5) * np.pi / _CUTS
    steps = _step(np.cos(angles), degree)
    counts = steps @ moments[: degree + 1]
    # values on a fine grid of angles give the squares: a polynomial of twice the degree
    grid = np.cos(np.outer(np.arange(2 * degree + 1), (np.arange(4 * degree) + 0.5) * np.pi / (4 * degree)))
    values = steps @ grid[: degree + 1]
    squares = 2.0 / (4 * degree) * (values**2 @ grid.T)
    squares[:, 0] *= 0.5
    partial = np.maximum(counts - squares @ moments, 0.0)
    away = np.abs(counts - k)
    allowed = away <= max(_DEVIATIONS * math.sqrt(2.0 * k / columns), float(away.min()))
    best = int(np.flatnonzero(allowed)[np.argmin(partial[allowed])])
    return float(np.cos(angles[best])), float(counts[best]), float(partial[best])
