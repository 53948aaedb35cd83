"""CL-AMP: simplified hybrid generalised approximate message passing (Byrne, Chatalic, Gribonval and Schniter 2019).

:mod:`sketchlearn.decoders.steps.messages` has the model and its messages.

What the published algorithm leaves open is settled like this.  Centres have a normal prior of the data's own width, so
nothing can diverge; the published one is flat.  Means and variances are damped, the information of the messages is kept
positive.  The noise is that of the sketch (:mod:`sketchlearn.decoders.noise`: sampling, releases, coarser features)
plus half of what the model leaves unexplained, which makes early messages cautious.  Phases that are uncertain by more
than four radians say nothing and are left out, so high frequencies join in as centres become known: a multi-scale
sketch anneals itself.  Weights move in the log domain and not before the centres have settled; rounds in which the
misfit rises are followed by slower ones.  Descents are tried in between (:mod:`sketchlearn.decoders.steps.amp`).
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.budget import RESTARTS
from sketchlearn.decoders.kmeans.published.outcome import decoder
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import ROUNDS, best_of_runs
from sketchlearn.decoders.steps.messages import Passing
from sketchlearn.words import counted


@decoder
def decode_amp(
    problem: Problem,
    k: int,
    rng: np.random.Generator,
    *,
    restarts: int = RESTARTS,
    rounds: int = ROUNDS,
    damping: float = 0.4,
    polish: bool | None = None,
    prior: str = "normal",
) -> tuple[State, int, str]:
    """Decode k centres by message passing.

    `restarts` is the number of runs from random centres, until one explains the sketch or two agree; `rounds` the EM
    steps of a run, each followed by ten iterations of messages; `damping` the share of the new value in every update,
    in (0, 1]: above 0.6 the messages tend to diverge.  With `polish` it ends with a descent on all parameters; by
    default unless most of the noise was added to the sketch: posterior means are then closer than the best fit.
    ``prior="flat", restarts=1, polish=False`` is the published form.
    """
    if prior not in ("normal", "flat"):
        raise ValueError(f"prior must be 'normal' or 'flat', not {prior!r}")
    if not 0 < damping <= 1:
        raise ValueError("damping must be in (0, 1]")
    passing = Passing(problem, k, rng, damping, flat=prior == "flat")
    best, runs = best_of_runs(passing, restarts, rounds, polish)
    return best, passing.iterations, f"CL-AMP ({counted(runs, 'run')})"
