"""Particle gradient flow with pruning (Chizat and Bach 2018; Chizat 2022).

A measure of many particles flows down the misfit plus ``lambda`` times its mass, in the geometry of optimal transport
with creation of mass: places follow the gradient of the potential, masses shrink or grow exponentially with its value.
With enough particles the flow can't be trapped, in the limit; particles that lost their mass are pruned on the way,
those that met are merged, and in the end the k that matter most are kept.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.families import SHARED
from sketchlearn.decoders.kmeans.published.outcome import LIGHT, published
from sketchlearn.decoders.kmeans.published.sliding import noise_correlation
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State


@published("particle flow")
def decode_particles(
    problem: Problem,
    k: int,
    variance: float,
    rng: np.random.Generator,
    *,
    particles: int | None = None,
    steps: int = 500,
) -> tuple[State, int]:
    """Decode k centres by a flow of particles.

    `particles` is how many there are at first, by default 10k and at least 50; `steps` the iterations of the flow.
    """
    count = max(10 * k, 50) if particles is None else particles
    if count < k:
        raise ValueError("there must be at least as many particles as clusters")
    state = State.shared(np.full(count, 1.0 / count), rng.standard_normal((count, problem.dim)), variance)
    strength = noise_correlation(problem, variance)
    for done in range(0, steps, 50):
        state = _pruned(problem, _flow(problem, state, strength, min(50, steps - done)), k)
    return state, steps


def _flow(problem: Problem, state: State, strength: float, steps: int) -> State:
    """Some steps of the flow, explicit in time, each one over the largest curvature."""
    variance = float(state.shapes[0])
    e2 = problem.u * np.exp(-variance * problem.operator.squared_norms)
    by_mass = 1.0 / max(float(e2.sum()), 1e-30)
    by_place = 1.0 / max(float(e2 @ problem.operator.squared_norms) / problem.dim, 1e-30)
    places, masses, value = state.means, state.weights, np.inf
    for _ in range(steps):
        value, _, along, pull = problem.shared_width(places, variance, masses)
        total = max(float(masses.sum()), 1e-12)
        masses = masses * np.exp(np.clip(-by_mass / total * (strength - along), -1.0, 1.0))
        places = np.clip(places + by_place / total * pull, *problem.box)
    return State(SHARED, masses, places, state.shapes, value)


def _pruned(problem: Problem, state: State, k: int) -> State:
    """Particles with some mass; of those that have met, one with the mass of all at their centre."""
    places, masses = state.means, state.weights
    heavy = np.argsort(-masses)
    heavy = heavy[masses[heavy] > LIGHT * masses.mean()]
    if len(heavy) <= k:
        return state
    gram, _ = problem.gram(state.select(heavy))
    close = gram > 0.98 * np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    free = np.ones(len(heavy), bool)
    new_places, new_masses = [], []
    for i in range(len(heavy)):
        if free[i]:
            group = heavy[close[i] & free]
            free &= ~close[i]
            new_masses.append(masses[group].sum())
            new_places.append(masses[group] @ places[group] / masses[group].sum())
    return State(SHARED, np.array(new_masses), np.array(new_places), state.shapes, state.value)
