"""The certificate of a Gaussian mixture: misfit against noise, and which components the sketch determines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders import verdicts
from sketchlearn.decoders.covariances import KINDS
from sketchlearn.decoders.gaussian.setting import FEW_ROWS, Setting, simplex
from sketchlearn.decoders.metric import unwhiten
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit, misfit, refine
from sketchlearn.decoders.solution import MixtureSolution

_LIMITS = (1.5, 4.0)  # misfit over noise floor beyond which the model is taken to be wrong, at least and at most
_DEVIATIONS = 6.0  # and in between: 1 plus this many standard deviations (the tail is that of a chi-square law)
_PAIRS = 400  # frequencies whose correlations are looked at
_INFORMATION = 2.0  # pseudo-rows' worth of evidence below which a direction counts as unresolved


@dataclass(frozen=True, eq=False)
class Certificate:
    """A fit judged by the noise that it leaves: the problem with its final weights, and the strength of a pseudo-row.

    The ratio of misfit to floor is what chance allows up to `limit`.
    """

    fit: Fit
    problem: Problem
    strength: float
    floor: float
    deviation: float

    @property
    def ratio(self) -> float:
        """Misfit over noise floor."""
        return self.fit.value / self.floor

    @property
    def limit(self) -> float:
        """The ratio beyond which chance no longer explains it."""
        return mismatch_limit(self.deviation)


def mismatch_limit(deviation: float) -> float:
    """Misfit over noise floor beyond which chance no longer explains it."""
    return float(np.clip(1.0 + _DEVIATIONS * deviation, *_LIMITS))


def certify(setting: Setting, fit: Fit) -> Certificate:
    """Misfit over noise floor with the final weights."""
    problem, strength = setting.reweighted(fit)
    fit.value = misfit(problem, fit, setting.kind)
    floor, deviation = setting.noise_floor(problem, fit)
    if fit.value / floor > _LIMITS[0]:  # below that nobody asks
        deviation = max(deviation, floor_deviation(problem, fit, setting.kind, setting.rng))
    return Certificate(fit, problem, strength, floor, deviation)


def finish(setting: Setting, fit: Fit) -> Certificate:
    """Refine on the whole sketch with weights from the noise that is left, which are then renewed once."""
    fit.weights = np.maximum(fit.weights, 1e-5)
    if not setting.explained(fit):  # too far away for those weights
        fit = refine(setting.whole, fit, setting.kind, 600, strength=setting.strength, **setting.limits)
    for steps in (600, 300):
        problem, strength = setting.reweighted(fit)
        fit = refine(problem, fit, setting.kind, steps, strength=strength, **setting.limits)
    return certify(setting, fit)


def floor_deviation(problem: Problem, fit: Fit, kind: str, rng: np.random.Generator) -> float:
    """Relative standard deviation of the misfit of the right model, with the correlations between frequencies.

    The noise of two frequencies is correlated within a component with
    ``exp(-(q_i + q_j)/2) [exp(w_i'S w_j) - 1 - w_i'S w_j - h_ij]``, the same projection as in
    :func:`~sketchlearn.decoders.refine.tangent_variance`, turned by exp(i (w_i - w_j)·c); with -w_j for the conjugate.
    In few dimensions frequencies are close together, and the misfit varies far more than independent ones would make
    it.
    """
    m, d = problem.size, problem.dim
    part = np.arange(m) if m <= _PAIRS else np.sort(rng.choice(m, _PAIRS, replace=False))
    w = problem.operator.rows(part).forward(np.eye(d)).T.astype(np.float64)
    u = problem.u[part].astype(np.float64)
    k, shape = len(fit.weights), KINDS[kind]
    matrices = shape.to_full(fit.covariances, k, d)
    direct = np.zeros((len(part), len(part)), np.complex128)
    conjugate = np.zeros_like(direct)
    for a, c, s in zip(simplex(fit.weights), fit.means, matrices, strict=True):
        cross = w @ s @ w.T
        q = np.diag(cross)
        h = shape.absorbed_pairs(w, s, cross)
        half = 0.5 * (q[:, None] + q)
        damped, plain = np.exp(-half), np.exp(1j * (w @ c))
        direct += a * (np.exp(cross - half) - damped * (1 + cross + h)) * np.outer(plain, plain.conj())
        conjugate += a * (np.exp(-cross - half) - damped * (1 - cross + h)) * np.outer(plain, plain)
    direct[np.diag_indices(len(part))] += problem.n * problem.added[part]  # what was added is independent
    power = np.abs(direct) ** 2 + np.abs(conjugate) ** 2
    products = np.outer(u, u) * power
    own = float(np.trace(products))
    others = (float(products.sum()) - own) * (m * (m - 1) / (len(part) * max(len(part) - 1, 1)))
    variance = own * m / len(part) + others
    mean = float(u @ np.diag(direct).real) * m / len(part)
    return float(np.sqrt(max(variance, 0.0)) / max(mean, 1e-30))


def undetermined(setting: Setting, certificate: Certificate) -> tuple[int, ...]:
    """Components whose weight or width the sketch does not determine."""
    fit, problem, k, d = certificate.fit, certificate.problem, setting.k, setting.base.dim
    n, shape = setting.base.n, setting.shape
    weights = simplex(fit.weights)
    light = weights * n < min(FEW_ROWS, 0.5 * n / k)
    if n < 50 * k:  # so few rows: every width is uncertain, and the count says so
        return tuple(int(l) for l in np.flatnonzero(light))
    cosine, sine, _ = problem.atoms(fit.means, shape.per_component(fit.covariances), np.zeros(k))
    energy = (cosine**2 + sine**2) * problem.u
    matrices = shape.to_full(fit.covariances, k, d)
    pool = shape.pool_matrix(shape.pooled(fit.covariances, fit.weights), d)
    unresolved = np.zeros(k, bool)
    for l in range(k):
        values, vectors = np.linalg.eigh(matrices[l])
        y2 = problem.operator.forward((vectors * np.sqrt(np.maximum(values, 1e-30))).T) ** 2
        # curvature of the misfit in the log width of each axis, against that of the pseudo-row
        evidence = weights[l] ** 2 * (y2**2 @ energy[l])
        along = np.einsum("ia,ij,ja->a", vectors, pool, vectors) / np.maximum(values, 1e-30)
        share = 1.0 if setting.kind != "tied" else float((weights**2).sum() / weights[l] ** 2)
        unresolved[l] = bool((evidence * share < _INFORMATION * 4 * certificate.strength * along).any())
    return tuple(int(l) for l in np.flatnonzero(light | unresolved))


def solution(
    setting: Setting, certificate: Certificate, decoder: str, richer: Mixture | None = None
) -> MixtureSolution:
    """A certified fit in the coordinates of the rows, with its verdict."""
    fit, base = certificate.fit, setting.base
    unreliable = undetermined(setting, certificate)
    code, verdict = verdicts.of_mixture(certificate.ratio, certificate.limit, setting.k, setting.kind, unreliable)
    means, covariances = in_rows(base, fit.means, fit.covariances, setting.kind)
    return MixtureSolution(
        task="gmm",
        decoder=decoder,
        residual=fit.value,
        noise_floor=certificate.floor,
        ratio=certificate.ratio,
        code=code,
        verdict=verdict,
        iterations=setting.rounds,
        trace=setting.trace or [],
        weights=simplex(fit.weights),
        means=means,
        covariances=covariances,
        covariance_type=setting.kind,
        deviation=certificate.deviation,
        unreliable=unreliable,
        richer=richer,
    )


def in_rows(base: Problem, means: Array, covariances: Array, kind: str) -> tuple[Array, Array]:
    """Normalised means and covariances in the coordinates of the rows."""
    return unwhiten(means * base.scale + base.center, covariances * base.scale**2, kind, base.metric)
