"""Alternating descent conditional gradient (Boyd, Schiebinger and Recht 2017) for a measure of given mass.

The misfit is minimised over all positive measures of mass 1.  A step of the conditional gradient method adds the atom
that correlates best with the residual; then the fully corrective part alternates: weights by non-negative least
squares, atoms without weight dropped, places down the gradient of the misfit.  The measure may hold more atoms than
clusters; at the end those that matter least are removed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.clompr import best_atom
from sketchlearn.decoders.literature import outcome
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.search import noise_floor, refine_shared, solve_weights
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.sketches.value import Sketch

_STEPS = 20  # of the descent of the places
_SWEEPS = 2  # alternations in a round
_GAIN = 0.995
_PATIENCE = 3


def decode_adcg(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    width: float | None = None,
    starts: int = 30,
    surplus: float = 1.0,
    polish: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres by conditional gradients with descent of the places.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    width : float, optional
        Standard deviation of a cluster in the units of the rows, 0 for points; by default what the sketch resolves.
    starts : int
        Places that the search for the next atom starts from.
    surplus : float
        Atoms the measure may hold beyond k, as a share of k.
    polish : bool
        End with a descent on all parameters.
    """
    if starts < 1 or surplus < 0:
        raise ValueError("starts must be at least 1 and surplus not negative")
    problem = outcome.prepared(sketch, criterion)
    k, variance = n_components, outcome.envelope(problem, n_components, width)
    most = k + int(np.ceil(surplus * k))
    damped = problem.u * np.exp(-0.5 * variance * problem.operator.squared_norms)  # atoms have this envelope
    means, weights = np.zeros((0, problem.dim)), np.zeros(0)
    least, waited, round_ = np.inf, 0, 0
    for round_ in range(1, 3 * most + 1):
        residual = problem.residual(means, variance, weights)
        near = np.clip(rng.standard_normal((starts, problem.dim)), *problem.box)
        atom = best_atom(problem.reweighted(damped), residual, near)
        means, weights, value = corrected(problem, np.vstack([means, atom]), variance)
        if trace is not None:
            trace.append({"round": round_, "components": len(means), "misfit": value})
        waited = 0 if value < _GAIN * least else waited + 1
        least = min(value, least)
        floor, deviation = noise_floor(problem, k, variance)
        if waited >= _PATIENCE or len(means) >= most or (len(means) >= k and value < floor * (1.0 + 2.0 * deviation)):
            break
    means, weights = outcome.reduced(problem, means, variance, k, rng)
    fit = outcome.descended(problem, means, weights, variance, width is None, polish)
    return outcome.solution(problem, fit, "alternating descent", criterion, rng, rounds=round_, trace=trace)


def corrected(problem: Problem, means: Array, variance: float) -> tuple[Array, Array, float]:
    """Weights and places in turn; atoms without weight are dropped."""
    value, weights = np.inf, np.zeros(len(means))
    for _ in range(_SWEEPS):
        weights = solve_weights(*problem.gram(means, variance))
        keep = weights > 1e-6 * weights.max(initial=0.0)
        if not keep.any():
            return means[:1], np.full(1, 1e-6), problem.energy
        means, weights, _, value = refine_shared(problem, means[keep], weights[keep], variance, False, _STEPS, 1.0)
    return means, weights, value
