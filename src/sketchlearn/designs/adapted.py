"""A second feature map for mixtures, designed from a first model: frequencies of each component's own width and shape.

A component with covariance S is determined by frequencies of length about one in the metric of S:
``w = S^-1/2 r u``, with an adapted radius r and a direction u (Keriven 2017, equation 5.10).  A first design has one
metric for all components, because a pilot doesn't know theirs.  A model does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.designs.gmm import broad_part, check_covariance_type, default_size, inverse_root
from sketchlearn.features.adapted import AdaptedFeatures
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import AdaptedLaw
from sketchlearn.words import counted


def design_adapted(
    previous: Any, n_components: int, covariance_type: str = "full", seed: int = 0, *, size: int | None = None
) -> tuple[AdaptedFeatures, str]:
    """A map for mixtures like an earlier one, and why.

    Half of the frequencies, at most ten for each coordinate of the means, span all scales. The others are divided
    evenly among the components.

    Parameters
    ----------
    previous : model, estimator or Mixture
        An earlier mixture of the same columns, also one of scikit-learn's.
    n_components : int
        Largest number of components that will be asked for.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components that will be asked for.
    seed : int
        Seed of the frequencies.
    size : int, optional
        Number of frequencies; by default ten per parameter of the mixture, and at least 100.

    Returns
    -------
    AdaptedFeatures, str

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.adapted import design_adapted
    >>> found = sl.Mixture(np.array([0.5, 0.5]), np.array([[0.0, 0.0], [9.0, 0.0]]), np.array([[1.0, 1.0], [0.1, 4.0]]))
    >>> design_adapted(found, 2, size=100)[0]
    AdaptedFeatures(dim=2, size=100, components=2)
    """
    check_covariance_type(covariance_type)
    weights, means, covariances = components_of(previous)
    d = means.shape[1]
    m = default_size(n_components, d, covariance_type) if size is None else size
    if m < 2:
        raise ValueError(f"an adapted design needs at least two features, got size={m}")
    center = weights @ means
    apart = means - center
    within = np.tensordot(weights, covariances, 1)
    total = within + (weights[:, None] * apart).T @ apart
    matrix = None
    if covariance_type != "spherical" and d > 1:
        matrix = inverse_root(within, _widths(total), covariance_type)
        matrix = matrix * math.sqrt(float(np.trace(total) / np.trace(matrix @ total @ matrix.T)))
    count, law = broad_part(m, n_components, d)
    scale = math.sqrt(float(np.trace(total)) / d) * math.sqrt(d / law.second_moment(d))
    joint = FourierFeatures.draw(dim=d, size=count, scale=scale, radial=law, seed=seed, center=center, whitening=matrix)
    parts = []
    own = AdaptedLaw()
    unit = math.sqrt(d / own.second_moment(d))
    for l, covariance in enumerate(covariances):
        share = (m - count) * (l + 1) // len(covariances) - (m - count) * l // len(covariances)
        if share:
            root = inverse_root(covariance, _widths(covariance), "full")
            parts.append(
                FourierFeatures.draw(dim=d, size=share, scale=unit, radial=own, seed=seed + 1 + l, whitening=root)
            )
    phi = AdaptedFeatures.of(joint, parts)
    return phi, (
        f"{phi.size} features for {counted(n_components, f'{covariance_type} component')}: {count} at all scales, the "
        f"others at the widths and shapes of {counted(len(parts), 'component')} of an earlier model"
    )


def components_of(previous: Any) -> tuple[Array, Array, Array]:
    """Weights, means and covariance matrices of the components of a model that carry weight and have a width."""
    found = getattr(previous, "solution_", previous)
    found = getattr(found, "mixture", found)
    try:
        if hasattr(found, "covariances_"):  # an estimator in scikit-learn's shapes
            weights, means = np.asarray(found.weights_, np.float64), np.asarray(found.means_, np.float64)
            covariances = _matrices(np.asarray(found.covariances_, np.float64), found.covariance_type, *means.shape)
        else:
            weights, means = np.asarray(found.weights, np.float64), np.asarray(found.means, np.float64)
            covariances = np.asarray(found.full_covariances(), np.float64)
    except AttributeError:
        raise TypeError(
            f"previous must be a mixture, a model that has one or a fitted estimator, got {type(previous).__name__}"
        ) from None
    if not (np.isfinite(weights).all() and np.isfinite(means).all() and np.isfinite(covariances).all()):
        raise ValueError("the previous model holds NaN or infinity")
    kept = (weights > 0) & (np.diagonal(covariances, axis1=1, axis2=2) > 0).all(1)
    if not kept.any():
        raise ValueError("no component of the previous model has weight and a width in all columns")
    return weights[kept] / weights[kept].sum(), means[kept], covariances[kept]


def _matrices(covariances: Array, kind: str, k: int, d: int) -> Array:
    if kind == "tied":
        return np.broadcast_to(covariances, (k, d, d))
    if kind == "full":
        return covariances
    return covariances.reshape(k, -1)[:, :, None] * np.eye(d)


def _widths(covariance: Array) -> Array:
    return np.sqrt(np.diag(covariance))
