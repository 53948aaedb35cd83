"""The certificate of a Gaussian mixture: misfit against noise, and which components the sketch determines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.families import TIED
from sketchlearn.decoders.metric import unwhiten
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import MixtureSolution, said
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.models.mixture import Mixture
from sketchlearn.words import counted


@dataclass(frozen=True, eq=False)
class Certificate:
    """A fit judged by the noise that it leaves: the problem with its final weights, and the strength of a pseudo-row.

    The ratio of misfit to floor is what chance allows up to `limit`.
    """

    state: State
    problem: Problem
    strength: float
    floor: float
    deviation: float

    @property
    def ratio(self) -> float:
        """Misfit over noise floor."""
        return self.state.value / self.floor

    @property
    def limit(self) -> float:
        """The ratio beyond which chance no longer explains it: six standard deviations, as of a chi-square law."""
        return float(np.clip(1.0 + 6.0 * self.deviation, noise.SLACK, 4.0))


def certify(setting: Setting, state: State) -> Certificate:
    """Misfit over noise floor with the final weights."""
    problem, strength = setting.reweighted(state)
    state = replace(state, value=problem.misfit(state))
    floor, deviation = problem.floor(state, setting.k)
    if state.value / floor > noise.SLACK:  # below that nobody asks
        deviation = max(deviation, floor_deviation(problem, state, setting.rng))
    return Certificate(state, problem, strength, floor, deviation)


def finish(setting: Setting, state: State) -> Certificate:
    """Refine on the whole sketch with weights from the noise that is left, which are then renewed once."""
    state = replace(state.revived(), value=state.value)
    if not setting.explained(state):  # too far away for those weights
        state = refine(setting.whole, state, 600, strength=setting.strength, **setting.limits)
    for steps in (600, 300):
        problem, strength = setting.reweighted(state)
        state = refine(problem, state, steps, strength=strength, **setting.limits)
    return certify(setting, state)


def floor_deviation(problem: Problem, state: State, rng: np.random.Generator) -> float:
    """Relative standard deviation of the misfit of the right model, with the correlations between frequencies.

    The noise of two frequencies is correlated within a component
    (:meth:`~sketchlearn.decoders.state.State.pairs`).  In few dimensions frequencies are close together, and the
    misfit varies far more than independent ones would make it.
    """
    m = problem.size
    part = np.sort(rng.choice(m, 400, replace=False)) if m > 400 else np.arange(m)
    w = problem.operator.rows(part).frequencies().astype(np.float64)
    u = problem.u[part].astype(np.float64)
    direct, conjugate = state.pairs(w, absorb=True)
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
    state, problem, k, d = certificate.state, certificate.problem, setting.k, setting.base.dim
    n, family, weights = setting.base.n, setting.family, state.simplex
    light = weights * n < min(verdicts.FEWEST_ROWS, 0.5 * n / k)
    if n < 50 * k:  # so few rows: every width is uncertain, and the count says so
        return tuple(int(l) for l in np.flatnonzero(light))
    energy = np.broadcast_to(np.exp(2.0 * problem.damping(state)) * problem.u, (k, problem.size))
    pool = family.covariances(family.pooled(state.shapes, state.weights), 1, d)[0]
    unresolved = np.zeros(k, bool)
    for l, matrix in enumerate(state.covariances):
        values, vectors = np.linalg.eigh(matrix)
        y2 = problem.operator.forward((vectors * np.sqrt(np.maximum(values, 1e-30))).T) ** 2
        # curvature of the misfit in the log width of each axis, against that of two pseudo-rows
        evidence = weights[l] ** 2 * (y2**2 @ energy[l])
        along = np.einsum("ia,ij,ja->a", vectors, pool, vectors) / np.maximum(values, 1e-30)
        share = float((weights**2).sum() / weights[l] ** 2) if family.shared else 1.0
        unresolved[l] = bool((evidence * share < 8 * certificate.strength * along).any())
    return tuple(int(l) for l in np.flatnonzero(light | unresolved))


def solution(
    setting: Setting, certificate: Certificate, decoder: str, trace: list[dict[str, Any]], richer: Mixture | None = None
) -> MixtureSolution:
    """A certified fit in the coordinates of the rows, with its verdict."""
    state, kind = certificate.state, setting.family.name
    unreliable = undetermined(setting, certificate)
    what = f"{counted(setting.k, 'Gaussian')} ({kind} covariances)"
    judged = verdicts.of_mixture(certificate.ratio, certificate.limit, what, unreliable)
    means, covariances = in_rows(setting.base, state)
    return MixtureSolution(
        **said("gmm", decoder, state.value, certificate.floor, judged, setting.rounds, trace),
        weights=state.simplex,
        means=means,
        covariances=covariances,
        covariance_type=kind,
        deviation=certificate.deviation,
        unreliable=unreliable,
        richer=richer,
    )


def in_rows(base: Problem, state: State) -> tuple[Array, Array]:
    """Means and covariances of a Gaussian state in the coordinates of the rows, in scikit-learn's form."""
    s = state.shapes[0] if state.family is TIED else state.shapes
    return unwhiten(state.means * base.scale + base.center, s * base.scale**2, state.family.name, base.metric)
