"""Distances and kernels between many sketches: rows are groups.

The distance of two sketches is that of their averages, the maximum mean discrepancy of the kernel of the map.  Sampling
noise makes the squared distance larger by the sum of the variances of both; it is subtracted, so that cells with few
rows are not far from everything.  Corrected squares may be negative; they are 0 as distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Complex
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.sketches.checks import check_same_features


def distances(
    sketches: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch], *, corrected: bool = True, squared: bool = False
) -> Array:
    """Distances (MMD) between all pairs of sketches, with the average contribution of sampling noise subtracted.

    Parameters
    ----------
    sketches : mapping, SketchTable or iterable of Sketch
        Sketches with the same Fourier feature map. No row may be in two of them.
    corrected : bool
        Subtract what sampling noise adds to the squares.
    squared : bool
        Return the squares, which are unbiased (and may be negative) if they are corrected.

    Returns
    -------
    ndarray (n, n)

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=1, size=100, scale=1.0, seed=0)
    >>> groups = [sl.sketch(rng.normal(size=(500, 1)) + shift, phi) for shift in (0.0, 0.0, 2.0)]
    >>> sl.distances(groups).round(1)
    array([[0. , 0. , 0.9],
           [0. , 0. , 0.9],
           [0.9, 0.9, 0. ]])
    """
    means, variances = _entries(sketches)
    squares = _squares(means)
    if corrected:
        noise = variances[:, None] + variances[None, :]
        np.fill_diagonal(noise, 0.0)
        squares = squares - noise
    return squares if squared else np.sqrt(np.maximum(squares, 0.0))


def mean_kernel(
    sketches: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch],
    others: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch] | None = None,
    *,
    gamma: float | None = None,
) -> Array:
    """Kernel between sketches for scikit-learn (``kernel="precomputed"``): ``exp(-gamma * distance**2)``.

    Parameters
    ----------
    sketches : mapping, SketchTable or iterable of Sketch
        Rows of the matrix.
    others : the same, optional
        Columns of the matrix: those that a model was fitted to; by default `sketches`.
    gamma : float, optional
        By default 1 over the median squared distance; give the one of the fit for new rows.

    Returns
    -------
    ndarray (n, n) or (n, number of others)
        Distances between the rows of a kernel matrix are corrected for sampling noise; it is a kernel of averages in
        feature space (Muandet et al. 2017, section 4.2) up to that correction.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sklearn.svm import SVC
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=1, size=100, scale=1.0, seed=0)
    >>> bags = [sl.sketch(rng.normal(size=(200, 1)) * (1 + i % 2), phi) for i in range(20)]
    >>> K = sl.mean_kernel(bags)
    >>> SVC(kernel="precomputed").fit(K, [i % 2 for i in range(20)]).score(K, [i % 2 for i in range(20)])
    1.0
    """
    a, noise_a = _entries(sketches)
    b, noise_b = (a, noise_a) if others is None else _entries(others)
    squares = (np.abs(a) ** 2).sum(1)[:, None] - 2 * (a @ b.conj().T).real + (np.abs(b) ** 2).sum(1)[None, :]
    squares = np.maximum(squares / a.shape[1] - noise_a[:, None] - noise_b[None, :], 0.0)
    if others is None:
        np.fill_diagonal(squares, 0.0)
    if gamma is None:
        apart = squares[squares > 0]
        gamma = 1.0 / float(np.median(apart)) if apart.size else 1.0
    if not gamma > 0:
        raise ValueError(f"gamma must be positive, got {gamma}")
    return np.exp(-gamma * squares)


def _entries(sketches: Any) -> tuple[Complex, Array]:
    """Averages (n, m), and the mean variance of the entries of each."""
    values = list(sketches.values()) if isinstance(sketches, Mapping) else list(sketches)
    if not values:
        raise ValueError("there are no sketches")
    for s in values:
        if not isinstance(s, Sketch):
            raise TypeError(f"expected sketches, got {type(s).__name__}")
        check_same_features(values[0], s)
        if s.effective_count < 2:
            raise ValueError(f"distances need at least two rows in each sketch, got {s.effective_count:.6g}")
    characteristic(values[0].features, "distances")
    # the variance of an entry from n rows is n / (n - 1) times what its average says
    noise = [s.variances.mean() * s.effective_count / (s.effective_count - 1) for s in values]
    return np.stack([np.asarray(s.mean, np.complex128) for s in values]), np.array(noise, np.float64)


def _squares(means: Complex) -> Array:
    norms = (np.abs(means) ** 2).sum(1)
    squares = (norms[:, None] + norms[None, :] - 2 * (means @ means.conj().T).real) / means.shape[1]
    np.fill_diagonal(squares, 0.0)
    return np.asarray(squares, np.float64)
