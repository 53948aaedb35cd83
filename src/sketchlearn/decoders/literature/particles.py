"""Particle gradient flow with pruning (Chizat and Bach 2018; Chizat 2022).

A measure of many particles flows down the misfit plus ``lambda`` times its mass, in the geometry of optimal transport
with creation of mass: places follow the gradient of the potential, masses shrink or grow exponentially with its value.
With enough particles the flow can't be trapped, in the limit; particles that lost their mass are pruned on the way,
those that met are merged, and in the end the k that matter most are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.literature import outcome
from sketchlearn.decoders.literature.sliding import noise_correlation
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.sketches.value import Sketch

_MASS_STEP, _PLACE_STEP = 1.0, 1.0  # in units of the largest curvature
_STRETCH = 50  # iterations between two prunings
_LIGHT = 1e-3  # of the mean mass: pruned
_CLOSE = 0.98  # correlation of atoms that are merged


def decode_particles(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    width: float | None = None,
    particles: int | None = None,
    steps: int = 500,
    polish: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres by a flow of particles.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    width : float, optional
        Standard deviation of a cluster in the units of the rows, 0 for points; by default what the sketch resolves.
    particles : int, optional
        How many there are at first, by default 10k and at least 50.
    steps : int
        Iterations of the flow.
    polish : bool
        End with a descent on all parameters.
    """
    count = max(10 * n_components, 50) if particles is None else particles
    if count < n_components or steps < 1:
        raise ValueError("there must be at least as many particles as clusters, and steps must be at least 1")
    problem = outcome.prepared(sketch, criterion)
    k, variance = n_components, outcome.envelope(problem, n_components, width)
    places, masses = rng.standard_normal((count, problem.dim)), np.full(count, 1.0 / count)
    strength = noise_correlation(problem, variance)
    for done in range(0, steps, _STRETCH):
        places, masses, value = _flow(problem, places, masses, variance, strength, min(_STRETCH, steps - done))
        places, masses = _pruned(problem, places, masses, variance, k)
        if trace is not None:
            trace.append({"step": done + _STRETCH, "components": len(places), "misfit": value})
    means, weights = outcome.reduced(problem, places, variance, k, rng)
    fit = outcome.descended(problem, means, weights, variance, width is None, polish)
    return outcome.solution(problem, fit, "particle flow", criterion, rng, rounds=steps, trace=trace)


def _flow(
    problem: Problem, places: Array, masses: Array, variance: float, strength: float, steps: int
) -> tuple[Array, Array, float]:
    """Some steps of the flow, explicit in time."""
    e2 = problem.u * np.exp(-variance * problem.operator.squared_norms)
    by_mass = _MASS_STEP / max(float(e2.sum()), 1e-30)
    by_place = _PLACE_STEP / max(float(e2 @ problem.operator.squared_norms) / problem.dim, 1e-30)
    value = np.inf
    for _ in range(steps):
        value, along, _, cross, _, _ = problem.value_and_products(places, variance, masses)
        potential = 0.5 * along + strength
        downhill = problem.operator.adjoint(cross)
        total = max(float(masses.sum()), 1e-12)
        masses = masses * np.exp(np.clip(-by_mass / total * potential, -1.0, 1.0))
        places = np.clip(places + by_place / total * downhill, *problem.box)
    return places, masses, value


def _pruned(problem: Problem, places: Array, masses: Array, variance: float, k: int) -> tuple[Array, Array]:
    """Particles with some mass; of those that have met, one with the mass of all at their centre."""
    heavy = np.argsort(-masses)
    heavy = heavy[masses[heavy] > _LIGHT * masses.mean()]
    if len(heavy) <= k:
        return places, masses
    gram, _ = problem.gram(places[heavy], variance)
    close = gram > _CLOSE * np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    free = np.ones(len(heavy), bool)
    new_places, new_masses = [], []
    for i in range(len(heavy)):
        if free[i]:
            group = heavy[close[i] & free]
            free &= ~close[i]
            new_masses.append(masses[group].sum())
            new_places.append(masses[group] @ places[group] / masses[group].sum())
    return np.array(new_places), np.array(new_masses)
