"""Feature maps for heavy-tailed mixtures: as for Gaussian ones, from statistics that have no moments in them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.designs.gmm import mixture_designer, weighted_rows, within_scale
from sketchlearn.designs.kmeans import resolution_radius
from sketchlearn.designs.request import positive, register_design
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import MixedLaw

_NORMAL_RANGE = 2.5631  # between the 10 % and 90 % quantiles of a standard normal law


def stable_parameter_count(k: int, d: int, scatter_type: str) -> int:
    """Free numbers of a stable mixture."""
    return k * (d + 2 + (d if scatter_type == "diag" else d * (d + 1) // 2))


def default_size(k: int, d: int, scatter_type: str) -> int:
    """Fifteen frequencies per parameter of the mixture, and at least 200."""
    return max(15 * stable_parameter_count(k, d, scatter_type), 200)


def design_stable(
    sample: npt.ArrayLike,
    n_components: int,
    scatter_type: str = "full",
    seed: int = 0,
    *,
    size: int | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> FourierFeatures:
    """A feature map from which mixtures of elliptic stable laws can be decoded.

    Parameters
    ----------
    sample : array (n, d)
        Some rows (2000 are plenty).
    n_components : int
        Largest number of components that will be asked for.
    scatter_type : {"full", "diag"}
        Shape of the scatter matrices; decides the size of the sketch.
    seed : int
        Seed of the frequencies.
    size : int, optional
        Number of frequencies; by default 15 per parameter of the mixture, and at least 200.
    sample_weight : array (n,), optional
        Weights of the rows of the sample.

    Returns
    -------
    FourierFeatures

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.stable import design_stable
    >>> X = np.random.default_rng(0).standard_cauchy(size=(500, 2))
    >>> design_stable(X, n_components=2, seed=0).radial.name
    'mixed'
    """
    if scatter_type not in ("full", "diag"):
        raise ValueError(f"scatter_type={scatter_type!r}: choose 'full' or 'diag'")
    k = positive(n_components, "n_components")
    x, w = weighted_rows(sample, sample_weight)
    d = x.shape[1]
    if size is None:
        size = default_size(k, d, scatter_type)
    center = _quantiles(x, w, 0.5)
    axes = (_quantiles(x, w, 0.9) - _quantiles(x, w, 0.1)) / _NORMAL_RANGE
    spread = math.sqrt(float(np.mean(axes**2)))
    if not spread > 0:
        spread = max(1e-6 * float(np.abs(center).max()), 1e-6)
    axes = np.where(axes > 0, axes, 1e-3 * spread)  # most values are one: narrower than other columns
    y = (x - center) * (spread / axes)
    law = MixedLaw(
        share=0.4,
        inner=max(spread / within_scale(y, w, k, spread, seed), 0.5),
        low=0.3,  # tails show at frequencies below those of the body
        knee=min(resolution_radius(k, d), 32.0),
        high=64.0,
        decay=2.0,
    )
    scale = spread * math.sqrt(d / law.second_moment(d))
    return FourierFeatures.draw(
        dim=d, size=size, scale=scale, radial=law, seed=seed, center=center, whitening=np.diag(spread / axes)
    )


register_design("stable", size=lambda k, d, shape: default_size(k, d, shape or "full"), outliers=False)(
    mixture_designer(design_stable)
)


def _quantiles(x: Array, w: Array, level: float) -> Array:
    """Weighted quantile of each column."""
    out = np.empty(x.shape[1])
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        mass = np.cumsum(w[order])
        out[j] = x[order[min(int(np.searchsorted(mass, level * mass[-1])), len(order) - 1)], j]
    return out
