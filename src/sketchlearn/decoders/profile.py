"""Where a mixture explains a sketch and where it doesn't: misfit against noise, by radius of the frequencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.arrays import Array, Complex
from sketchlearn.decoders import noise
from sketchlearn.decoders.state import State
from sketchlearn.features.characteristic import characteristic as characteristic_map
from sketchlearn.features.operator import Operator
from sketchlearn.models.base import Model
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.profile import Profile
from sketchlearn.sketches.value import Sketch


def characteristic(mixture: Mixture, operator: Operator) -> Complex:
    """``E exp(i w·x)`` of a mixture at the frequencies of an operator, (m,) complex."""
    envelope = np.exp(-0.5 * operator.quadratic(mixture.covariances))
    return np.asarray(mixture.weights @ (np.exp(1j * operator.forward(mixture.means)) * envelope))


def with_profile(model: Model, sketch: Sketch) -> Model:
    """The model with its misfit by radius, if it has a mixture and the sketch frequencies."""
    if model.mixture is None or sketch.features.as_characteristic is None:
        return model
    return replace(model, profile=residual_profile(sketch, model.mixture, model.fitted_shape))


def residual_profile(sketch: Sketch, mixture: Mixture, kind: str | None = None, bins: int = 24) -> Profile:
    """Misfit of a mixture and its noise floor, by radius, in at most so many bins of about equally many frequencies.

    `kind` says which parameters of the covariances were fitted: "shared", "spherical", "diag", "full", "tied" or
    "points".  By default it is what their shape says.
    """
    features = characteristic_map(sketch.features, "a profile by radius")
    if mixture.dim != features.dim:
        raise ValueError(f"the mixture has {mixture.dim} columns, the sketch {features.dim}")
    operator, z = features.operator(dtype=np.float64), sketch.mean
    misfit = np.abs(z - characteristic(mixture, operator)) ** 2
    radius = np.sqrt(np.maximum(operator.quadratic(mixture.covariance[None])[0], 1e-300))
    order = np.argsort(radius)
    groups = np.array_split(order, max(1, min(bins, len(order) // 8)))

    floor = sketch.variances
    if kind != "points" and mixture.covariances.any():
        floor = _left(mixture, operator, kind) / sketch.effective_count + noise.added_variance(sketch)

    def averages(values: Array) -> Array:
        return np.array([values[g].mean() for g in groups])

    return Profile(
        radius=np.exp(averages(np.log(radius))),
        signal=averages(np.abs(z) ** 2),
        misfit=averages(misfit),
        floor=averages(floor),
        sampling=averages(sketch.variances),
        size=np.array([float(len(g)) for g in groups]),
    )


def _left(mixture: Mixture, operator: Operator, kind: str | None) -> Array:
    """Variance of a row at each frequency that no change of weights, means and own covariances explains."""
    s = mixture.covariances
    if kind in ("shared", "tied") or (kind is None and s.ndim == 1 and len(s) > 1 and np.ptp(s) == 0):
        # what all components share absorbs next to nothing in each
        return np.asarray(mixture.weights @ noise.left_by_gaussian(operator.quadratic(s)))
    return np.asarray(mixture.weights @ State.of(mixture).family.left(s, operator))
