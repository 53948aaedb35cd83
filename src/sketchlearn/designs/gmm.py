"""Feature maps for mixture models: multi-scale frequencies to find the components, adapted ones to shape them.

The pilot sample gives three things, all of which end up in the recipe: where the data is, the metric in
which components are round (a linear map, if the type of covariance allows one), and the width of a
component in that metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sketchlearn.arrays import Array
from sketchlearn.designs.kmeans import resolution_radius
from sketchlearn.designs.request import Designer, Request, positive, register_design, within_reach
from sketchlearn.designs.spread import column_units, usual
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import MixedLaw, MultiscaleLaw
from sketchlearn.threads import single_blas_thread

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")
_LOW, _HIGH, _DECAY = 0.7, 64.0, 2.0
_ROUNDS = 3  # of clustering the pilot and measuring the clusters
_PROBES, _PROBE_RADII = 600, (0.5, 200.0)
_SAMPLE_ONLY = (
    "needs a sample and nothing else to go by; without one use task='kmeans' with bounds, "
    "whose sketches can be decoded into mixtures too"
)
_SAMPLES = 10  # frequencies per parameter of the model


def parameter_count(k: int, d: int, covariance_type: str) -> int:
    """Free numbers of a mixture (weights counted with their sum)."""
    shapes = {"spherical": k, "diag": k * d, "full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2}
    return k * (d + 1) + shapes[covariance_type]


def default_size(k: int, d: int, covariance_type: str) -> int:
    """Ten frequencies per parameter of the mixture, and at least 100."""
    return max(_SAMPLES * parameter_count(k, d, covariance_type), 100)


def check_covariance_type(covariance_type: str) -> None:
    """Refuse unknown types by name."""
    if covariance_type not in COVARIANCE_TYPES:
        raise ValueError(f"covariance_type={covariance_type!r}: choose one of {', '.join(COVARIANCE_TYPES)}")


def design_gmm(
    sample: npt.ArrayLike,
    n_components: int,
    covariance_type: str = "full",
    seed: int = 0,
    *,
    size: int | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> FourierFeatures:
    """A feature map from which mixtures of up to `n_components` Gaussians can be decoded.

    Parameters
    ----------
    sample : array (n, d)
        Some rows (2000 are plenty), in random order or at random places.
    n_components : int
        Largest number of components that will be asked for.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components.  It decides the size of the sketch and the metric: whitened by the
        pilot's within-cluster covariance (full, tied), axis by axis (diag), or not at all (spherical).
        Other types can be decoded from the same sketch, in the metric of the data.
    seed : int
        Seed of the frequencies.
    size : int, optional
        Number of frequencies; by default ten per parameter of the mixture, and at least 100.
    sample_weight : array (n,), optional
        Weights of the rows of the sample.

    Returns
    -------
    FourierFeatures

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 10.0, 100.0]
    >>> phi = design_gmm(X, n_components=4, covariance_type="diag", seed=0)
    >>> phi.size, phi.radial.name, phi.whitening.shape
    (280, 'mixed', (3, 3))
    """
    check_covariance_type(covariance_type)
    k = positive(n_components, "n_components")
    x, w = weighted_rows(sample, sample_weight)
    d = x.shape[1]
    if size is None:
        size = default_size(k, d, covariance_type)
    rows = usual(x)
    if not rows.all() and w[rows].sum() > 0:  # a single outlier would set the scale of everything
        x, w = x[rows], w[rows] / w[rows].sum()
    center = w @ x
    with (
        single_blas_thread,
        threadpool_limits(1, "openmp"),
    ):  # the sample is small: threads would only get in each other's way
        matrix = within_metric(x - center, w, k, covariance_type, seed)
    y = (x - center) if matrix is None else (x - center) @ matrix.T
    spread = math.sqrt(float(np.mean(w @ y**2)))
    if not spread > 0:
        spread = max(1e-6 * float(np.abs(center).max()), 1e-6)  # constant data: any scale sees one point
    width = within_scale(y, w, k, spread, seed)
    broad, wide = broad_part(size, k, d)
    law = MixedLaw(
        share=min(max(broad / size, 0.01), 0.99),
        inner=spread / width,
        low=wide.low,
        knee=wide.knee,
        high=wide.high,
        decay=wide.decay,
    )
    scale = spread * math.sqrt(d / law.second_moment(d))
    return FourierFeatures.draw(dim=d, size=size, scale=scale, radial=law, seed=seed, center=center, whitening=matrix)


def broad_part(size: int, k: int, d: int) -> tuple[int, MultiscaleLaw]:
    """How many frequencies span all scales, and their law: they find the components.

    Ten frequencies per coordinate of the means are enough.
    """
    count = min(size // 2, max(10 * k * d, 200)) if size > 1 else 1
    return count, MultiscaleLaw(_LOW, min(resolution_radius(k, d), _HIGH / 2), _HIGH, _DECAY)


def mixture_designer(design: Callable[..., FourierFeatures]) -> Designer:
    """The designer of a task whose maps come from a sample and the shape of the components alone."""

    def from_request(request: Request) -> tuple[FourierFeatures, str]:
        if request.sample is None:
            raise ValueError(f"task={request.task!r} {_SAMPLE_ONLY}")
        request.refuse("scale", "radial", why=_SAMPLE_ONLY)
        rows, weights = request.weighted()
        k, shape = request.n_components, request.covariance_type or "full"
        phi = design(rows, k, shape, request.seed, size=request.size, sample_weight=weights)
        return phi, (
            f"{phi.size} features for {k} {shape} components: half at all scales of the data, half at that of "
            f"one component, both read off {len(rows)} pilot rows"
        )

    return from_request


register_design("gmm", size=lambda k, d, shape: default_size(k, d, shape or "full"))(mixture_designer(design_gmm))


def weighted_rows(sample: npt.ArrayLike, sample_weight: npt.ArrayLike | None) -> tuple[Array, Array]:
    """Distinct rows in sorted order and their weights: equal empirical measures give equal bits."""
    x = np.asarray(sample, np.float64)
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"the sample must have rows and columns, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"row {int(np.argmax(~np.isfinite(x).all(1)))} of the sample holds NaN or infinity")
    w = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if w.shape != (len(x),) or not np.isfinite(w).all() or (w < 0).any():
        raise ValueError(f"sample_weight must hold {len(x)} non-negative numbers, got shape {w.shape}")
    x, w = within_reach(x, w)  # type: ignore[assignment]
    if not w.any():
        raise ValueError("sample_weight is zero for every row of the sample")
    rows, place = np.unique(x[w > 0], axis=0, return_inverse=True)
    total = np.bincount(place.ravel(), w[w > 0], len(rows))
    return rows, total / total.sum()


def within_metric(x: Array, w: Array, k: int, covariance_type: str, seed: int) -> Array | None:
    """Matrix that makes the clusters of a centred sample round on average, or None if there is nothing to do.

    Clusters found in one metric give the next: adaptive k-means (Art, Gnanadesikan & Kettenring 1982),
    started from the covariance of the whole sample.
    """
    d = x.shape[1]
    if covariance_type == "spherical" or d == 1 or len(x) < 2:
        return None
    total = (x * w[:, None]).T @ x
    if not np.trace(total) > 0:
        return None
    unit = column_units(x, w)[1]
    unit = np.where(x.max(axis=0) > x.min(axis=0), unit, unit.max())  # a constant column has no scale of its own
    covariance = total
    matrix: Array = np.eye(d)
    for _ in range(_ROUNDS if len(x) > max(k, 10) else 0):
        matrix = inverse_root(covariance, unit, covariance_type)
        y = x @ matrix.T
        from sklearn.cluster import KMeans

        clusters = KMeans(min(k, len(x)), n_init=1, max_iter=30, random_state=seed % 2**32).fit(
            y, sample_weight=w * len(w)
        )
        offset = x - np.linalg.solve(matrix, clusters.cluster_centers_.T).T[clusters.labels_]
        covariance = (offset * w[:, None]).T @ offset
    matrix = inverse_root(covariance, unit, covariance_type)
    # the unit is the data's, so that scales in the recipe can be read
    return matrix * math.sqrt(float(np.trace(total) / np.trace(matrix @ total @ matrix.T)))


def inverse_root(covariance: Array, unit: Array, covariance_type: str) -> Array:
    """Symmetric inverse square root, in units of the columns, with a floor against directions without spread."""
    if covariance_type == "diag":
        relative = np.diag(covariance) / unit**2
        return np.diag(1.0 / (unit * np.sqrt(np.maximum(relative, 1e-4))))
    relative = covariance / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(0.5 * (relative + relative.T))
    values = np.maximum(values, 1e-4 * max(float(values.max()), 1e-12))
    return (vectors / np.sqrt(values)) @ vectors.T / unit


def within_scale(y: Array, w: Array, k: int, spread: float, seed: int) -> float:
    """Width of one component from the decay of the sample's characteristic function.

    Up to the radius where the components stop interfering, |z|^2 stays above exp(-2)/k; that radius is
    sqrt(2) over the width.
    """
    rng = np.random.default_rng(seed)
    low, high = _PROBE_RADII
    radii = low * (high / low) ** ((np.arange(_PROBES) + 0.5) / _PROBES)
    directions = rng.standard_normal((_PROBES, y.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    z = w @ np.exp(1j * (y @ (directions * (radii / spread)[:, None]).T))
    effective = 1.0 / float(w @ w)
    power = np.abs(z) ** 2
    if effective > 1:
        power = (effective * power - 1.0) / (effective - 1.0)
    from scipy.optimize import isotonic_regression

    smooth = isotonic_regression(power, increasing=False).x
    above = np.flatnonzero(smooth >= math.exp(-2.0) / k)
    return spread * math.sqrt(2.0) / float(radii[above[-1] if len(above) else 0])
