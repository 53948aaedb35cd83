"""Search for the components of a mixture of any family: starts, and rounds of splitting and merging."""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.budget import GAIN, PATIENCE, over
from sketchlearn.decoders.families import DIAGONAL, FULL, SPHERICAL
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.state import State, merged_pairs, reduced
from sketchlearn.decoders.steps.greedy import climb, pick, search
from sketchlearn.decoders.steps.weights import prune_indices, reweighted

STARTS, ROUNDS = 4, 12  # searches, and rounds of splitting and merging after each, at most


def from_start(setting: Setting, begin: State, rounds: int) -> State | None:
    """An earlier model, refined; None if it has too few components."""
    if begin.k < setting.k:
        return None
    begin = reduced(begin.revived(), setting.k)
    return split_and_merge(setting, setting.improve(begin.to(setting.family), 150), rounds)


def explore(setting: Setting, starts: int, rounds: int) -> State:
    """The best of a few starts, from k, 2k or 3k components; one is enough when its misfit is at the noise floor."""
    best: State | None = None
    stale = 0
    for attempt, multiple in enumerate((1, 2, 3, 2)[: max(starts, 1)]):
        state = split_and_merge(setting, first_fit(setting, multiple, 1 + attempt // 2), rounds)
        stale = stale + 1 if best is not None and state.value > GAIN * best.value else 0
        if best is None or state.value < best.value:
            best = state
        if setting.k == 1 or setting.explained(best) or stale >= 2 or over("more searches"):
            break
    assert best is not None
    return best


def first_fit(setting: Setting, multiple: int, effort: int) -> State:
    """Search with a shared width, then own widths, then the family asked for."""
    count = setting.k * multiple
    found = search(setting.searching, count, setting.rng, effort=effort)
    setting.rounds += found.rounds
    variance = max(float(found.state.shapes[0]), 1.01 * setting.smallest)
    state = State(SPHERICAL, found.state.weights, found.state.means, np.full(count, variance))
    state = setting.improve(state, 40).revived()
    if count > setting.k:
        state = reduced(state, setting.k)
    elif setting.family is FULL and state.dim > 2:
        state = setting.improve(state.to(DIAGONAL), 40)
    return setting.improve(state.to(setting.family), 150)


def split_and_merge(setting: Setting, state: State, rounds: int) -> State:
    """Rounds of adding a component where the sketch is not explained and giving one up elsewhere.

    The right model, fitted to the noise too, leaves less than the noise floor on average.  What lies above may be
    chance, but of few rows chance also explains wrong models, and no test tells them apart: the search goes on.
    """
    failures = 0
    for _ in range(rounds if setting.k > 1 else 0):
        if state.value <= setting.exploring.floor(state, setting.k)[0] or failures >= PATIENCE:
            break
        if over("more splitting and merging"):
            break
        setting.rounds += 1
        better = _one_round(setting, state, failures)
        failures = failures + 1 if better is None else 0
        state = better or state
    return state


def _one_round(setting: Setting, state: State, failures: int) -> State | None:
    """A better state with the same number of components, or None."""
    grown = []
    for candidate in _larger(setting, state, failures):
        candidate = reweighted(setting.exploring, candidate)
        grown.append(setting.improve(candidate, 25))
    grown.sort(key=lambda g: g.value)
    for candidate in grown[:2]:
        options = [setting.improve(option, 25) for option in _smaller(setting, candidate)]
        best = setting.improve(min(options, key=lambda o: o.value), 80)
        if best.value < GAIN * state.value:
            return best
    return None


def _larger(setting: Setting, state: State, failures: int) -> list[State]:
    """States with one more component: where the residual has a bump, and the worst components split."""
    p, (k, d), rng = setting.exploring, state.means.shape, setting.rng
    residual = p.residual(state)
    variance = state.width**2 * (0.4 if failures % 2 else 1.0)
    points = rng.standard_normal((max(24, 2 * k), d))
    near = len(points) // 2
    points[:near] = state.means[rng.integers(k, size=near)] + 2.0 * np.sqrt(variance) * points[:near]
    points[-(near // 2) :] *= 3.0  # small components far from the rest
    points = climb(p, residual, variance, points, [1 / 1.2**2, 1 / 2.5**2, 0.0], k, steps=4)
    shape = state.family.rounded([variance], d)
    out = [state.joined(x[None], shape) for x in pick(p, residual, variance, points, 2)]
    energy = np.exp(2.0 * p.damping(state)) * p.u
    seen = (energy * (residual[0] ** 2 + residual[1] ** 2)).sum(1) / np.maximum(energy.sum(1), 1e-9)
    worst = np.argsort(-np.broadcast_to(seen, k))[: 2 if failures == 0 else 4]
    return out + [state.split(int(l), rng) for l in worst]


def _smaller(setting: Setting, state: State) -> list[State]:
    """States with k components again: the least useful dropped, or a pair merged (the three best pairs)."""
    p, family = setting.exploring, state.family
    out = []
    keep, weights = prune_indices(*p.gram(state), setting.k)
    if len(keep) == setting.k:
        out.append(state.select(keep, weights))
    state = state.revived()
    pairs, _, centers, joint = merged_pairs(state)
    merged = state.shapes if family.shared else family.from_covariances(joint, np.ones(len(joint)))
    cosine, sine, model = (x.copy() for x in p.atoms(state))
    alone = np.stack([cosine, sine], 1) * state.weights[:, None, None].astype(np.float32)
    c, q, _ = p.atoms(State(family, np.zeros(len(centers)), centers, merged))
    # what the union of a pair has to explain: the residual and the pair itself
    target = (p.z - model)[None] + alone[pairs[0]] + alone[pairs[1]]
    along = (p.u * (target[:, 0] * c + target[:, 1] * q)).sum(1)
    energy = (p.u * (c * c + q * q)).sum(1) + 1e-12
    best = np.maximum(along, 0.0) / energy
    cost = (p.u * (target**2).sum(1)).sum(1) - best * along
    for pair in np.argsort(cost)[:3]:
        rest = np.setdiff1d(np.arange(state.k), pairs[:, pair])
        shape = family.select(merged, [pair])
        out.append(state.select(rest).joined(centers[pair : pair + 1], shape, best[pair : pair + 1]))
    return out
