"""Search for the components of a Gaussian mixture: starts, and rounds of splitting and merging."""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.covariances import KINDS, merged_pairs, reduce_mixture
from sketchlearn.decoders.gaussian.setting import Setting
from sketchlearn.decoders.refine import Fit
from sketchlearn.decoders.search import climb, pick, prune_indices, search, solve_weights

_STARTS = (1, 2, 3, 2)  # components searched, in multiples of k
_PATIENCE = 2  # rounds without progress
_STOP = 2.0  # standard deviations above the floor at which rounds end


def from_start(setting: Setting, begin: Fit, rounds: int) -> Fit | None:
    """An earlier model, refined; None if it has too few components."""
    if len(begin.weights) < setting.k:
        return None
    means, weights, matrices = begin.means, np.maximum(begin.weights, 1e-4), begin.covariances
    means, weights, matrices = reduce_mixture(means, weights, matrices, setting.k)
    fit = setting.improve(Fit(means, weights, setting.shape.from_full(matrices, weights)), 150)
    fit = split_and_merge(setting, fit, rounds)
    setting.note(start="warm", ratio=fit.value / setting.noise_floor(setting.exploring, fit)[0])
    return fit


def explore(setting: Setting, starts: int, rounds: int) -> Fit:
    """The best of a few starts; one is enough when its misfit is at the noise floor."""
    best: Fit | None = None
    stale = 0
    for attempt, multiple in enumerate(_STARTS[: max(starts, 1)]):
        fit = split_and_merge(setting, first_fit(setting, multiple, 1 + attempt // 2), rounds)
        stale = stale + 1 if best is not None and fit.value > 0.98 * best.value else 0
        if best is None or fit.value < best.value:
            best = fit
        setting.note(start=multiple, ratio=fit.value / setting.noise_floor(setting.exploring, fit)[0])
        if setting.k == 1 or setting.explained(best) or stale >= 2:
            break
    assert best is not None
    return best


def first_fit(setting: Setting, multiple: int, effort: int) -> Fit:
    """Search with a shared width, then own widths, then the type of covariance asked for."""
    d = setting.base.dim
    count = setting.k * multiple
    replacements = 20 if multiple == 1 else 6
    found = search(setting.searching, count, setting.rng, effort=effort, replacements=replacements)
    setting.rounds += found.rounds
    variance = max(found.variance, 1.01 * setting.smallest)
    fit = Fit(found.means, found.weights, np.full(len(found.means), variance))
    fit = setting.improve(fit, 40, "spherical")
    matrices = KINDS["spherical"].to_full(fit.covariances, len(fit.weights), d)
    means, weights = fit.means, np.maximum(fit.weights, 1e-5)
    if count > setting.k:
        means, weights, matrices = reduce_mixture(means, weights, matrices, setting.k)
    elif setting.kind == "full" and d > 2:
        fit = setting.improve(Fit(means, weights, KINDS["diag"].from_full(matrices, weights)), 40, "diag")
        means, weights = fit.means, fit.weights
        matrices = KINDS["diag"].to_full(fit.covariances, setting.k, d)
    return setting.improve(Fit(means, weights, setting.shape.from_full(matrices, weights)), 150)


def split_and_merge(setting: Setting, fit: Fit, rounds: int) -> Fit:
    """Rounds of adding a component where the sketch is not explained and giving one up elsewhere."""
    failures = 0
    for _ in range(rounds if setting.k > 1 else 0):
        floor, deviation = setting.noise_floor(setting.exploring, fit)
        if fit.value < floor * (1.0 + _STOP * deviation) or failures >= _PATIENCE:
            break
        setting.rounds += 1
        better = _one_round(setting, fit, failures)
        failures = failures + 1 if better is None else 0
        setting.note(move=better is not None, ratio=(better or fit).value / floor)
        fit = better or fit
    return fit


def _one_round(setting: Setting, fit: Fit, failures: int) -> Fit | None:
    """A better fit with the same number of components, or None."""
    grown = []
    for candidate in _larger(setting, fit, failures):
        s = setting.shape.per_component(candidate.covariances)
        candidate.weights = np.maximum(solve_weights(*setting.exploring.gram(candidate.means, s)), 1e-4)
        grown.append(setting.improve(candidate, 25))
    grown.sort(key=lambda g: g.value)
    for candidate in grown[:2]:
        options = [setting.improve(option, 25) for option in _smaller(setting, candidate)]
        best = setting.improve(min(options, key=lambda o: o.value), 80)
        if best.value < 0.99 * fit.value:
            return best
    return None


def _larger(setting: Setting, fit: Fit, failures: int) -> list[Fit]:
    """Fits with one more component: where the residual has a bump, and the worst components split."""
    p, k, d = setting.exploring, setting.k, setting.base.dim
    s = setting.shape.per_component(fit.covariances)
    residual = p.residual(fit.means, s, fit.weights)
    variance = float(np.median(setting.shape.mean_variances(fit.covariances, k))) * (0.4 if failures % 2 else 1.0)
    points = setting.rng.standard_normal((max(24, 2 * k), d))
    near = len(points) // 2
    points[:near] = fit.means[setting.rng.integers(k, size=near)] + 2.0 * np.sqrt(variance) * points[:near]
    points[-(near // 2) :] *= 3.0  # small components far from the rest
    points = climb(p, residual, variance, points, [1 / 1.2**2, 1 / 2.5**2, 0.0], k, steps=4)
    out = [fit.with_component(setting.kind, x, variance) for x in pick(p, residual, variance, points, 2)]
    cosine, sine, _ = p.atoms(fit.means, s, fit.weights)
    energy = (cosine**2 + sine**2) * p.u
    seen = (energy * (residual[0] ** 2 + residual[1] ** 2)).sum(1) / np.maximum(energy.sum(1), 1e-9)
    worst = np.argsort(-seen)[: 2 if failures == 0 else 4]
    return out + [fit.split(setting.kind, int(l), setting.rng) for l in worst]


def _smaller(setting: Setting, fit: Fit) -> list[Fit]:
    """Fits with k components again: the least useful dropped, or a pair merged (the three best pairs)."""
    p, kind, shape = setting.exploring, setting.kind, setting.shape
    s = shape.per_component(fit.covariances)
    out = []
    keep, weights = prune_indices(*p.gram(fit.means, s), setting.k)
    if len(keep) == setting.k:
        out.append(fit.select(kind, keep, weights))
    count, d = fit.means.shape
    a = np.maximum(fit.weights, 1e-6)
    pairs, _, centers, joint = merged_pairs(fit.means, a, shape.to_full(fit.covariances, count, d))
    merged = fit.covariances if kind == "tied" else shape.from_full(joint, np.ones(len(joint)))
    cosine, sine, model = (x.copy() for x in p.atoms(fit.means, s, a))
    alone = np.stack([cosine, sine], 1) * a[:, None, None].astype(np.float32)
    c, q, _ = p.atoms(centers, shape.per_component(merged), np.zeros(len(centers)))
    # what the union of a pair has to explain: the residual and the pair itself
    target = (p.z - model)[None] + alone[pairs[0]] + alone[pairs[1]]
    along = (p.u * (target[:, 0] * c + target[:, 1] * q)).sum(1)
    energy = (p.u * (c * c + q * q)).sum(1) + 1e-12
    best = np.maximum(along, 0.0) / energy
    cost = (p.u * (target**2).sum(1)).sum(1) - best * along
    for pair in np.argsort(cost)[:3]:
        rest = np.setdiff1d(np.arange(count), pairs[:, pair])
        covariances = shape.joined(shape.select(fit.covariances, rest), merged[pair : pair + 1])
        weights = np.append(a[rest], best[pair])
        out.append(Fit(np.vstack([fit.means[rest], centers[pair]]), weights, covariances))
    return out
