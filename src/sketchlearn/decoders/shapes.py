"""Covariances of a mixture in their four shapes: conversions, merging and splitting of components.

Shapes: spherical (k,), diag (k, d), full (k, d, d), tied (d, d).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.refine import Fit

Array = npt.NDArray[np.float64]

_SPLIT = 0.8  # halves of a component move this many standard deviations apart along its longest axis


def to_full(covariances: Array, kind: str, k: int, d: int) -> Array:
    """One matrix per component."""
    if kind == "spherical":
        return covariances[:, None, None] * np.eye(d)
    if kind == "diag":
        return covariances[:, :, None] * np.eye(d)
    if kind == "tied":
        return np.repeat(covariances[None], k, 0)
    return covariances


def from_full(matrices: Array, weights: Array, kind: str) -> Array:
    """The closest covariances of a type (moment matching)."""
    d = matrices.shape[-1]
    if kind == "spherical":
        return np.trace(matrices, axis1=1, axis2=2) / d
    if kind == "diag":
        return np.diagonal(matrices, axis1=1, axis2=2).copy()
    if kind == "tied":
        w = np.maximum(weights, 1e-12)
        return np.tensordot(w / w.sum(), matrices, 1)
    return matrices


def convert(covariances: Array, weights: Array, d: int, before: str, after: str) -> Array:
    """Covariances of one type as another."""
    if before == after:
        return covariances
    return from_full(to_full(covariances, before, len(weights), d), weights, after)


def mean_variances(covariances: Array, kind: str, k: int) -> Array:
    """Average variance of each component over the coordinates, (k,)."""
    if kind == "spherical":
        return covariances
    if kind == "diag":
        return covariances.mean(1)
    d = covariances.shape[-1]
    return np.broadcast_to(np.trace(covariances, axis1=-2, axis2=-1) / d, (k,))


def select(fit: Fit, kind: str, keep: npt.NDArray[np.intp], weights: Array) -> Fit:
    """Some of the components, with new weights."""
    s = fit.covariances if kind == "tied" else fit.covariances[keep]
    return Fit(fit.means[keep], weights, s, np.inf)


def append(fit: Fit, kind: str, mean: Array, variance: float) -> Fit:
    """One more, spherical, component."""
    d = fit.means.shape[1]
    s = fit.covariances
    if kind != "tied":
        s = np.concatenate([s, convert(np.array([variance]), np.ones(1), d, "spherical", kind)])
    return Fit(np.vstack([fit.means, mean]), np.append(fit.weights, 0.0), s, np.inf)


def split(fit: Fit, kind: str, l: int, rng: np.random.Generator) -> Fit:
    """Component l as two halves that together keep its mean and covariance."""
    d = fit.means.shape[1]
    s = fit.covariances.copy()
    axis: Array
    if kind == "spherical":
        direction = rng.standard_normal((d,))
        axis = direction / float(np.linalg.norm(direction))
        deviation = float(np.sqrt(s[l]))
    elif kind == "diag":
        axis = np.eye(d)[int(np.argmax(s[l]))]
        deviation = float(np.sqrt(s[l].max()))
    else:
        values, vectors = np.linalg.eigh(s if kind == "tied" else s[l])
        axis, deviation = vectors[:, -1], float(np.sqrt(values[-1]))
    step = _SPLIT * deviation * axis
    if kind == "diag":
        s[l] = s[l] - step**2
    elif kind == "full":
        s[l] = s[l] - np.outer(step, step)
    if kind != "tied":
        s = np.concatenate([s, s[l : l + 1]])
    means = np.vstack([fit.means, fit.means[l] + step])
    means[l] = fit.means[l] - step
    weights = np.append(fit.weights, fit.weights[l] / 2)
    weights[l] /= 2
    return Fit(means, weights, s, np.inf)


def merged_pairs(means: Array, weights: Array, matrices: Array) -> tuple[Array, Array, Array, Array, Array]:
    """All pairs (i, j) of components and their moment-matched unions: weights, means, matrices."""
    i, j = np.tril_indices(len(weights), -1)
    total = weights[i] + weights[j]
    part = weights[i] / np.maximum(total, 1e-300)
    gap = means[i] - means[j]
    center = means[j] + part[:, None] * gap
    spread = (part * (1 - part))[:, None, None] * gap[:, :, None] * gap[:, None, :]
    inner = part[:, None, None] * matrices[i] + (1 - part)[:, None, None] * matrices[j]
    return np.stack([i, j]), total, center, inner + spread, part


def reduce_mixture(means: Array, weights: Array, matrices: Array, k: int) -> tuple[Array, Array, Array]:
    """Merge components until k are left, each time the pair with the smallest bound on the information lost.

    Runnalls (2007), "Kullback-Leibler approach to Gaussian mixture reduction", eq. 21.
    """
    while len(weights) > k:
        pairs, total, center, joint, _ = merged_pairs(means, weights, matrices)
        alone = weights * np.linalg.slogdet(matrices)[1]
        cost = total * np.linalg.slogdet(joint)[1] - alone[pairs[0]] - alone[pairs[1]]
        p = int(np.argmin(cost))
        keep = np.setdiff1d(np.arange(len(weights)), pairs[:, p])
        means = np.vstack([means[keep], center[p]])
        weights = np.append(weights[keep], total[p])
        matrices = np.concatenate([matrices[keep], joint[p : p + 1]])
    return means, weights, matrices
