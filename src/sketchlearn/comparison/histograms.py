"""Synthetic rows whose single columns follow histograms: draws keep their order in each column, and take its values.

A mixture of normal laws knows how columns go together, but has no spikes, whole numbers or sharp edges.  The smallest
value of a drawn column becomes the smallest of the histogram, and so on: ranks stay, and correlations nearly.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.histogram import HistogramFeatures
from sketchlearn.sketches.value import Sketch


def histogram(sketch: Sketch) -> HistogramFeatures:
    """The map of a sketch of single columns; TypeError for others, ValueError if it is empty."""
    if not isinstance(sketch.features, HistogramFeatures):
        raise UnsuitableMapError(
            f"columns= takes a sketch of histograms (task='columns'), but it has {sketch.features.kind} features"
        )
    if sketch.weight <= 0:
        raise ValueError("the sketch of the columns is empty: there are no values to take")
    return sketch.features


def shares(sketch: Sketch) -> list[Array]:
    """Share of each cell, a column at a time: not negative, and 1 together.

    Of a release the sums of the cells from the left on are made to rise (isotonic regression), after their end was
    moved to 1 as a bridge: what noise adds to a cell is taken from its neighbours, so that values move as little as
    possible.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.comparison.histograms import shares
    >>> from sketchlearn.features import HistogramFeatures
    >>> s = sl.sketch([[0.1], [0.9], [0.8]], HistogramFeatures.draw([0.0], [1.0], cells=2))
    >>> shares(s)[0].round(3)
    array([0.333, 0.667])
    """
    phi = histogram(sketch)
    return [_rising(part) for part in np.split(sketch.mean, phi.starts[1:-1])]


def _rising(share: Array) -> Array:
    from scipy.optimize import isotonic_regression

    total = np.cumsum(share)
    total += (1.0 - total[-1]) * np.arange(1, len(share) + 1) / len(share)
    total = np.clip(isotonic_regression(total).x, 0.0, 1.0)
    total[-1] = 1.0
    return np.diff(total, prepend=0.0)


def reshaped(rows: Array, columns: Sketch, rng: np.random.Generator, keep: Collection[int] = ()) -> Array:
    """Rows in the same order along each column, with the values of its histogram; columns `keep` stay as they are.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.comparison.histograms import reshaped
    >>> from sketchlearn.features import HistogramFeatures
    >>> rng = np.random.default_rng(0)
    >>> s = sl.sketch([[1.0], [1.0], [5.0], [5.0]], HistogramFeatures.draw([0.0], [9.0], cells=10, integers=[0]))
    >>> reshaped(np.array([[-3.0], [7.0], [0.1], [0.2]]), s, rng).ravel()
    array([1., 5., 1., 5.])
    """
    phi = histogram(columns)
    if phi.dim != rows.shape[1]:
        raise ValueError(f"the sketch of the columns has {phi.dim} of them, the rows have {rows.shape[1]}")
    out, n = rows.copy(), len(rows)
    for j, share in enumerate(shares(columns)):
        if j in keep:
            continue
        rank = np.empty(n, np.intp)
        rank[np.lexsort((rng.random(n), rows[:, j]))] = np.arange(n)
        at = (rank + rng.random(n)) / n
        ends = np.concatenate([[0.0], np.cumsum(share)])
        ends /= ends[-1]
        cell = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(share) - 1)
        within = np.clip((at - ends[cell]) / np.maximum(share[cell], 1e-300), 0.0, 1.0)
        width = (phi.upper[j] - phi.lower[j]) / phi.cells[j]
        out[:, j] = phi.lower[j] + (cell + within) * width
        if j in phi.integers:
            out[:, j] = np.clip(np.rint(out[:, j]), np.ceil(phi.lower[j]), np.floor(phi.upper[j]))
    return out
