"""An earlier model as a beginning: mixtures and centres from whatever holds them; components in an earlier order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.models.mixture import Mixture

_M = TypeVar("_M")

_CENTERS = ("cluster_centers_", "centers", "means_", "means")


def as_centers(given: Any, dim: int) -> Array:
    """Centres (k, dim): an array, or those of a model, a mixture or a fitted estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models.start import as_centers
    >>> as_centers([[1, 2], [3, 4]], 2)
    array([[1., 2.],
           [3., 4.]])
    """
    values = next((getattr(given, name) for name in _CENTERS if hasattr(given, name)), given)
    try:
        centers = np.atleast_2d(np.asarray(values, np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"centres must be numbers, or a model that has some, got {type(given).__name__}") from None
    if centers.ndim != 2 or not len(centers) or centers.shape[1] != dim or not np.isfinite(centers).all():
        raise ValueError(f"centres must be finite numbers of shape (k, {dim}), got shape {centers.shape}")
    return centers


def as_mixture(given: Any, dim: int) -> Mixture:
    """A mixture, a solution, a fitted estimator or three arrays as a mixture in `dim` dimensions."""
    for name in ("solution_", "mixture"):
        given = getattr(given, name, given)
    if hasattr(given, "covariances_"):
        parts = given.weights_, given.means_, given.covariances_
        if getattr(given, "covariance_type", None) == "tied":
            parts = given.weights_, given.means_, np.repeat(given.covariances_[None], len(given.weights_), 0)
    elif isinstance(given, Mixture):
        parts = given.weights, given.means, given.covariances
    elif isinstance(given, tuple | list) and len(given) == 3:
        parts = tuple(given)
    else:
        raise TypeError(
            f"mixture must be a Mixture, a fitted mixture model or (weights, means, covariances), got "
            f"{type(given).__name__}"
        )
    weights, means, covariances = (np.asarray(v, np.float64) for v in parts)
    k = weights.size
    shapes = ((k,), (k, dim), (k, dim, dim))
    if weights.shape != (k,) or means.shape != (k, dim) or covariances.shape not in shapes:
        raise ValueError(
            f"a mixture is weights (k,), means (k, {dim}) and covariances (k,), (k, {dim}) or (k, {dim}, {dim}); got "
            f"{weights.shape}, {means.shape}, {covariances.shape}"
        )
    if (weights < 0).any() or not weights.sum() > 0:
        raise ValueError("the weights of a mixture must not be negative, nor all zero")
    return Mixture(weights / weights.sum(), means, covariances)


def in_order_of(model: _M, start: Any, dim: int) -> _M:
    """A model whose components are numbered as those of an earlier one that they are nearest to, all in all.

    So a cluster keeps its number from one decoding to the next.  Models of another number of components, or that have
    none, stay as they are.
    """
    if not hasattr(model, "layout"):
        return model
    try:
        places, before = as_centers(model, dim), as_centers(start, dim)
    except (TypeError, ValueError):
        return model
    if len(places) != len(before):
        return model
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    order = linear_sum_assignment(cdist(before, places, "sqeuclidean"))[1]
    values = {name: getattr(model, name) for name in model.layout if hasattr(model, name)}
    by_component = {
        name: value
        for name, value in values.items()
        if isinstance(value, np.ndarray) and value.ndim and len(value) == len(order) and _of_components(model, name)
    }
    return replace(model, **{name: value[order] for name, value in by_component.items()})  # type: ignore[type-var]


def _of_components(model: Any, name: str) -> bool:
    """Whether the first axis of a field counts components."""
    shape = model.layout[name]
    if shape is None:  # of a shape that depends on the type
        return getattr(model, "covariance_type", None) != "tied"
    return isinstance(shape, tuple) and shape[:1] == ("k",)
