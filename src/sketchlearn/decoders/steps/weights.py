"""Weights of components by non-negative least squares, and the components that are needed least."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import LIGHTEST, State

_RIDGE = 1e-6  # of the mean diagonal of a Gram matrix: atoms in float32 are no better known
_PIVOTS = 20  # changes of sides at most: five are the most that were seen, with up to 1250 weights
_ROUNDING = 1e-12  # of the largest correlation: smaller slopes are zero


def solve_weights(gram: Array, b: Array) -> Array:
    """Non-negative least squares from a Gram matrix.

    Block principal pivoting (Portugal, Judice and Vicente, 1994): all weights of the wrong sign change sides at once,
    which takes a few solutions where one at a time takes one for each weight.
    """
    g = gram + np.eye(len(b)) * (_RIDGE * np.trace(gram) / len(b))
    inside = np.ones(len(b), bool)
    try:
        for _ in range(_PIVOTS):
            a = np.zeros(len(b))
            if inside.any():  # (older versions of SciPy refuse empty systems)
                a[inside] = cho_solve(cho_factor(g[np.ix_(inside, inside)]), b[inside])
            wrong = np.where(inside, a < 0, b - g @ a > _ROUNDING * np.abs(b).max(initial=0.0))
            if not wrong.any():
                return a
            inside ^= wrong
        # blocks may go round in circles; one weight at a time never does
        lower = np.linalg.cholesky(g)
        return nnls(lower.T, np.linalg.solve(lower, b), maxiter=10 * len(b) + 50)[0]
    except (RuntimeError, np.linalg.LinAlgError):
        return np.maximum(np.linalg.lstsq(g, b, rcond=None)[0], 0.0)


def reweighted(problem: Problem, state: State) -> State:
    """The state with the weights that explain the sketch best."""
    return state.with_weights(solve_weights(*problem.sampled(state.k).gram(state)))


def prune_indices(gram: Array, b: Array, k: int) -> tuple[Index, Array]:
    """Remove components one by one, each time the one whose removal costs least, until k are left.

    The cost of removing component l is ``a_l^2 / (G^-1)_ll`` (the optimal brain surgeon of Hassibi and Stork, 1993).
    """
    a = solve_weights(gram, b)
    keep = np.flatnonzero(a > LIGHTEST * max(a.max(initial=0.0), 1e-12))
    if len(keep) == 0:
        keep = np.argsort(-b)[:1]
    g = gram[np.ix_(keep, keep)]
    inverse = np.linalg.inv(g + (_RIDGE * np.trace(g) / len(keep)) * np.eye(len(keep)))
    a = inverse @ b[keep]
    left, costs = np.ones(len(keep), bool), np.diag(inverse).copy()
    gone = np.empty((max(len(keep) - k, 0), len(keep)))  # rows of the inverse, each as it was when its turn came
    for i in range(len(gone)):
        worst = np.argmin(np.where(left, np.where(a > 0, a * a / np.where(left, costs, 1.0), -1.0), np.inf))
        gone[i] = (inverse[worst] - gone[:i, worst] @ gone[:i]) / np.sqrt(costs[worst])
        a -= gone[i] * (a[worst] / np.sqrt(costs[worst]))
        costs -= gone[i] ** 2
        left[worst] = False
    keep, a = keep[left], a[left]
    return keep, a if (a > 0).all() else solve_weights(gram[np.ix_(keep, keep)], b[keep])


def losses(gram: Array, weights: Array) -> Array:
    """What the misfit would rise by without each component."""
    ridge = _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    return np.asarray(weights**2 / np.diag(np.linalg.inv(gram + ridge)))


def prune(problem: Problem, state: State, k: int) -> State:
    """The at most k components that matter most, with their weights."""
    keep, weights = prune_indices(*problem.sampled(state.k).gram(state), k)
    return state.select(keep, weights)


def heaviest(problem: Problem, state: State, k: int) -> State:
    """The k components with the largest weights of normalised atoms: the hard threshold of the published decoders."""
    gram, b = problem.gram(state)
    norms = np.sqrt(np.diag(gram))
    beta = solve_weights(gram / np.outer(norms, norms), b / norms)
    return state.select(np.sort(np.argsort(-beta)[:k]))


def completed(state: State, k: int, rng: np.random.Generator) -> State:
    """The state with copies of some components, without weight, where there are fewer than k."""
    short = k - state.k
    if short <= 0:
        return state
    extra = rng.integers(state.k, size=short)
    means = state.means[extra] + 1e-3 * rng.standard_normal((short, state.dim))
    return State(
        state.family,
        np.append(state.weights, np.zeros(short)),
        np.vstack([state.means, means]),
        state.family.joined(state.shapes, state.family.select(state.shapes, extra)),
        state.value,
    )
