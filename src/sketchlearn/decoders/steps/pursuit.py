"""Greedy pursuit over a family of atoms: CL-OMP, CL-OMPR and hierarchical splitting.

Keriven, Bourrier, Gribonval & Perez (2018), "Sketching for large-scale learning of mixture models"; Keriven (2017),
Algorithms 3, 4 and 6.  A round of CL-OMPR adds the normalised atom that correlates best with the residual (step 1),
drops the lightest beyond k (step 3), fits the weights by non-negative least squares (steps 2 and 4) and descends on
everything (step 5); there are 2k rounds, and k of CL-OMP.  Splitting doubles the components until there are k.  Kept as
published, with one addition that can be switched off: the choice of the best of a few candidates before each ascent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import STEPS
from sketchlearn.decoders.families import POINTS, Family
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.lbfgs import lbfgs
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.decoders.steps.weights import heaviest, reweighted
from sketchlearn.features.operator import F32

_INNER = 60  # iterations of a descent within the loop, and a tenth of those at the end

Places = Callable[[State], Array]
"""Where step 1 may start, given what was found so far."""
Explained = Callable[[State], bool]
"""Whether a state leaves no more than noise."""


def clompr(
    problem: Problem,
    family: Family,
    k: int,
    rng: np.random.Generator,
    candidates: int = 50,
    *,
    replacement: bool = True,
    refined: int = 1,
    smallest: float = 1e-6,
    largest: float = 4.0,
    places: Places | None = None,
    explained: Explained | None = None,
) -> State:
    """k components of a family, or as few as explain the problem.

    Parameters
    ----------
    problem, family, k, rng
        What to decode into how many components of which family, and the randomness.
    candidates : int
        Places among which an ascent starts (1: as published).
    replacement : bool
        CL-OMPR; False is CL-OMP.
    refined : int
        How many of the best candidates are refined by an ascent.
    smallest, largest : float
        Variances of a component.
    places : callable, optional
        Gives the candidates; by default normal ones of the data's width.
    explained : callable, optional
        Whether a state leaves no more than noise: a rule for stopping. Rounds then end at the first state that does,
        and components are taken away again, the lightest first, as long as it does without them.
    """
    d = problem.dim
    variance = first_variance(problem, k)
    shapes = family.rounded([variance], d)
    state = State(family, np.zeros(0), np.zeros((0, d)), shapes if family.shared else shapes[:0])
    limits: dict[str, Any] = {"smallest": smallest, "largest": largest}
    rounds = k * (2 if replacement else 1)
    for step in range(rounds):
        points = normal_places(problem, candidates, rng) if places is None else places(state)
        widths = variance * rng.uniform(0.5, 1.5, len(points))
        shapes = state.shapes if family.shared else family.rounded(widths, d)
        residual = problem.residual(state)
        state = state.joined(*ascend(problem, family, residual, points, shapes, refined=refined, **limits))
        if state.k > k:
            state = heaviest(problem, state, k)
        state = refine(
            problem, reweighted(problem, state), 10 * _INNER if step == rounds - 1 else _INNER, boxed=True, **limits
        )
        if explained is not None and explained(state):
            return _fewest(problem, state, explained, limits)
    return state


def _fewest(problem: Problem, state: State, explained: Explained, limits: dict[str, Any]) -> State:
    """A state that explains the problem, without the components that it can do without."""
    state = refine(problem, state, 10 * _INNER, boxed=True, **limits)
    while state.k > 1 and explained(state):
        rest = reweighted(problem, heaviest(problem, state, state.k - 1))
        rest = refine(problem, rest, 10 * _INNER, boxed=True, **limits)
        if not explained(rest):
            break
        state = rest
    return state


def splitting(
    problem: Problem,
    family: Family,
    k: int,
    place: Array,
    shape: Array,
    *,
    smallest: float = 1e-6,
    largest: float = 4.0,
    explained: Explained | None = None,
) -> State:
    """One component, then two, four, ... until there are k or enough, refitting after every doubling."""
    limits: dict[str, Any] = {"smallest": smallest, "largest": largest}
    state = refine(problem, State(family, np.ones(1), place, shape), _INNER, saddles=True, **limits)
    while state.k < k and not (explained is not None and explained(state)):
        step = _longest_axes(state)
        shapes = state.shapes if family.shared else np.concatenate([state.shapes, state.shapes])
        means = np.vstack([state.means - step, state.means + step])
        state = State(family, np.tile(state.weights / 2, 2), means, shapes)
        if state.k > k:
            state = heaviest(problem, state, k)
        state = reweighted(problem, state).revived()
        state = refine(problem, state, 10 * _INNER if state.k == k else _INNER, saddles=True, **limits)
    return state if explained is None else _fewest(problem, state, explained, limits)


def _longest_axes(state: State) -> Array:
    """One standard deviation along the longest axis of each component; round ones take the axes in turn, (k, d)."""
    values, vectors = np.linalg.eigh(state.covariances)
    axes = vectors[:, :, -1].copy()
    for l in np.flatnonzero(values[:, -1] - values[:, 0] <= 1e-9 * values[:, -1]):
        axes[l] = np.eye(state.dim)[l % state.dim]
    return np.asarray(axes * np.sqrt(np.maximum(values[:, -1:], 0.0)))


def normal_places(problem: Problem, count: int, rng: np.random.Generator) -> Array:
    """Normal points of the data's own width, in its box."""
    return np.clip(problem.spread * rng.standard_normal((count, problem.dim)), *problem.box)


