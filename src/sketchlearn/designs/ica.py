"""Quartic maps for independent components: where rows are clipped, and coordinates in which directions are few.

Directions cost most where they say nothing about the components.  In the coordinates of a rough separation of the
pilot rows, turns of any two axes are what is left to be found, and four directions in each of these planes tell them;
some random ones are there in case that the pilot was misleading.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.designs.request import Request, register_design
from sketchlearn.features.quartic import QuarticFeatures, pair_count, usual_radius

_ROUNDS, _TURNS = 20, 200
_ROWS_PER_COLUMN = 20  # of a pilot that is separated, and not only made uncorrelated
_FLOOR = 1e-6
_NEARER, _FARTHER = 0.625, 2.0  # of the usual radius
_USUAL = 0.995  # share of sparse rows that are no outliers, however few rows are not zero
_PEAKED, _LOPSIDED = 1.0, 1.0  # excess kurtosis, skewness
_TOGETHER = (
    2.0  # standard deviations of one correlation of lengths; the average of those of independent sources is below
)


def design_ica(
    rows: Array,
    *,
    size: int | None = None,
    seed: int = 0,
    radius: float | None = None,
    weights: Array | None = None,
    usual: float | None = None,
) -> tuple[QuarticFeatures, str]:
    """A quartic map in coordinates in which the pilot's rows are about independent, and why.

    `rows`: pilot rows, (n, d). `size`: number of directions; by default ``3 d**2``. `seed`: seed of the random
    directions. `radius`: where rows are clipped, in units in which their coordinates have variance 1; by default
    ``max(5, 2 sqrt(d))``, and five eighths of that if all sources are :func:`peaked`. `weights`: of the pilot rows,
    (n,). `usual`: share of the pilot rows that are no outliers, however long they are.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.ica import design_ica
    >>> X = np.random.default_rng(0).uniform(size=(1000, 3)) @ [[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]]
    >>> phi, why = design_ica(X)
    >>> phi.size, phi.radius, bool(abs(phi.whitened(X).std(0) - 1.0).max() < 0.2)
    (27, 5.0, True)
    """
    rows = np.asarray(rows, np.float64)
    n, d = rows.shape
    w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if not np.ptp(rows[w > 0], axis=0).any():
        raise ValueError("independent components need columns that vary, and all rows of the pilot are equal")
    reach = usual_radius(d) if radius is None else float(radius)
    offset, spread = _units(rows, w)
    place, matrix = _robust((rows - offset) / spread, w)
    white = ((rows - offset) / spread - place) @ matrix.T
    far = 0.0 if usual is None else float(_quantile(np.linalg.norm(white, axis=1)[:, None], w, usual)[0])
    white = _clipped(white, max(reach, far))
    words = "coordinates uncorrelated in"
    if n >= _ROWS_PER_COLUMN * d:
        again = _inverse_root(*_moments(white, w))
        centred = (white - np.average(white, axis=0, weights=w)) @ again.T
        turn = _separated(centred, w)
        matrix = turn @ again @ matrix
        if radius is None and peaked(centred @ turn.T, w):
            reach *= _NEARER
        words = "coordinates about independent in"
    # rounded, so that weights and repetition, which differ in the last bits, give the same map
    center = np.asarray((offset + spread * place).astype(np.float32), np.float64)
    whitening = np.asarray((matrix / spread).astype(np.float32), np.float64)
    phi = QuarticFeatures.draw(dim=d, size=size, seed=seed, radius=reach, center=center, whitening=whitening)
    kinds = f"{min(phi.size, pair_count(d))} in planes of two axes, {max(phi.size - pair_count(d), 0)} random"
    return phi, f"{phi.size} directions ({kinds}), {words} {n} pilot rows, clipped at {reach:.4g} standard deviations"


def design_dictionary(
    rows: Array,
    n_components: int,
    *,
    size: int | None = None,
    seed: int = 0,
    radius: float | None = None,
    weights: Array | None = None,
) -> tuple[QuarticFeatures, str]:
    """A quartic map for a dictionary of atoms, and why.

    As :func:`design_ica`, but rows are clipped at twice the usual radius, because sparse rows are long where they are
    not zero, and `size` is four times the numbers of the atoms by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.ica import design_dictionary
    >>> phi, why = design_dictionary(np.random.default_rng(0).laplace(size=(1000, 4)), 8)
    >>> phi.size, phi.radius
    (128, 10.0)
    """
    d = np.asarray(rows).shape[1]
    size = dictionary_size(n_components, d) if size is None else size
    reach = _FARTHER * usual_radius(d) if radius is None else radius
    return design_ica(rows, size=size, seed=seed, radius=reach, weights=weights, usual=_USUAL)


def peaked(sources: Array, weights: Array | None = None) -> bool:
    """Whether about independent columns have excess kurtoses above 1, no large skewness, and none is large with others.

    Fourth powers of such sources are mostly the noise of a few large values, and a rotation doesn't notice the ball
    that rows are clipped to: the nearer it is, the better the rotation is known.  Flat or nearly normal sources would
    lose what tells them apart, and sources that are large together would look independent after it.  Skewed ones are
    known well enough, and clipped on one side only they would no longer look independent.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.ica import peaked
    >>> rng = np.random.default_rng(0)
    >>> peaked(rng.laplace(size=(2000, 3))), peaked(rng.normal(size=(2000, 3)))
    (True, False)
    >>> peaked(rng.laplace(size=(2000, 3)) * rng.uniform(0.2, 1.8, size=(2000, 1)))
    False
    >>> peaked(rng.exponential(size=(2000, 3)))
    False
    """
    w = np.ones(len(sources)) if weights is None else weights
    apart = sources - np.average(sources, axis=0, weights=w)
    squares, third, fourth = (np.average(apart**power, axis=0, weights=w) for power in (2, 3, 4))
    if not (fourth > (3.0 + _PEAKED) * squares**2).all() or (np.abs(third) > _LOPSIDED * squares**1.5).any():
        return False
    lengths = np.abs(apart) - np.average(np.abs(apart), axis=0, weights=w)
    common = (w[:, None] * lengths).T @ lengths / w.sum()
    together = common / np.sqrt(np.outer(np.diag(common), np.diag(common)))
    pairs = together[np.triu_indices(len(common), 1)]
    return bool(not len(pairs) or pairs.mean() < _TOGETHER / np.sqrt(len(apart)))


def _units(rows: Array, w: Array) -> tuple[Array, Array]:
    """Medians of the columns, and their spread about these: that of the middle half, or any there is."""
    offset = _median(rows, w)
    middle = 1.4826 * _median(np.abs(rows - offset), w)
    whole = np.sqrt(np.average((rows - offset) ** 2, axis=0, weights=w))
    spread = np.where(middle > 1e-6 * whole, middle, whole)
    return offset, np.where(spread > 0, spread, 1.0)


def _median(columns: Array, w: Array) -> Array:
    return _quantile(columns, w, 0.5)


def _quantile(columns: Array, w: Array, share: float) -> Array:
    order = np.argsort(columns, axis=0, kind="stable")
    at = (np.cumsum(w[order], axis=0) < share * w.sum()).sum(0)
    return np.asarray(np.take_along_axis(columns, order, 0)[at, np.arange(columns.shape[1])])


def _moments(X: Array, w: Array) -> tuple[Array, Array]:
    mean = np.average(X, axis=0, weights=w)
    return mean, (w[:, None] * (X - mean)).T @ (X - mean) / w.sum()


def _inverse_root(_: Array, covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _FLOOR * max(float(values[-1]), 1e-300))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def _robust(X: Array, w: Array) -> tuple[Array, Array]:
    """A centre and an inverse root of a covariance that rows far away have little influence on (Huber's weights)."""
    d = X.shape[1]
    mean, covariance = np.zeros(d), np.eye(d)
    squares = np.zeros(len(X))
    for _ in range(_ROUNDS):
        root = _inverse_root(mean, covariance)
        squares = (((X - mean) @ root.T) ** 2).sum(1)
        held = w * np.minimum(1.0, 1.5 * d / np.maximum(squares, 1e-300))
        mean = np.average(X, axis=0, weights=held)
        covariance = (held[:, None] * (X - mean)).T @ (X - mean) / held.sum()
    scale = float(_median(squares[:, None], w)[0]) / d
    return mean, _inverse_root(mean, covariance) / (np.sqrt(scale) if scale > 0 else 1.0)


def _clipped(X: Array, radius: float) -> Array:
    return np.asarray(X * np.minimum(1.0, radius / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None])


def _separated(Z: Array, w: Array) -> Array:
    """A rotation that separates whitened rows roughly: symmetric fixed points of tanh (Hyvarinen, 1999)."""
    W, share = np.eye(Z.shape[1]), w / w.sum()
    for _ in range(_TURNS):
        g = np.tanh(Z @ W.T)
        new = (share[:, None] * g).T @ Z - (share @ (1.0 - g * g))[:, None] * W
        left, _, right = np.linalg.svd(new)
        new = left @ right
        moved = float(np.abs(np.abs(np.einsum("ij,ij->i", new, W)) - 1.0).max())
        W = new
        if moved < 1e-6:
            break
    return W


def ica_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """Three times the square of the columns."""
    return 3 * d * d


def dictionary_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """Four times the numbers of the atoms, and as many as for independent components at least."""
    return max(ica_size(k, d), 4 * k * d)


def _from_request(request: Request) -> tuple[QuarticFeatures, str]:
    request.refuse("scale", "radial", why="has no scale and no radial law")
    request.refuse("covariance_type", why="has no covariance_type")
    if request.sample is None:
        raise ValueError(f"task={request.task!r} takes its coordinates from a pilot sample: give one")
    rows, weights = request.weighted()
    if request.task == "dictionary":
        return design_dictionary(rows, request.n_components, size=request.size, seed=request.seed, weights=weights)
    return design_ica(rows, size=request.size, seed=request.seed, weights=weights)


register_design("dictionary", size=dictionary_size, projects=False, outliers=False)(_from_request)
register_design("ica", size=ica_size, projects=False, outliers=False)(_from_request)
