"""Which components stand for more than one cluster, and where these are.

Halves of a component of weight a at ``c - t v`` and ``c + t v`` differ from the whole by ``-(a t^2 / 2) (w·v)^2`` times
its atom, to second order in t.  So the slope of the misfit in a covariance of the component says along which v it falls
fastest, and by how much at most.  A component between two clusters hides them from the residual, which is why a search
for its peaks misses them where clusters are many; slopes show them.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State

_LEAST = 0.5  # widths between a half and the place of the whole, at least: closer halves stay together


def halves(problem: Problem, state: State, count: int) -> Array:
    """Places of both halves of up to `count` components of one width, those whose split promises most."""
    variance, d = float(state.shapes[0]), state.dim
    r2 = problem.operator.squared_norms
    e2 = problem.u * np.exp(np.float32(-variance) * r2)
    # E (w·v)^4 = 3 E|w|^4 / d(d + 2) where directions are uniform
    square = 3.0 * float(e2 @ r2**2) / (d * (d + 2))
    if not square > 0:
        return np.zeros((0, d))
    values, vectors = np.linalg.eigh(problem.bends(state))
    lowest, along = values[:, 0], vectors[:, :, 0]
    best = np.argsort(lowest)[:count]
    best = best[lowest[best] < 0]
    step = np.sqrt(-2.0 * lowest[best] / (np.maximum(state.weights[best], 1e-9) * square))
    kernel = np.sqrt(d * float(e2.sum()) / float(e2 @ r2))  # farther apart, halves are no small change of the whole
    step = np.clip(step, _LEAST * np.sqrt(variance), max(kernel, _LEAST * np.sqrt(variance)))
    move = step[:, None] * along[best]
    return np.concatenate([state.means[best] - move, state.means[best] + move])
