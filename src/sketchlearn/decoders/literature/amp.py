"""CL-AMP: simplified hybrid generalised approximate message passing (Byrne, Chatalic, Gribonval and Schniter 2019).

The sketch at frequency w is ``sum_l a_l exp(i w·c_l - |w|^2 t_l / 2)`` plus noise.  Messages are means and variances:
of the projections ``w·c_l / |w|``, given what all other components leave of the sketch there (the output step, a sum
over a grid of phases, :mod:`sketchlearn.kernels.amp`), and of the coordinates of the centres, given all projections.
Weights and widths are tuned by EM between stretches of messages.

What the published algorithm leaves open is settled like this.  Centres have a normal prior of the data's own width, so
nothing can diverge.  Means and variances are damped, the information of the messages is kept positive.  The noise is
that of the sketch (:mod:`sketchlearn.decoders.noise`: sampling, releases, coarser features) plus half of what the model
leaves unexplained, which makes early messages cautious.  Phases that are uncertain by more than four radians say
nothing and are left out, so high frequencies join in as centres become known: a multi-scale sketch anneals itself.
Weights move in the log domain and not before the centres have settled; rounds in which the misfit rises are followed
by slower ones.  Most clusters are known long before the messages agree on all: a descent is tried early, and what it
misses is looked for at the peaks of the residual, so that the number of sweeps does not grow with k.  The state with
the smallest residual counts; while its misfit is above the noise, the messages start again, from some of what they
have found and then elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.literature import outcome
from sketchlearn.decoders.passing import Passing
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.refine import Fit, noise_floor
from sketchlearn.decoders.search import search
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.sketches.value import Sketch

RESTARTS, ROUNDS = 6, 40
_STAGES = 4, 8, 16  # rounds after which a descent is tried
_REPAIRS, _GAIN = 3, 0.98  # fruitless repairs before a new start, and their least gain
_REPLACEMENTS = 20  # rounds of the search for what a descent has missed
_BUDGET, _FEWEST, _MOST = 20_000, 600, 2000  # iterations times components before the last run, and iterations
_CROWDED = 3  # runs where most of the noise was added
_AGREE = 1.02  # two runs with residuals that close have found what there is


def decode_amp(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    restarts: int = RESTARTS,
    rounds: int = ROUNDS,
    damping: float = 0.4,
    polish: bool | None = None,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres by message passing.

    Parameters
    ----------
    sketch, n_components, rng
        What to decode, into how many clusters, and the randomness.
    criterion : {"means", "medians"}
        Squared or plain distances.
    restarts : int
        Runs from random centres, until one explains the sketch or two agree.
    rounds : int
        EM steps of a run, each followed by ten iterations of messages.
    damping : float
        Share of the new value in every update, in (0, 1]; above 0.6 the messages tend to diverge.
    polish : bool, optional
        End with a descent on all parameters; without it the result is that of the messages alone.  By default it is
        done unless most of the noise was added to the sketch: posterior means are then closer than the best fit.
    """
    if restarts < 1 or rounds < 1 or not 0 < damping <= 1:
        raise ValueError("restarts and rounds must be at least 1, damping must be in (0, 1]")
    problem = outcome.prepared(sketch, criterion)
    passing = Passing(problem, n_components, rng, damping)
    best, runs = best_of_runs(passing, restarts, rounds, polish, trace)
    name = f"CL-AMP ({runs} run{'s' * (runs > 1)})"
    return outcome.solution(problem, best, name, criterion, rng, rounds=passing.iterations, trace=trace)


def best_of_runs(
    passing: Passing,
    restarts: int = RESTARTS,
    rounds: int = ROUNDS,
    polish: bool | None = None,
    trace: list[dict[str, Any]] | None = None,
) -> tuple[Fit, int]:
    """The fit with the lowest misfit, and how many runs it took until one explained the sketch or two agreed."""
    problem = passing.problem
    drowned = noise.drowned(problem.n, problem.added)
    descend = not drowned if polish is None else polish
    best: Fit | None = None
    values: list[float] = []
    for _ in range(restarts):
        fit = _attempt(problem, passing, rounds, descend, trace)
        values.append(fit.value)
        if best is None or fit.value < best.value:
            best = fit
        # where noise was added, wrong centres can come near the floor: the lowest misfit of several runs counts
        enough = len(values) >= (_CROWDED if drowned else 1) and _explains(problem, best)
        agree = len(values) > 1 and sorted(values)[1] < _AGREE * min(values)
        if enough or (agree and not drowned) or _spent(passing):
            break
    assert best is not None
    return best, len(values)


def _attempt(problem: Problem, passing: Passing, rounds: int, descend: bool, trace: list[dict[str, Any]] | None) -> Fit:
    """A run from random centres, and others that forget some of what was found, while that helps."""
    if not descend:
        return passing.run(passing.somewhere(), rounds, trace)
    best = _staged(problem, passing, rounds, trace)
    failures = 0
    while failures < _REPAIRS and not _explains(problem, best) and not _spent(passing):
        fit = _descended(problem, passing.run(passing.released(best, failures), rounds, trace))
        failures = 0 if fit.value < _GAIN * best.value else failures + 1
        if fit.value < best.value:
            best = fit
    return best


def _staged(problem: Problem, passing: Passing, rounds: int, trace: list[dict[str, Any]] | None) -> Fit:
    """One run of the messages, which ends as soon as a descent from where they are explains the sketch.

    Long before the messages agree on all clusters they have most of them: the few that a descent misses stand out in
    the residual then, and are looked for where it has its peaks.
    """
    state = passing.somewhere()
    for stage in _STAGES:
        if stage >= rounds:
            break
        fit = _descended(problem, passing.run(state, stage - state.round, trace))
        if not _explains(problem, fit):
            fit = _searched(problem, fit, passing.rng)
        if _explains(problem, fit):
            return fit
    return _descended(problem, passing.run(state, rounds - state.round, trace))


def _descended(problem: Problem, fit: Fit) -> Fit:
    """A descent on all parameters, with one width first."""
    fit = outcome.descended(problem, fit.means, fit.weights, float(fit.weights @ fit.covariances))
    return outcome.with_own_widths(problem, fit)


def _searched(problem: Problem, fit: Fit, rng: np.random.Generator) -> Fit:
    """The fit, or a better one with some components replaced."""
    k = len(fit.means)
    found = search(problem, k, rng, start=fit.means, replacements=_REPLACEMENTS)
    other = Fit(found.means, np.maximum(found.weights, 0.0), np.full(k, max(found.variance, 1e-8)), found.value)
    other = outcome.with_own_widths(problem, other)
    return other if other.value < fit.value else fit


def _spent(passing: Passing) -> bool:
    """No other run is to begin."""
    return passing.iterations > min(max(_BUDGET // passing.k, _FEWEST), _MOST)


def _explains(problem: Problem, fit: Fit) -> bool:
    """The misfit is what noise leaves."""
    floor, deviation = noise_floor(problem, fit, "spherical")
    return fit.value < floor * (1.0 + 3.0 * deviation)
