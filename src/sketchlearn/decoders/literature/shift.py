"""Sketch-and-shift (Belhadji and Gribonval 2024): mean-shift on the density that a sketch describes.

The residual's correlation with an atom, as a function of place, is a smoothed density of the rows less what has been
explained: its modes are clusters.  The published form repeats: many points climb to the modes at once (mean-shift, a
fixed-point iteration without a step size), the heaviest that are apart become atoms, weights are fitted by
non-negative least squares, and the residual is climbed again, until k atoms are there; then all of them climb once
more, each on what the others leave.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.literature import outcome
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.search import climb, pick, solve_weights
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.sketches.value import Sketch

_COARSEST = 0.5  # variance of the first smoothing, in units of the data's own
_SHIFTS = 12  # mean-shift steps of a sweep, at each smoothing
_SWEEPS = 6  # last sweeps over all atoms


def decode_shift(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    width: float | None = None,
    starts: int = 30,
    polish: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres as modes of the sketched density.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    width : float, optional
        Standard deviation of a cluster in the units of the rows, 0 for points; by default what the sketch resolves.
    starts : int
        Points per missing cluster that climb in a round.
    polish : bool
        End with a descent on all parameters.
    """
    if starts < 1:
        raise ValueError("starts must be at least 1")
    problem = outcome.prepared(sketch, criterion)
    k, variance = n_components, outcome.envelope(problem, n_components, width)
    levels = [_COARSEST, np.sqrt(_COARSEST * variance), 0.0] if 0 < variance < _COARSEST else [_COARSEST, 0.0]
    means, weights = np.zeros((0, problem.dim)), np.zeros(0)
    rounds = 0
    while len(means) < k and rounds < 3 * k + 3:
        rounds += 1
        residual = problem.residual(means, variance, weights)
        points = rng.standard_normal((min(starts * (k - len(means)), 4096), problem.dim))
        modes = climb(problem, residual, variance, points, levels, k, steps=_SHIFTS)
        found = pick(problem, residual, variance, modes, -(-(k - len(means)) // 2))
        if not len(found):
            break
        means, weights = _fitted(problem, np.vstack([means, found]), variance, k)
        if trace is not None:
            trace.append({"round": rounds, "components": len(means)})
    means, weights = _swept(problem, means, weights, variance, k)
    means, weights = outcome.reduced(problem, means, variance, k, rng)
    fit = outcome.descended(problem, means, weights, variance, width is None, polish)
    return outcome.solution(problem, fit, "sketch-and-shift", criterion, rng, rounds=rounds, trace=trace)


def _fitted(problem: Problem, means: Array, variance: float, k: int) -> tuple[Array, Array]:
    """Atoms with a weight, by non-negative least squares: the k heaviest at most."""
    weights = solve_weights(*problem.gram(means, variance))
    order = np.argsort(-weights)[:k]
    keep = np.sort(order[weights[order] > 1e-3 * weights.max(initial=0.0)])
    return means[keep], solve_weights(*problem.gram(means[keep], variance))


def _swept(problem: Problem, means: Array, weights: Array, variance: float, k: int) -> tuple[Array, Array]:
    """Every atom climbs what the others leave of the sketch, a few times."""
    for _ in range(_SWEEPS if len(means) else 0):
        for l in range(len(means)):
            others = np.delete(np.arange(len(means)), l)
            left = problem.residual(means[others], variance, weights[others])
            means[l] = climb(problem, left, variance, means[l : l + 1], [0.0], k, steps=2)[0]
        weights = solve_weights(*problem.gram(means, variance))
    return means, weights