def first_variance(problem: Problem, k: int) -> float:
    """A first variance of a component, from where |z|^2 falls to exp(-2)/k."""
    strong = problem.power - problem.added >= np.exp(-2.0) / k
    return 2.0 / float(np.quantile(problem.radii[strong], 0.9) if strong.any() else problem.radii.min()) ** 2


def best_point(problem: Problem, residual: F32, points: Array) -> Array:
    """The point whose atom correlates best with the residual: all candidates scored, three refined."""
    shapes = POINTS.rounded(np.ones(len(points)), problem.dim)
    return ascend(problem, POINTS, residual, points, shapes, refined=3, smallest=0.0, largest=1.0)[0][0]


def ascend(
    problem: Problem,
    family: Family,
    residual: F32,
    points: Array,
    shapes: Array,
    *,
    smallest: float,
    largest: float,
    refined: int = 1,
) -> tuple[Array, Array]:
    """A local maximum of the correlation of a normalised atom with the residual (Keriven 2017, eq. 4.14)."""
    d, operator, u = problem.dim, problem.operator, problem.u
    target = u * residual
    cosine, sine, _ = problem.atoms(State(family, np.zeros(len(points)), points, shapes))
    scores = (cosine @ target[0] + sine @ target[1]) / np.sqrt((cosine**2 + sine**2) @ u)
    frozen = family.shared or not family.boxed or not family.numbers(d)
    low, high = (np.zeros(0), np.zeros(0)) if frozen else (side.ravel() for side in family.bounds(d, smallest, largest))
    lower, upper = np.append(problem.box[0], low), np.append(problem.box[1], high)
    unit_c = 1.0 / np.sqrt(float(u @ operator.squared_norms) / d)
    scale = max(float(np.abs(scores).max()), 1e-12)
    best, top = None, -np.inf
    for i in np.argsort(-scores)[:refined]:
        shape = shapes if family.shared else shapes[i : i + 1]
        start = np.clip(np.append(points[i], np.zeros(0) if frozen else shape.ravel()), lower, upper)
        unit = np.append(np.full(d, unit_c), np.maximum(np.abs(start[d:]), 0.1 * unit_c))

        def objective(v: Array, unit: Array = unit, shape: Array = shape) -> tuple[float, Array]:
            x = v * unit
            own = shape if frozen else x[d:].reshape(shape.shape)
            damping = np.asarray(family.damping(own, operator), np.float64)[0]
            phases, envelope = operator.forward(x[None, :d])[0], np.exp(damping)
            cosine, sine = envelope * np.cos(phases), envelope * np.sin(phases)
            norm = float(np.sqrt(u @ envelope**2))
            along, across = target[0] * cosine + target[1] * sine, target[1] * cosine - target[0] * sine
            height = float(along.sum()) / norm
            gradient = np.empty(len(v))
            gradient[:d] = operator.adjoint(across[None])[0] / norm
            if not frozen:
                pull = along / norm - height * u * envelope**2 / norm**2
                gradient[d:] = np.asarray(family.damping_vjp(own, operator, pull[None])).ravel()
            return -height / scale, -gradient * unit / scale

        v, value, _ = lbfgs(objective, start / unit, lower / unit, upper / unit, STEPS, 10, 1e-9)
        if -value > top:
            x, top = v * unit, -value
            best = x[None, :d], shape if frozen else x[d:].reshape(shape.shape)
    assert best is not None
    return best
