"""Data that no mixture of the family explains: the projection of a richer mixture on the family."""

from __future__ import annotations

import warnings

import numpy as np

from sketchlearn.decoders.covariances import convert, reduce_mixture
from sketchlearn.decoders.gaussian.certificate import Certificate, certify, finish
from sketchlearn.decoders.gaussian.setting import FEW_ROWS, Setting, simplex
from sketchlearn.decoders.problem import Array
from sketchlearn.decoders.refine import Fit, misfit, refine
from sketchlearn.decoders.search import search


def project(setting: Setting, certificate: Certificate) -> tuple[Certificate, Fit | None]:
    """The member of the family closest, in likelihood, to a richer mixture decoded from the same sketch."""
    rich = _richer(setting) if setting.base.n >= FEW_ROWS * setting.k else None
    if rich is None:
        return certificate, None
    fit, shape, k = certificate.fit, setting.shape, setting.k
    x = _draw(rich, setting.rng, 20_000 + 2_000 * k)
    matrices = shape.to_full(fit.covariances, k, setting.base.dim)
    merged = reduce_mixture(rich.means, np.maximum(simplex(rich.weights), 1e-6), rich.covariances, k)
    best: tuple[float, Fit] | None = None
    for means, weights, s in ((fit.means, simplex(fit.weights), matrices), merged):
        candidate, score = _maximum_likelihood(x, means, weights, shape.from_full(s, weights), setting.kind)
        if best is None or score > best[0]:
            best = score, candidate
    assert best is not None
    # a search that failed, and not the model: then the sketch itself is the better judge
    again = setting.improve(Fit(best[1].means, best[1].weights, best[1].covariances), 150)
    floor, _ = setting.noise_floor(setting.exploring, again)
    if again.value < certificate.limit * floor:
        return finish(setting, again), None
    return certify(setting, best[1]), rich


def _richer(setting: Setting) -> Fit | None:
    """An over-complete mixture with full covariances that explains the sketch better."""
    d, m = setting.base.dim, setting.base.size
    each = (d + 1) * (d + 2) // 2
    count = min(max(3 * setting.k, 6), m // each)
    if count <= 1:
        return None
    found = search(setting.searching, count, setting.rng, replacements=8)
    variance = max(found.variance, 1.01 * setting.smallest)
    fit = Fit(found.means, np.maximum(found.weights, 1e-4), np.full((count, d), variance))
    fit = refine(setting.whole, fit, "diag", 60, strength=setting.strength, **setting.limits)
    weights = np.maximum(fit.weights, 1e-4)
    fit = Fit(fit.means, weights, convert(fit.covariances, weights, d, "diag", "full"))
    # the richer model is wrong too: shrink in proportion to what it leaves unexplained
    strength = max(setting.strength, 0.1 * 2.0 * misfit(setting.whole, fit, "full") / m)
    return refine(setting.whole, fit, "full", 300, strength=strength, **setting.limits)


def _draw(fit: Fit, rng: np.random.Generator, count: int) -> Array:
    """Points from a mixture with full covariances, each component getting its share to within one."""
    shares = simplex(fit.weights) * count
    numbers = np.floor(shares + rng.uniform(size=len(shares))).astype(int)
    parts = []
    for l, number in enumerate(numbers):
        values, vectors = np.linalg.eigh(fit.covariances[l])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        parts.append(fit.means[l] + rng.standard_normal((number, len(root))) @ root.T)
    return np.concatenate(parts)


def _maximum_likelihood(x: Array, means: Array, weights: Array, covariances: Array, kind: str) -> tuple[Fit, float]:
    """EM from a start; the fit and its mean log-likelihood."""
    if kind in ("spherical", "diag"):
        precisions = 1.0 / covariances
    else:
        precisions = np.asarray(np.linalg.inv(covariances), np.float64)
        precisions = np.asarray(0.5 * (precisions + np.swapaxes(precisions, -1, -2)), np.float64)
    weights = simplex(np.maximum(simplex(weights), 1e-4 / len(weights)))
    # imported here: loading scikit-learn doubles the memory of a process that only sketches and decodes
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        len(weights),
        covariance_type=kind,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions,
        max_iter=60,
        tol=1e-4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x)
    return Fit(model.means_, model.weights_, model.covariances_), float(model.lower_bound_)
