"""CL-OMP and CL-OMPR for points (Keriven et al. 2017, Algorithms 3 and 4), with a multi-start atom search.

Greedy: the atom that correlates best with the residual is added (step 1: several candidates, the best
ones refined by gradient ascent in the box), weights by non-negative least squares (steps 2-4), then a joint
descent over all atoms and weights (step 5).  CL-OMPR runs 2k rounds; after the k-th, each round adds one
atom and removes the one with the smallest weight.  Atoms are points, so the scale of the feature map must
suit the data: this is what the tuning-free decoder does away with.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.families import POINTS
from sketchlearn.decoders.kmeans.partition import Partition
from sketchlearn.decoders.kmeans.published import outcome
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.decoders.state import LIGHTEST, State
from sketchlearn.decoders.steps.pursuit import clompr
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

INITS = ("uniform", "gaussian", "sample", "k++")


@decoder
def decode_clompr(
    sketch: Sketch,
    k: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    replacement: bool = True,
    init: str = "uniform",
    starts: int = 20,
    replicates: int = 1,
    sample: Array | None = None,
) -> ClusterSolution:
    """Decode k points greedily.

    Parameters
    ----------
    criterion : {"means", "medians"}
        Only for the reported cost: the points themselves are the centres.
    replacement : bool
        CL-OMPR (2k rounds); False is CL-OMP (k rounds).
    init : {"uniform", "gaussian", "sample", "k++"}
        Where step 1 starts: in the box, from a normal law of the data's mean and width, at rows of
        `sample`, or at rows of `sample` far from the points found so far.
    starts : int
        Candidates per step 1; one is the published choice and a known weakness.
    replicates : int
        Whole runs, of which the one with the smallest residual is kept.
    sample : array (n, d), optional
        Rows for ``init="sample"`` and ``"k++"``.
    """
    if init not in INITS:
        raise ValueError(f"init={init!r}: choose one of {', '.join(INITS)}")
    if init in ("sample", "k++") and sample is None:
        raise ValueError(f"init={init!r} needs rows: pass sample=")
    outcome.check_counts({"starts": starts, "replicates": replicates})
    alike = 1.0 / characteristic(sketch.features).importance_weights ** 2
    problem = outcome.prepared(sketch, criterion).reweighted(alike)
    rows = None if sample is None else problem.normalised(sample)

    def places(state: State) -> Array:
        return _candidates(problem, state.means, rng, init, starts, rows)

    def run() -> State:
        return clompr(problem, POINTS, k, rng, replacement=replacement, refined=3, places=places)

    state = min((run() for _ in range(replicates)), key=lambda found: found.value)
    mixture = state.with_weights(np.maximum(state.weights, LIGHTEST)).mixture()
    # points have no width of their own: what their spread doesn't explain of the total variance is the cost
    within = max(problem.dim - float(mixture.weights @ ((mixture.means - mixture.mean) ** 2).sum(1)), 0.0)
    return outcome.solution(
        problem,
        state,
        f"CL-OMP{'R' * replacement} ({init} starts, {starts} candidates, {replicates} replicates)",
        criterion,
        rng,
        rounds=k * (2 if replacement else 1),
        floor=noise.sketch_floor(problem, problem.power),
        cells=Partition(state.means, mixture.weights, within if criterion == "means" else float(np.sqrt(within))),
        judge=verdicts.of_points,
    )


def _candidates(
    problem: Problem, means: Array, rng: np.random.Generator, init: str, starts: int, rows: Array | None
) -> Array:
    low, high = problem.box
    if init == "uniform" or (rows is None and init != "gaussian"):
        return rng.uniform(low, high, size=(starts, problem.dim))
    if init == "gaussian" or rows is None:
        return np.clip(rng.standard_normal((starts, problem.dim)), low, high)
    if init == "k++" and len(means):
        far = np.min(((rows[:, None] - means[None]) ** 2).sum(2), axis=1)
        if far.sum() > 0:
            return rows[rng.choice(len(rows), size=starts, p=far / far.sum())]
    return rows[rng.integers(len(rows), size=starts)]
