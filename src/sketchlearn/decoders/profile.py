"""Where a mixture explains a sketch and where it doesn't: misfit against noise, by radius of the frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.problem import Array
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.sketches.value import Sketch

_BINS = 24
_FEWEST = 8  # frequencies per bin


@dataclass(frozen=True, eq=False)
class Profile:
    """Averages over frequencies of about the same radius, from low to high.

    The radius is ``sqrt(w'Cw)`` with C the covariance of the whole mixture: radius 1 sees differences of one
    standard deviation of the data, ten times the radius sees details ten times finer.

    Attributes
    ----------
    radius : ndarray (b,)
        Geometric mean of the radii in each bin.
    signal : ndarray (b,)
        Mean squared modulus of the sketch.
    misfit : ndarray (b,)
        Mean squared modulus of sketch minus model.
    floor : ndarray (b,)
        What sampling noise leaves if the model is right and its parameters were fitted.
    sampling : ndarray (b,)
        Sampling noise of the sketch itself, ``(1 - |z|^2) / n``.
    size : ndarray (b,)
        Number of frequencies.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.profile import residual_profile
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=2, seed=0))
    >>> p = residual_profile(s, sl.decode(s, 2, random_state=0).mixture)
    >>> bool(p.misfit[-1] < 3 * p.floor[-1]), bool(p.signal[0] > 100 * p.misfit[0])
    (True, True)
    """

    radius: Array
    signal: Array
    misfit: Array
    floor: Array
    sampling: Array
    size: Array


def characteristic(mixture: Mixture, frequencies: Array) -> npt.NDArray[np.complex128]:
    """``E exp(i w·x)`` of a mixture at some frequencies, (m,) complex."""
    value = np.zeros(len(frequencies), np.complex128)
    for a, mean, q in zip(mixture.weights, mixture.means, _exponents(mixture, frequencies), strict=True):
        value += a * np.exp(1j * (frequencies @ mean) - q / 2)
    return value


def residual_profile(sketch: Sketch, mixture: Mixture, kind: str | None = None, bins: int = _BINS) -> Profile:
    """Misfit of a mixture and its noise floor, by radius.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    mixture : Mixture
        Decoded from it, or any other.
    kind : {"shared", "spherical", "diag", "full", "tied", "points"}, optional
        Which parameters of the covariances were fitted; by default what their shape says.
    bins : int
        Of about equally many frequencies, at most.

    Returns
    -------
    Profile
    """
    features = sketch.features
    if not isinstance(features, FourierFeatures):
        raise TypeError(f"a profile by radius needs Fourier features, the sketch has {features.kind} features")
    w, z, n = features.frequencies, sketch.mean, float(sketch.count)
    if mixture.means.shape[1] != features.dim:
        raise ValueError(f"the mixture has {mixture.means.shape[1]} columns, the sketch {features.dim}")
    left = np.abs(z - characteristic(mixture, w)) ** 2
    radius = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", w, covariance_of(mixture), w, optimize=True), 1e-300))
    order = np.argsort(radius)
    groups = np.array_split(order, max(1, min(bins, len(order) // _FEWEST)))

    sampling = np.maximum(1.0 - np.abs(z) ** 2, 0.0)
    kind = _kind(mixture) if kind is None else kind
    noise = sampling if kind == "points" else _conditional_variance(mixture, w, kind)

    def averages(values: Array) -> Array:
        return np.array([values[g].mean() for g in groups])

    return Profile(
        radius=np.exp(averages(np.log(radius))),
        signal=averages(np.abs(z) ** 2),
        misfit=averages(left),
        floor=averages(noise) / n,
        sampling=averages(sampling) / n,
        size=np.array([float(len(g)) for g in groups]),
    )


def covariance_of(mixture: Mixture) -> Array:
    """Covariance of the whole mixture, (d, d)."""
    apart = mixture.means - mixture.mean
    between = (mixture.weights[:, None] * apart).T @ apart
    s = mixture.covariances
    if s.ndim == 3:
        return np.asarray(between + np.tensordot(mixture.weights, s, 1))
    within = mixture.weights @ s
    return np.asarray(between + np.diag(np.broadcast_to(within, mixture.means.shape[1:])))


def _exponents(mixture: Mixture, w: Array) -> list[Array]:
    """w'Sw for each component."""
    if mixture.covariances.ndim == 3:
        return [np.asarray(((w @ s) * w).sum(1)) for s in mixture.covariances]
    squares = w * w
    return [np.asarray(squares @ np.broadcast_to(s, w.shape[1:])) for s in mixture.covariances]


def _kind(mixture: Mixture) -> str:
    """What was fitted, by the shape of the covariances."""
    s = mixture.covariances
    if not s.any():
        return "points"
    if s.ndim == 1:
        return "shared" if len(s) > 1 and np.ptp(s) == 0 else "spherical"
    return "diag" if s.ndim == 2 else "full"


def _conditional_variance(mixture: Mixture, w: Array, kind: str) -> Array:
    """Variance (times n) of each entry that no change of weights, means and own covariances explains.

    Within a component exp(i w·x) is projected on the scores of its parameters; with q = w'Sw there is
    1 - exp(-q)(1 + q + h) left, h = q^2/2 for full covariances (see decoders.refine.tangent_variance).  What all
    components share absorbs next to nothing in each.
    """
    total = np.zeros(len(w))
    for a, part, q in zip(mixture.weights, mixture.covariances, _exponents(mixture, w), strict=True):
        if kind == "full":
            h = q * q / 2
        elif kind == "diag":
            h = ((w * w) ** 2 @ part**2) / 2
        else:
            h = q * q / (2 * w.shape[1]) if kind == "spherical" else np.zeros_like(q)
        total += a * np.maximum(1.0 - np.exp(-q) * (1.0 + q + h), 0.0)
    return total
