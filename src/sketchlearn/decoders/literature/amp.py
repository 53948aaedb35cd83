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
Weights move in the log domain and not before the centres have settled.  The state with the smallest residual counts;
a descent polishes it, and while its misfit is above the noise, the messages start again elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.literature import outcome
from sketchlearn.decoders.passing import Passing, State
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.refine import Fit, noise_floor
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.sketches.value import Sketch

_REPAIRS, _GAIN = 3, 0.98  # fruitless repairs before a new start, and their least gain
_BUDGET = 2000  # iterations after which no other run begins
_NEAR = 1.5  # misfit over noise at which messages end and the descent begins
_CROWDED = 3  # runs where most of the noise was added
_AGREE = 1.02  # two runs with residuals that close have found what there is


def decode_amp(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    restarts: int = 6,
    rounds: int = 40,
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
    drowned = noise.drowned(problem.n, problem.added)
    descend = not drowned if polish is None else polish
    best: Fit | None = None
    values: list[float] = []
    runs = 0
    for _ in range(restarts):
        fit, made = _repaired(problem, passing, rounds, descend, trace)
        runs += made
        values.append(fit.value)
        if best is None or fit.value < best.value:
            best = fit
        # where noise was added, wrong centres can come near the floor: the lowest misfit of several runs counts
        enough = len(values) >= (_CROWDED if drowned else 1) and _explains(problem, best)
        agree = len(values) > 1 and sorted(values)[1] < _AGREE * min(values)
        if enough or (agree and not drowned) or passing.iterations > _BUDGET:
            break
    assert best is not None
    name = f"CL-AMP ({runs} run{'s' * (runs > 1)})"
    return outcome.solution(problem, best, name, criterion, rng, rounds=passing.iterations, trace=trace)


def _repaired(
    problem: Problem, passing: Passing, rounds: int, descend: bool, trace: list[dict[str, Any]] | None
) -> tuple[Fit, int]:
    """A run from random centres, and others that forget some of what the best one found while that helps."""
    best = _run(problem, passing, passing.somewhere(), rounds, descend, trace)
    runs, failures = 1, 0
    while descend and failures < _REPAIRS and not _explains(problem, best) and passing.iterations <= _BUDGET:
        fit = _run(problem, passing, passing.released(best, failures), rounds, descend, trace)
        runs += 1
        failures = 0 if fit.value < _GAIN * best.value else failures + 1
        if fit.value < best.value:
            best = fit
    return best, runs


def _run(
    problem: Problem, passing: Passing, begin: State, rounds: int, descend: bool, trace: list[dict[str, Any]] | None
) -> Fit:
    fit = passing.run(begin, rounds, trace, near=_NEAR if descend else 0.0)
    if descend:
        fit = outcome.descended(problem, fit.means, fit.weights, float(fit.weights @ fit.covariances))
        fit = outcome.with_own_widths(problem, fit)
    return fit


def _explains(problem: Problem, fit: Fit) -> bool:
    """The misfit is what noise leaves."""
    floor, deviation = noise_floor(problem, fit, "spherical")
    return fit.value < floor * (1.0 + 3.0 * deviation)
