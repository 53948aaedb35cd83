"""Search for the components: rounds of residual mean-shift, pruning and refinement with a shared width.

The model of the sketch is ``exp(-|w|^2 s/2) sum_l a_l exp(i w·c_l)``: points seen through one Gaussian
envelope of variance s.  The envelope makes all frequencies usable, so that one multi-scale sketch serves
every scale; s must stay frozen while components are missing, or it grows to explain them as one blob.

A round: particles climb the residual's correlation (batched mean-shift, coarse to fine), a few of the
best are added, all weights are refitted (NNLS), components that matter least are removed (optimal brain
surgeon) until k are left, and everything is refined by L-BFGS.  Rounds end when the misfit is at the noise
floor: what sampling leaves after each cluster's own weight and mean have been fitted,
``(1 - exp(-q)(1 + q)) / n`` with ``q = |w|^2 s``, and the noise that was added (:mod:`sketchlearn.decoders.noise`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from sketchlearn.decoders import noise
from sketchlearn.decoders.lbfgs import lbfgs
from sketchlearn.decoders.passing import Passing
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.features.operator import F32

_NOTHING = 1e-30  # masses below are rounding in float32
_GROW_FRACTION = 0.25  # of k: components added per round
_REFINE = 15  # L-BFGS iterations per round
_PATIENCE = 4  # rounds without progress before giving up
_STOP = 2.0  # standard deviations above the floor at which the search stops


@dataclass
class Found:
    """State of the search, in normalised units."""

    means: Array
    weights: Array
    variance: float
    value: float
    floor: float
    deviation: float
    rounds: int

    @property
    def ratio(self) -> float:
        """Misfit over noise floor."""
        return self.value / self.floor

    @property
    def certified(self) -> bool:
        """The misfit is what sampling noise explains."""
        return self.ratio < 1.0 + 3.0 * self.deviation


def left_over(problem: Problem, variance: float) -> Array:
    """Variance of a row at each frequency, given the weights and means of clusters of one width."""
    return noise.left_by_gaussian(problem.operator.squared_norms.astype(np.float64) * variance)


def noise_floor(problem: Problem, k: int, variance: float) -> tuple[float, float]:
    """Expected misfit of the right model, and its relative standard deviation."""
    return noise.noise_floor(problem, left_over(problem, variance), k * problem.dim + k + 1)


def search(
    problem: Problem,
    k: int,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    effort: int = 1,
    replacements: int = 20,
    trace: list[dict[str, Any]] | None = None,
) -> Found:
    """Find k components; `start` warm-starts from some means."""
    radius = problem.effective_radius(k)
    first, largest = 1.0 / radius**2, 4.0 / radius**2
    levels = _levels(radius)
    swarm = max(16, k) * effort
    portion = int(np.ceil(_GROW_FRACTION * k))
    d = problem.dim
    means, weights, variance = np.zeros((0, d)), np.zeros(0), first
    best: float | None = None
    if start is None and effort == 1 and noise.drowned(problem.n, problem.added):
        # under noise of known size messages find centres that no residual shows
        start = Passing(problem, k, rng).run_somewhere()
    if start is not None and len(start):
        means, weights = prune(problem, np.asarray(start, np.float64), first, k)
        means, weights, variance, value = refine_shared(problem, means, weights, first, len(means) >= k, 30, largest)
        best = value if len(means) >= k else None
    failures, wider, full_rounds, round_ = 0, 1, 0, 0
    floor, deviation = noise_floor(problem, k, variance)
    for round_ in range(1, int(12 / _GROW_FRACTION) + replacements + 1):
        if best is not None and best < floor * (1.0 + _STOP * deviation):
            break
        full = best is not None
        residual = problem.residual(means, variance, weights)
        particles = _particles(problem, swarm * wider, means if full else None, variance, rng)
        particles = climb(problem, residual, variance, particles, levels, k)
        count = max(1, -(-portion // (1 + failures)), k - len(means)) if full else min(portion, k - len(means))
        union = np.vstack([means, pick(problem, residual, variance, particles, count)])
        if not len(union):  # nothing correlates with the sketch: start somewhere
            union = particles[:1]
        if full and failures % 2 == 1:
            # give the newcomers a chance to move before somebody must go
            a = solve_weights(*problem.gram(union, variance))
            if (a > 0).any():
                union = refine_shared(problem, union[a > 0], a[a > 0], variance, False, _REFINE, largest)[0]
        new_means, new_weights = prune(problem, union, variance, k)
        free = len(new_means) >= k or full or round_ > int(np.ceil(1 / _GROW_FRACTION)) + 3
        steps = 2 * _REFINE if free else _REFINE
        new = refine_shared(problem, new_means, new_weights, variance, free, steps, largest)
        accepted = best is None or new[3] < best * (1.0 - 1e-3)
        if best is None:
            means, weights, variance = new[:3]
            best = new[3] if free else None
        elif accepted:
            means, weights, variance, best = new
            failures, wider = 0, 1
        else:
            failures += 1
            wider = min(2 * wider, 4)
        if trace is not None:
            trace.append({"round": round_, "components": len(means), "misfit": new[3], "accepted": accepted})
        if best is not None:
            full_rounds += 1
            floor, deviation = noise_floor(problem, k, variance)
            if failures >= _PATIENCE or full_rounds > replacements:
                break
    means, weights, variance, value = refine_shared(problem, means, weights, variance, True, 100, largest, 1e-3)
    floor, deviation = noise_floor(problem, k, variance)
    if len(means) < k:
        # fewer distinct components than asked for: the rest are copies without weight
        extra = rng.integers(len(means), size=k - len(means))
        means = np.vstack([means, means[extra] + 1e-3 * rng.standard_normal((len(extra), d))])
        weights = np.append(weights, np.zeros(len(extra)))
    return Found(means, weights, variance, value, floor, deviation, round_)


def _levels(radius: float) -> list[float]:
    """Variances of the smoothing of the mean-shift, coarse to fine."""
    out, r = [], 1.2
    while r < radius * 1.01:
        out.append(1.0 / r**2)
        r *= 1.6
    return [*out, 0.0]


def _particles(problem: Problem, count: int, means: Array | None, variance: float, rng: np.random.Generator) -> Array:
    """Standard normal starting points; once the model is full, a third of them near its components."""
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
    gram, b = problem.gram(points, variance, residual)
    gram /= gram[0, 0]
    chosen: list[int] = []
    remaining, blocked = b.copy(), np.zeros(len(b), bool)
    for _ in range(count):
        i = int(np.argmax(np.where(blocked, -1.0, remaining)))
        if blocked[i] or remaining[i] <= 0:
            break
        chosen.append(i)
        blocked |= gram[:, i] > 0.8
        inner = gram[np.ix_(chosen, chosen)] + 1e-4 * np.eye(len(chosen))
        remaining = b - gram[:, chosen] @ np.linalg.solve(inner, b[chosen])
    return points[chosen]


def solve_weights(gram: Array, b: Array) -> Array:
    """Non-negative least squares from a Gram matrix."""
    g = gram + np.eye(len(b)) * (1e-6 * np.trace(gram) / len(b))
    try:
        lower = np.linalg.cholesky(g)
        return nnls(lower.T, np.linalg.solve(lower, b), maxiter=10 * len(b) + 50)[0]
    except (RuntimeError, np.linalg.LinAlgError):
        return np.maximum(np.linalg.lstsq(g, b, rcond=None)[0], 0.0)


def prune_indices(gram: Array, b: Array, k: int) -> tuple[npt.NDArray[np.intp], Array]:
    """Remove components one by one, each time the one whose removal costs least, until k are left."""
    a = solve_weights(gram, b)
    keep = np.flatnonzero(a > 1e-8 * max(a.max(initial=0.0), 1e-12))
    if len(keep) == 0:
        keep = np.argsort(-b)[:1]
    while True:
        g = gram[np.ix_(keep, keep)]
        inverse = np.linalg.inv(g + (1e-6 * np.trace(g) / len(keep)) * np.eye(len(keep)))
        a = inverse @ b[keep]
        if len(keep) <= k:
            return keep, a if (a > 0).all() else solve_weights(g, b[keep])
        keep = np.delete(keep, np.argmin(np.where(a > 0, a * a / np.diag(inverse), -1.0)))


def prune(problem: Problem, means: Array, variance: float, k: int) -> tuple[Array, Array]:
    """The at most k components that matter most, with their weights."""
    keep, weights = prune_indices(*problem.gram(means, variance), k)
    return means[keep], weights


def refine_shared(
    problem: Problem,
    means: Array,
    weights: Array,
    variance: float,
    free: bool,
    steps: int,
    largest: float,
    lightest: float = 0.1,
) -> tuple[Array, Array, float, float]:
    """L-BFGS over means, weights and (if `free`) the shared variance, scaled by the Gauss-Newton diagonal.

    Components lighter than `lightest` times the average move as if they weighed that much.
    """
    k, d = means.shape
    r2 = problem.operator.squared_norms
    e2 = problem.u * np.exp(-r2 * np.float32(variance))
    s0, s1 = float(e2.sum()), float((e2 * r2).sum()) / d
    power = problem.z[0] ** 2 + problem.z[1] ** 2
    s2 = float((problem.u * r2**2) @ power) / 4.0
    a = np.maximum(weights, lightest * max(float(weights.mean()), 1e-6))
    unit_a, unit_c = 1.0 / np.sqrt(s0), (1.0 / (a * np.sqrt(s1)))[:, None]
    unit_s = 1.0 / np.sqrt(max(s2, 1e-12))
    # tolerances are relative to this: it must not exceed what is left to gain
    unit_f = min(1e-3 * problem.energy, max(_misfit(problem, means, variance, weights), 1e-300))

    def unpack(v: Array) -> tuple[Array, Array, float]:
        s = float(v[-1] * unit_s) if free else variance
        return v[: k * d].reshape(k, d) * unit_c, v[k * d : k * d + k] * unit_a, s

    gradient = np.empty(k * d + k + free)
    slopes = gradient[: k * d].reshape(k, d)

    def fun(v: Array) -> tuple[float, Array]:
        c, w, s = unpack(v)
        value, spread, along, pull = problem.shared_width(c, s, w)
        np.multiply(pull, (-2.0 / unit_f) * w[:, None] * unit_c, out=slopes)
        np.multiply(along, -2.0 / unit_f * unit_a, out=gradient[k * d : k * d + k])
        if free:
            gradient[-1] = spread * unit_s / unit_f
        return value / unit_f, gradient

    low, high = (np.broadcast_to(b, (k, d)) / unit_c for b in problem.box)
    lower = np.concatenate([low.ravel(), np.zeros(k + free)])
    upper = np.concatenate([high.ravel(), np.full(k, np.inf), [largest / unit_s] * free])
    v0 = np.concatenate([(means / unit_c).ravel(), weights / unit_a, [variance / unit_s] * free])
    v = lbfgs(fun, np.clip(v0, lower, upper), lower, upper, steps, tolerance=1e-6)
    c, w, s = unpack(v[0])
    return c, w, s, v[1] * unit_f


def _misfit(problem: Problem, means: Array, variance: float, weights: Array) -> float:
    r = problem.residual(means, variance, weights)
    return float(problem.u @ (r[0] ** 2 + r[1] ** 2))
