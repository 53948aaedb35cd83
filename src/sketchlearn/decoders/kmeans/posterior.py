"""Centres where noise hides them: k-means on what is believed of the rows, not on the mixture that fits best.

Centres of the least expected cost are those of k-means on rows as they are to be expected given the sketch: draws from
all mixtures that could be behind it, each as often as it is likely.  Where the sketch determines the mixture that is
the best fit.  Where noise was added and the errors of the centres are as large as the clusters, the best fit has
followed the noise: its centres are too far apart, and it commits itself to one of several ways of explaining the
sketch.  Two runs of message passing (:mod:`sketchlearn.decoders.steps.messages`), which end in posterior means, stand
for the others: one that begins at the fit, and the best of some that know nothing of it.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.budget import FEW_STEPS, PATIENCE
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import best_of_runs
from sketchlearn.decoders.steps.messages import Passing
from sketchlearn.models.mixture import Mixture


def believed(problem: Problem, mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """A mixture of round components that fits a sketch with much noise, and others that are as likely, pooled."""
    k = mixture.n_components
    passing = Passing(problem, k, rng)
    other, _ = best_of_runs(passing, PATIENCE)
    state = passing.known(mixture.weights, mixture.means, float(mixture.weights @ mixture.variances()) / mixture.dim)
    nearest = passing.run(state, FEW_STEPS)
    # the state with the smallest misfit is close to the fit: where messages settle is what they believe
    runs = [passing.fit(state), other]
    limit = nearest.value * (1.0 + noise.DEVIATIONS * problem.floor(nearest)[1])
    return pooled([run for run in runs if run.value < limit] or [nearest])


def pooled(states: list[State]) -> Mixture:
    """All components of some states, each state with the same weight."""
    parts = [state.mixture() for state in states]
    return Mixture(
        np.concatenate([part.weights for part in parts]) / len(parts),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.covariances for part in parts]),
    )
