"""Centres where noise hides them: k-means on what is believed of the rows, not on the mixture that fits best.

Centres of the least expected cost are those of k-means on rows as they are to be expected given the sketch: draws from
all mixtures that could be behind it, each as often as it is likely.  Where the sketch determines the mixture that is
the best fit.  Where noise was added and the errors of the centres are as large as the clusters, the best fit has
followed the noise: its centres are too far apart, and it commits itself to one of several ways of explaining the
sketch.  Two runs of messages (:mod:`sketchlearn.decoders.passing`), which end in posterior means, stand for the others:
one that begins at the fit, and the best of some that know nothing of it.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.literature.amp import best_of_runs
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.passing import Passing
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.refine import Fit, noise_floor

_RUNS, _ROUNDS = 3, 20
_LIKELY = 3.0  # standard deviations by which the misfit of a run may be above that next to the fit


def believed(problem: Problem, mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """A mixture of round components that fits a sketch with much noise, and others that are as likely, pooled."""
    k = mixture.n_components
    passing = Passing(problem, k, rng)
    other, _ = best_of_runs(passing, _RUNS)
    state = passing.known(mixture.weights, mixture.means, float(mixture.weights @ mixture.variances()) / mixture.dim)
    nearest = passing.run(state, _ROUNDS)
    # the state with the smallest misfit is close to the fit: where messages settle is what they believe
    runs = [passing.fit(state), other]
    limit = nearest.value * (1.0 + _LIKELY * noise_floor(problem, nearest, "spherical")[1])
    return pooled([run for run in runs if run.value < limit] or [nearest])


def pooled(fits: list[Fit]) -> Mixture:
    """All components of some fits, each fit with the same weight."""
    weights = [np.maximum(f.weights, 0.0) for f in fits]
    return Mixture(
        np.concatenate([w / w.sum() for w in weights]) / len(fits),
        np.concatenate([f.means for f in fits]),
        np.concatenate([f.covariances for f in fits]),
    )
