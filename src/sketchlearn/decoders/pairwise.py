"""Least squares from second moments whose entries come from different rows, because rows miss entries.

The coefficients b = A^-1 c depend on more than the noise of the target then: A and c are averages over different rows,
and weak directions of A drown in the difference.  By the delta method, with g the vector (1 for the target, -b for the
predictors) and s_kz the covariance of columns k and z over the n f_kz rows that hold both,

    d b = A^-1 v,   v_k = sum_z g_z d s_kz,
    Cov(v_k, v_l) = sum_yz g_y g_z (S_kl S_yz + S_kz S_yl) f_kylz / (n f_ky f_lz)

for normal rows (Isserlis' theorem), where f_kylz is the share of rows that hold all four.  It is taken to be
``f_ky f_lz`` over the share of rows that hold what {k, y} and {l, z} have in common: columns miss entries independently
of each other.

Errors of penalised coefficients are those without a penalty, and how far it has moved them; eigenvalues of the
predictors count there as no smaller than the noise of a correlation, the root of the average of 1 / f - 1 over n.

Ridge.  What is left of the target's variance under an estimate S is too small, by twice the trace of H N for
coefficients H c, with N the part of this covariance that missing entries bring (as in Mallows' C_p).  The penalty with
the smallest sum is taken; for complete rows that is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sketchlearn.arrays import Array, Index

_PENALTIES = np.concatenate([[0.0], 10.0 ** np.arange(-5.0, 1.01, 0.25)])  # in units of the predictors' variances


class PairFit(NamedTuple):
    """Coefficients and their standard errors (t, p), standard errors of constants (t,), penalties (t,)."""

    coefficients: Array
    errors: Array
    constants: Array
    penalties: Array


def fit_pairs(S: Array, shares: Array, x: Index, t: Index, x_mean: Array, count: float, ridge: float | None) -> PairFit:
    """Regress the columns t on the columns x, with the means `x_mean`, or zeros where there is no constant.

    S and `shares` (d, d) are covariances, and shares of the rows that hold both columns; `ridge` is the penalty on
    squared coefficients over the number of rows, None to choose one for each target.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.decoders.pairwise import fit_pairs
    >>> S, x, t = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]), np.array([0, 1]), np.array([2])
    >>> fits = [fit_pairs(S, np.full((3, 3), f), x, t, np.zeros(2), 400.0, 0.0) for f in (1.0, 0.5)]
    >>> fits[0].coefficients, [fit.errors.round(3).tolist() for fit in fits]
    (array([[0.5, 0. ]]), [[[0.043, 0.043]], [[0.061, 0.061]]])
    """
    scale = np.sqrt(np.maximum(np.diag(S), 0.0))
    inverse = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    C = S * np.outer(inverse, inverse)
    A = C[np.ix_(x, x)]
    values, vectors = np.linalg.eigh(A)
    noise = np.sqrt(max(float(np.mean(1.0 / shares[np.ix_(x, x)])) - 1.0, 0.0) / count)
    found = []
    for target in t.tolist():
        used = np.append(x, target)
        c, share, joint = C[x, target], shares[np.ix_(used, used)], C[np.ix_(used, used)]
        if ridge is None:
            tried = [_inverted(values, vectors, penalty) for penalty in _PENALTIES]
            risks = [_risk(joint, share, H, c, count) for H in tried]
            best = int(np.argmin(risks))
            H, penalty = tried[best], float(_PENALTIES[best])
        elif ridge > 0:
            H, penalty = np.linalg.inv(A + np.diag(np.maximum(ridge * inverse[x] ** 2, 1e-9))), ridge
        else:
            H, penalty = _inverted(values, vectors, 0.0), 0.0
        b, moved = H @ c, np.zeros(len(x))
        g = np.append(-b, 1.0)
        if ridge is None:
            H = _inverted(np.maximum(values, noise), vectors, 0.0)
            moved = b - H @ c
        covariance = H @ (complete_part(joint, g) + missing_part(joint, share, g))[:-1, :-1] @ H / count
        there = np.diag(share)
        means = g @ (joint * share / np.outer(there, there)) @ g / count
        covariance = covariance + np.outer(moved, moved)
        units, place = scale[target] * inverse[x], x_mean * inverse[x]
        found.append((
            units * b, units * np.sqrt(np.maximum(np.diag(covariance), 0.0)),
            scale[target] * np.sqrt(max(means + place @ covariance @ place, 0.0)), penalty,
        ))  # fmt: skip
    return PairFit(*(np.array(column) for column in zip(*found, strict=True)))


def _inverted(values: Array, vectors: Array, penalty: float) -> Array:
    kept = values + penalty > 1e-9  # of standardised columns
    inverse = np.where(kept, 1.0 / np.where(kept, values + penalty, 1.0), 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)


def _risk(joint: Array, share: Array, H: Array, c: Array, count: float) -> float:
    """Variance that coefficients leave, with what missing entries hide of it."""
    g = np.append(-H @ c, 1.0)
    hidden = missing_part(joint, share, g)[:-1, :-1] / count
    return float(g @ joint @ g + 2.0 * np.sum(H * hidden))


def complete_part(S: Array, g: Array) -> Array:
    """n Cov(v_k, v_l) if no entry were missing."""
    Sg = S @ g
    return np.asarray(S * float(g @ Sg) + np.outer(Sg, Sg))


def missing_part(S: Array, share: Array, g: Array) -> Array:
    """What missing entries add to it.

    The weight of a term is one over the share that holds what {k, y} and {l, z} have in common, less 1: y where y is z,
    k where z is k, l where y is l, and k everywhere where k is l.
    """
    v, Sg = np.diag(S), S @ g
    one, two = 1.0 / np.diag(share) - 1.0, 1.0 / share - 1.0
    squares = np.outer(v, v) + S * S
    same = one * g * g
    total = S * float(same @ v) + (S * same) @ S  # y is z
    # z is k, and y neither k nor l, which are among the others
    rest = S * Sg[:, None] + v[:, None] * Sg - 2.0 * g[:, None] * S * v[:, None] - g * squares
    crossed = (one * g)[:, None] * rest
    total = total + crossed + crossed.T + two * np.outer(g, g) * squares
    about = squares * (g * g)
    total[np.diag_indices(len(S))] = one * (v * float(g @ Sg) + Sg**2 - about.sum(1)) + (two * about).sum(1)
    return np.asarray(total)
