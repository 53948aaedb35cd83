"""Small groups that lie apart in one column and are like all rows in the others: codes for "unknown", defaults, limits.

A search for round components misses a group of two in a hundred rows that is as wide as the data in all columns but
one, and the fits that follow spread broad components over it, in which none of its rows are.  The residual of a fit
points to it: one atom for each place of each column, as wide as the rows elsewhere, is compared with what is left.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.decoders.budget import ROUNDS
from sketchlearn.decoders.certificate.whitened import real
from sketchlearn.decoders.families import DIAGONAL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.decoders.steps.weights import reweighted

HEAVIEST = 0.3  # share of the rows: what is larger is no small group


def groups_apart(problem: Problem, state: State) -> State | None:
    """At most three groups that lie apart in one column next to a fit; None if chance explains all of them."""
    groups, rest = None, state
    for _ in range(3):
        more = group_apart(problem, rest)
        if more is None:
            break
        groups = more if groups is None else groups.joined(more.means, more.shapes, more.weights)
        groups = settled(problem, state, groups)
        rest = joined(state, groups)
    return groups


def settled(problem: Problem, state: State, groups: State) -> State:
    """The groups as what is left beside a fit wants them, once all have the weights that explain the sketch best."""
    both = reweighted(problem, joined(state, groups)).weights
    left = problem.residual(state.with_weights(both[: state.k]))
    part = replace(problem, z=np.ascontiguousarray(left, np.float32))
    start = groups.with_weights(np.maximum(both[state.k :], 1.0 / problem.n))
    found = refine(part, start, ROUNDS, largest=100.0, boxed=True)
    heaviest = HEAVIEST / max(float(found.weights.sum()), HEAVIEST)
    return found.with_weights(np.maximum(found.weights, 1.0 / problem.n) * heaviest)


def joined(state: State, groups: State) -> State:
    """A fit of what is beside the groups, and the groups."""
    more = groups.to(state.family)
    rest = state.with_weights(state.weights * (1.0 - groups.weights.sum()))
    return rest.joined(more.means, more.shapes, more.weights)


def without(problem: Problem, groups: State) -> Problem:
    """The problem of the rows beside the groups."""
    left = problem.residual(groups) / np.float32(1.0 - groups.weights.sum())
    return replace(problem, z=np.ascontiguousarray(left, np.float32))


def group_apart(problem: Problem, state: State, limit: float = 4.5) -> State | None:
    """The group whose weight is farthest from zero, in standard errors; None if it is not above `limit`.

    The noise is what the fit leaves, by which half of normal samples reach 3.8.  Apart is what lies 2.5 standard
    deviations of its column from the mean; farther than 15 low frequencies are needed, which are for far components.
    """
    mixture = state.mixture()
    mean, covariance = mixture.mean, mixture.covariance
    w = np.asarray(problem.operator.frequencies(), np.float64)
    root = np.sqrt(problem.u.astype(np.float64))[:, None]
    residual = problem.residual(state).astype(np.float64)
    left = root * (residual[0] + 1j * residual[1])[:, None]
    own = root * state.family.values(state.means, state.shapes, problem.operator).T
    best, found = limit, None
    for j in range(problem.dim):
        low = max(float(problem.box[0][j]), mean[j] - 15.0)
        high = min(float(problem.box[1][j]), mean[j] + 15.0)
        # (steps and widths that frequencies of 2 to 4 radians tell apart)
        places = np.linspace(low, high, max(int((high - low) / 0.4) + 1, 2))
        places = places[np.abs(places - mean[j]) > 2.5 * np.sqrt(covariance[j, j])]
        if not len(places):
            continue
        center, shape = mean.copy(), covariance.copy()
        center[j] = shape[j] = shape[:, j] = 0.0
        shape[j, j] = 0.01
        damping = -0.5 * np.einsum("mi,ij,mj->m", w, shape, w)
        seen = np.argsort(-damping)[:400]
        atoms = np.exp(1j * (w[seen] @ center) + damping[seen])[:, None] * np.exp(1j * np.outer(w[seen, j], places))
        # what other weights of the fit explain as well counts for nothing
        basis = np.linalg.qr(real(own[seen]))[0]
        atoms, rest = (v - basis @ (basis.T @ v) for v in (real(root[seen] * atoms), real(left[seen])))
        size, along = np.maximum((atoms**2).sum(0), 1e-300), (atoms * rest).sum(0)
        # what is left is the noise of its frequency, in two parts
        score = along / np.maximum(np.sqrt((atoms**2 * rest**2).sum(0)), 1e-300)
        at = int(score.argmax())
        if score[at] > best:
            center[j] = places[at]
            weight = float(np.clip(along[at] / size[at], 1.0 / problem.n, HEAVIEST))
            best, found = float(score[at]), State(DIAGONAL, np.array([weight]), center[None], np.diag(shape)[None])
    return found
