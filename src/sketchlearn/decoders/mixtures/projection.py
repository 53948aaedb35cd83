"""Data that no mixture of the family explains: the projection of a richer mixture on the family."""

from __future__ import annotations

import warnings

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.families import DIAGONAL, FULL, Family
from sketchlearn.decoders.mixtures.certificate import Certificate, certify, finish
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.state import State, reduced, simplex
from sketchlearn.decoders.steps.greedy import search
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.decoders.verdicts import FEWEST_ROWS

TYPICAL_ROUNDS = 30
"""Of maximum likelihood on points, until it has converged."""


def points_drawn(k: int) -> int:
    """How many points stand for the richer mixture."""
    return 20_000 + 2_000 * k


def project(setting: Setting, certificate: Certificate) -> tuple[Certificate, State | None]:
    """The member of the family closest, in likelihood, to a richer mixture decoded from the same sketch."""
    rich = _richer(setting) if setting.base.n >= FEWEST_ROWS * setting.k else None
    if rich is None:
        return certificate, None
    k = setting.k
    x = _draw(rich, setting.rng, points_drawn(k))
    merged = reduced(rich.revived(), k).to(setting.family)
    candidates = [_maximum_likelihood(x, start) for start in (certificate.state, merged)]
    best = max(candidates, key=lambda found: found[1])[0]
    # a search that failed, and not the model: then the sketch itself is the better judge
    again = setting.improve(best, 150)
    if again.value < certificate.limit * setting.exploring.floor(again, k)[0]:
        return finish(setting, again), None
    return certify(setting, best), rich


def _richer(setting: Setting) -> State | None:
    """An over-complete mixture with full covariances that explains the sketch better."""
    d, m = setting.base.dim, setting.base.size
    count = min(max(3 * setting.k, 6), m // ((d + 1) * (d + 2) // 2))
    if count <= 1:
        return None
    found = search(setting.searching, count, setting.rng).state
    variance = max(float(found.shapes[0]), 1.01 * setting.smallest)
    state = State(DIAGONAL, found.weights, found.means, np.full((count, d), variance))
    state = refine(setting.whole, state.revived(), 60, strength=setting.strength, **setting.limits)
    state = state.revived().to(FULL)
    # the richer model is wrong too: shrink in proportion to what it leaves unexplained
    strength = max(setting.strength, 0.1 * 2.0 * setting.whole.misfit(state) / m)
    return refine(setting.whole, state, 300, strength=strength, **setting.limits)


def _draw(state: State, rng: np.random.Generator, count: int) -> Array:
    """Points from a mixture, each component getting its share to within one."""
    numbers = np.floor(state.simplex * count + rng.uniform(size=state.k)).astype(int)
    owner = np.repeat(np.arange(state.k), numbers)
    return state.means[owner] + state.family.draw(state.shapes, owner, state.dim, rng)


def _maximum_likelihood(x: Array, start: State) -> tuple[State, float]:
    """EM from a start; the fit and its mean log-likelihood."""
    family: Family = start.family
    s = start.shapes[0] if family.shared else start.shapes
    if s.ndim < 3 and not family.shared:
        precisions = 1.0 / s
    else:
        inverse = np.asarray(np.linalg.inv(s), np.float64)
        precisions = np.asarray(0.5 * (inverse + np.swapaxes(inverse, -1, -2)), np.float64)
    weights = simplex(np.maximum(start.simplex, 1e-4 / start.k))
    # imported here: loading scikit-learn doubles the memory of a process that only sketches and decodes
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        start.k,
        covariance_type=family.name,
        weights_init=weights,
        means_init=start.means,
        precisions_init=precisions,
        max_iter=60,
        tol=1e-4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x)
    shapes = model.covariances_[None] if family.shared else model.covariances_
    return State(family, model.weights_, model.means_, shapes), float(model.lower_bound_)
