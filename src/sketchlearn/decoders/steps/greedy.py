"""Greedy search for components of one width: rounds of residual mean-shift, pruning and refinement.

The model of the sketch is ``exp(-|w|^2 s/2) sum_l a_l exp(i w·c_l)``: points seen through one Gaussian envelope of
variance s.  The envelope makes all frequencies usable, so that one multi-scale sketch serves every scale; s must stay
frozen while components are missing, or it grows to explain them as one blob.

A round: particles climb the residual's correlation (batched mean-shift, coarse to fine), a few of the best are added,
all weights are refitted, components that matter least are pruned until k are left, and everything is refined.  Rounds
end when the misfit is at the noise floor: what sampling leaves after each cluster's own weight and mean have been
fitted, ``(1 - exp(-q)(1 + q)) / n`` with ``q = |w|^2 s``, and additive noise (:mod:`sketchlearn.decoders.noise`).

Many components are searched through windows of low frequencies first, and those that stand for several clusters are
split (:mod:`sketchlearn.decoders.steps.splits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise
from sketchlearn.decoders.budget import FEW_STEPS, PATIENCE, ROUNDS, STEPS, over
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.messages import propose
from sketchlearn.decoders.steps.refine import refine_shared
from sketchlearn.decoders.steps.splits import halves
from sketchlearn.decoders.steps.weights import completed, prune, reweighted
from sketchlearn.designs.kmeans import resolution_radius
from sketchlearn.features.operator import F32

_NOTHING = 1e-30  # masses below are rounding in float32
_SAME = 0.8  # correlation of two atoms from which on one is as good as the other
_GROWTH = 0.25  # of k: components added per round
MANY = 50  # components up to which peaks alone show all clusters, and searches from nothing explain as much
WINDOWS = (0.4, 0.75)  # of the radius that resolves k random clusters: low frequencies that show where some are
_COARSE, _IN_WINDOW = 0.05, 12  # gain of a round in a window, of the misfit, at least; rounds there at most
ENOUGH = 4.0  # frequencies per number of the model: the search looks at as many, with fewer it may fail


@dataclass(frozen=True, eq=False)
class Found:
    """Components of one width, and the noise floor of such a model.

    Attributes
    ----------
    state : State
        The components.
    floor, deviation : float
        Expected misfit of the right model, and its relative standard deviation.
    rounds : int
        Rounds of the search.
    """

    state: State
    floor: float
    deviation: float
    rounds: int

    @classmethod
    def of(cls, problem: Problem, state: State, rounds: int) -> Found:
        """A state with the noise floor that it has in a problem."""
        return cls(state, *problem.floor(state), rounds)

    @property
    def value(self) -> float:
        """Misfit."""
        return self.state.value

    @property
    def ratio(self) -> float:
        """Misfit over noise floor."""
        return self.state.value / self.floor

    @property
    def explained(self) -> bool:
        """The misfit is what sampling noise explains."""
        return self.ratio < 1.0 + noise.DEVIATIONS * self.deviation


def widest(problem: Problem, k: int) -> float:
    """Largest variance of k components of one width: four times what the sketch resolves."""
    return 4.0 / problem.effective_radius(k) ** 2


def search(
    problem: Problem,
    k: int,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    effort: int = 1,
    replacements: int = ROUNDS,
    coarse: bool = False,
) -> Found:
    """Find k components; `start` warm-starts from some means, `effort` multiplies the particles.

    `replacements` bounds the rounds after all components are there.  Searches that are `coarse` begin at low
    frequencies and split components, as those for many components always do.
    """
    many = coarse or k > MANY
    radius = problem.effective_radius(k)
    # of k round clusters of variance s, |z|^2 falls below exp(-2)/k at |w|^2 = 2/s
    first, largest = (2.0 if many else 1.0) / radius**2, widest(problem, k)
    rounds = _Rounds(k, rng, max(16, k) * effort, _levels(radius), largest, replacements, many)
    state = State.shared(np.zeros(0), np.zeros((0, problem.dim)), first)
    if start is None and effort == 1 and problem.drowned:
        # under additive noise of known size message passing finds centres that no residual shows
        start = propose(problem, k, rng)
    if start is None and many:
        for low in _windows(problem, k):
            if state.k:
                state = refine_shared(low, state, FEW_STEPS, free=False, largest=largest)
            state = rounds(low, state, first=True)
        start = state.means
    if start is not None and len(start):
        state = prune(problem, State.shared(np.zeros(len(start)), np.asarray(start, np.float64), first), k)
        full = state.k >= k
        # nothing is missing as long as a descent still improves: a thousand components take a hundred iterations
        state = refine_shared(problem, state, STEPS if full else 30, free=full, largest=largest)
    state = rounds(problem, state)
    state = refine_shared(problem, state, STEPS, free=True, largest=largest, lightest=1e-3)
    return Found(completed(state, k, rng), *problem.floor(state, k), rounds.count)


def _windows(problem: Problem, k: int) -> Iterator[Problem]:
    """The problem through Gaussian windows of low frequencies: two where the sketch is scarce, else the wider one."""
    scarce = problem.size < ENOUGH * k * (problem.dim + 1)
    for share in WINDOWS if scarce else WINDOWS[1:]:
        radius = share * resolution_radius(k, problem.dim)
        inside = np.flatnonzero(problem.radii < 2.0 * radius)
        if 2 * len(inside) > k * (problem.dim + 1):
            low = problem.subset(inside)
            yield low.reweighted(low.u * np.exp(-((low.radii / radius) ** 2)))


@dataclass
class _Rounds:
    """Rounds of a search: candidates, pruning, refinement."""

    k: int
    rng: np.random.Generator
    swarm: int
    levels: list[float]
    largest: float
    replacements: int
    splitting: bool
    count: int = 0

    def __call__(self, problem: Problem, state: State, first: bool = False) -> State:
        """Go on until the sketch is explained or nothing helps; the `first` ones look for a start, at a fixed width."""
        k, growing = self.k, 0
        full, failures, wider, replaced = state.k >= k, 0, 1, 0
        enough = _COARSE if first else 1e-3
        for _ in range(ROUNDS):
            if full and (problem.explains(state, k) or over("more rounds of the search")):
                break
            self.count += 1
            growing += not full
            candidates = self._candidates(problem, state, problem.residual(state), full, failures, wider)
            union = state.joined(candidates, state.shapes)
            if full and failures % 2 == 1:
                # let the candidates move before some component is pruned
                moved = reweighted(problem, union)
                if (moved.weights > 0).any():
                    moved = moved.select(moved.weights > 0)
                    union = refine_shared(problem, moved, FEW_STEPS, free=False, largest=self.largest)
            trial = prune(problem, union, k)
            done = trial.k >= k or full or growing > int(np.ceil(1 / _GROWTH)) + 3
            trial = refine_shared(
                problem, trial, (2 if done else 1) * FEW_STEPS, free=done and not first, largest=self.largest
            )
            if not full:
                state, full = trial, done
            elif trial.value < state.value * (1.0 - enough):
                state, failures, wider = trial, 0, 1
            else:
                failures += 1
                wider = min(2 * wider, 4)
            replaced += full
            if failures >= (1 if first else PATIENCE) or replaced > (_IN_WINDOW if first else self.replacements):
                break
        return state

    def _candidates(
        self, problem: Problem, state: State, residual: F32, full: bool, failures: int, wider: int
    ) -> Array:
        """Peaks of the residual; where components are many, halves of those that stand for several clusters."""
        k, variance = self.k, float(state.shapes[0])
        portion = int(np.ceil(_GROWTH * k))
        few = max(1, -(-portion // (1 + failures)), k - state.k)
        particles = _particles(problem, self.swarm * wider, state.means if full else None, variance, self.rng)
        particles = climb(problem, residual, variance, particles, self.levels, k)
        chosen = pick(problem, residual, variance, particles, few if full else min(portion, k - state.k))
        if not state.k:  # if nothing correlates with the sketch: start somewhere
            return chosen if len(chosen) else particles[:1]
        return np.concatenate([chosen, halves(problem, state, few)]) if self.splitting else chosen


def _levels(radius: float) -> list[float]:
    """Variances of the smoothing of the mean-shift, coarse to fine."""
    out, r = [], 1.2
    while r < radius * 1.01:
        out.append(1.0 / r**2)
        r *= 1.6
    return [*out, 0.0]


def _particles(problem: Problem, count: int, means: Array | None, variance: float, rng: np.random.Generator) -> Array:
    """Standard normal starting points; once there are k components, three in ten are near these."""
    points = rng.standard_normal((count, problem.dim))
    if means is not None:
        near = int(0.3 * count)
        width = 2.0 * np.sqrt(max(variance, 1e-8))
        points[:near] = means[rng.integers(len(means), size=near)] + width * points[:near]
        points = points[rng.permutation(count)]
    return points


def climb(
    problem: Problem, residual: F32, variance: float, points: Array, levels: list[float], k: int, steps: int = 3
) -> Array:
    """Batched mean-shift on the correlation with the residual; three groups start at different levels."""
    groups = min(3, len(levels))
    parts = [points[g::groups] for g in range(groups)]
    begin = [int(g * len(levels) / groups / 1.5) for g in range(groups)]
    r2, d = problem.operator.squared_norms, problem.dim
    envelope = np.exp(np.float32(-0.5 * variance) * r2)
    out = np.concatenate(parts).astype(np.float32)
    for level, tau in enumerate(levels):
        w = problem.u * envelope * np.exp(np.float32(-0.5 * tau) * r2)
        mass, curvature = float((w * envelope).sum()), float((w * envelope * r2).sum())
        if mass < _NOTHING or curvature < _NOTHING:
            continue  # nothing is seen at this width: the frequencies are all too high for it
        step = d * mass / curvature
        longest = 0.7 * np.sqrt(d * step)
        target = w * residual
        x = out[: sum(len(part) for part, first in zip(parts, begin, strict=True) if first <= level)]
        for _ in range(steps):
            height, gradient = problem.correlation(x, target)
            # the height of a peak is the weight it stands for: that of ordinary clusters, or of the best in sight
            expected = max(min(mass / k, max(float(height.max()), 1e-7 * mass)), _NOTHING)
            move = gradient * (step / np.maximum(height, 0.25 * expected))[:, None]
            norm = np.sqrt((move * move).sum(1))
            x += move * np.minimum(1.0, longest / np.maximum(norm, 1e-12))[:, None].astype(np.float32)
    return np.clip(out.astype(np.float64), *problem.box)


def pick(problem: Problem, residual: F32, variance: float, points: Array, count: int) -> Array:
    """Orthogonal matching pursuit over the points: up to `count` of them that explain the residual, none too close."""
    part, target = problem, residual
    if problem.large(len(points)):
        points = _apart(problem, residual, variance, points, 2 * count)
        part = replace(problem, z=residual).sampled(len(points))
        target = part.z
    gram, b = part.gram(State.shared(np.zeros(len(points)), points, variance), target)
    gram /= gram[0, 0]
    chosen: list[int] = []
    remaining, blocked = b.copy(), np.zeros(len(b), bool)
    for _ in range(count):
        i = int(np.argmax(np.where(blocked, -1.0, remaining)))
        if blocked[i] or remaining[i] <= 0:
            break
        chosen.append(i)
        blocked |= gram[:, i] > _SAME
        inner = gram[np.ix_(chosen, chosen)] + 1e-4 * np.eye(len(chosen))
        remaining = b - gram[:, chosen] @ np.linalg.solve(inner, b[chosen])
    return points[chosen]


def _apart(problem: Problem, residual: F32, variance: float, points: Array, count: int) -> Array:
    """The highest points of which none is as good as another.

    Many climb the same peak: distances show that without a Gram matrix.
    """
    r2 = problem.operator.squared_norms
    envelope = np.exp(np.float32(-0.5 * variance) * r2)
    height = problem.correlation(points, problem.u * envelope * residual)[0]
    e2 = problem.u * envelope * envelope
    # (atoms at a distance x correlate with 1 - |x|^2 E|w|^2 / 2d)
    near = 2.0 * (1.0 - _SAME) * problem.dim * float(e2.sum()) / float((e2 * r2).sum())
    chosen = [int(np.argmax(height))]
    free = height > 0
    while len(chosen) < count:
        free &= ((points - points[chosen[-1]]) ** 2).sum(1) > near
        if not free.any():
            break
        chosen.append(int(np.argmax(np.where(free, height, 0.0))))
    return points[chosen]
