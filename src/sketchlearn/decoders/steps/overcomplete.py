"""Over-complete mixtures for data that no simple model explains: more components than clusters, with own covariances.

Each fit is a greedy search for about three components a cluster, then diagonals, then a few factors, shrunk to the
pooled diagonal in proportion to the misfit.  Fits from several seeds are independent, and pooled by the caller.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.decoders.budget import STEPS
from sketchlearn.decoders.families import DIAGONAL, Factors
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import search
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.threads import in_parallel, limited

EXTRA = 10  # components besides two a cluster: few clusters need more to show their shapes
SHRINKAGE = 0.1  # of the misfit per number: strength of the penalty on covariances
REPLACEMENTS = 4  # rounds of the search with all components: the model is wrong, and more would follow the noise
FIRST_STEPS = 40  # L-BFGS iterations that find axes and diagonals, before the factors
PARALLEL = 2**20  # multiply-adds of an iteration below which threads wait for the interpreter


def over_complete_fits(problem: Problem, found: State, count: int, rng: np.random.Generator) -> list[State]:
    """Some independent fits with full covariances, for data in which a search found k components of one width."""
    k, d = found.means.shape
    extra = EXTRA if d <= 20 else EXTRA // 2
    components = min(2 * k + min(k, extra), max(problem.size // (2 * (d + 2)), k))
    # numbers of the model are at most four times those of the sketch (shrinkage does the rest)
    rank = min(_rank(d), max(8 * problem.size // (components * d) - 2, 1))
    problem = replace(problem, operator=problem.operator.as_matrix())
    axes = _axes(problem, found, rank, rng)

    def fitted(own: np.random.Generator) -> State:
        part = _turned(problem, axes)
        start = search(part, components, own, replacements=REPLACEMENTS).state
        return _with_factors(part, start, rank, STEPS, own).turned(axes.T)

    with limited(None if problem.size * components * d > PARALLEL else 1):
        return in_parallel(fitted, rng.spawn(count))


def _rank(d: int) -> int:
    """Factors of a covariance: all in up to twenty dimensions, where they cost little, if five would not do."""
    if d <= 20:
        return min(5, d - 1) if d <= 10 else d - 1
    return max(10, d // 5)


def _axes(problem: Problem, found: State, rank: int, rng: np.random.Generator) -> Array:
    """Orthonormal axes (rows) in which components are diagonal on average: factors are then left for what is their own.

    Where the columns are correlated within all clusters alike, as those of word vectors are, this is worth more than
    any number of factors.
    """
    if problem.dim == 1:
        return np.eye(1)
    fit = _with_factors(problem, found, rank, FIRST_STEPS, rng)
    average = np.tensordot(fit.simplex, fit.covariances, 1)
    return np.ascontiguousarray(np.linalg.eigh(average)[1].T)


def _turned(problem: Problem, axes: Array) -> Problem:
    """The problem in other orthonormal axes, with buffers of its own."""
    low, high = problem.box
    middle, half = axes @ (0.5 * (low + high)), np.abs(axes) @ (0.5 * (high - low))
    return replace(problem, operator=problem.operator.transformed(axes), box=(middle - half, middle + half))


def _with_factors(problem: Problem, found: State, rank: int, steps: int, rng: np.random.Generator) -> State:
    """Diagonals, then some factors, shrunk to the pooled diagonal in proportion to the misfit."""
    widest = max(4.0, float(4.0 * np.max(np.ptp(np.stack(problem.box), axis=0)) ** 2))
    k, d = found.means.shape
    start = State(DIAGONAL, found.weights, found.means, np.full((k, d), max(float(found.shapes[0]), 1e-6)))
    fit = refine(problem, start.revived(), FIRST_STEPS, largest=widest)
    if not rank:
        return fit
    family, fit = Factors(rank), replace(fit.revived(), value=fit.value)
    start = State(family, fit.weights, fit.means, family.widened(fit.shapes, fit.weights, rng))
    strength = SHRINKAGE * 2.0 * fit.value / problem.size
    return refine(problem, start, steps, largest=widest, strength=strength)
