"""Hierarchical splitting (Keriven et al. 2017, Algorithm 6) for clustering: Gaussians split in two until there are k.

Each round splits every component along its widest axis, keeps the k heaviest if there are more, and refines
all of them; log2(k) rounds instead of 2k, so it is the fast choice among the published decoders for many
clusters, with somewhat lower quality.  Covariances are diagonal; their means are the centres.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.families import DIAGONAL
from sketchlearn.decoders.kmeans.published.outcome import decoder
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.pursuit import best_point, splitting


@decoder
def decode_splitting(
    problem: Problem, k: int, rng: np.random.Generator, *, starts: int = 20, replicates: int = 1
) -> tuple[State, int, str]:
    """Decode k components by splitting; `starts` candidates for the first one, best of `replicates` runs."""
    widest = max(4.0, float(4.0 * np.max(np.ptp(np.stack(problem.box), axis=0)) ** 2))

    def run() -> State:
        place = best_point(problem, problem.z, rng.uniform(*problem.box, size=(starts, problem.dim)))
        shape = DIAGONAL.rounded([1.0], problem.dim)
        return splitting(problem, DIAGONAL, k, place[None], shape, largest=widest)

    state = min((run() for _ in range(replicates)), key=lambda found: found.value)
    rounds = int(np.ceil(np.log2(max(k, 2))))
    return state, rounds, f"splitting ({starts} starts, {replicates} replicates)"
