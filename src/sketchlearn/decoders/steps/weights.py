"""Weights of components by non-negative least squares, and the components that are needed least."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import LIGHTEST, State

_RIDGE = 1e-6  # of the mean diagonal of a Gram matrix: atoms in float32 are no better known


def solve_weights(gram: Array, b: Array) -> Array:
    """Non-negative least squares from a Gram matrix."""
    g = gram + np.eye(len(b)) * (_RIDGE * np.trace(gram) / len(b))
    try:
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
    keep = keep[_most_needed(gram[np.ix_(keep, keep)], b[keep], k)]
    g = gram[np.ix_(keep, keep)]
    a = _inverse(g) @ b[keep]
    return keep, a if (a > 0).all() else solve_weights(g, b[keep])


def _most_needed(gram: Array, b: Array, k: int) -> Index:
    """Which components are left: every removal takes a matrix of rank one off the inverse, of which one row is made."""
    count = len(gram)
    if count <= k:
        return np.arange(count)
    inverse = _inverse(gram)
    a, diagonal, gone = inverse @ b, np.diag(inverse).copy(), np.zeros(count, bool)
    columns = np.empty((count - k, count))
    for i in range(count - k):
        cost = np.where(a > 0, a * a / diagonal, -1.0)
        l = int(np.argmin(np.where(gone, np.inf, cost)))
        column = inverse[l] - columns[:i, l] @ columns[:i]
        column /= np.sqrt(column[l])
        a -= column * (a[l] / column[l])
        diagonal -= column * column
        columns[i], gone[l] = column, True
        diagonal[gone] = 1.0
    return np.flatnonzero(~gone)


def _inverse(gram: Array) -> Array:
    return np.asarray(np.linalg.inv(gram + (_RIDGE * np.trace(gram) / len(gram)) * np.eye(len(gram))))


def losses(gram: Array, weights: Array) -> Array:
    """What the misfit would rise by without each component."""
    return np.asarray(weights**2 / np.diag(_inverse(gram)))


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
