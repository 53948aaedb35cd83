"""Mean and covariance of pilot rows that miss entries, with which the gaps of all rows are filled.

They are those where an EM for normal rows stands still.  Its steps are slow where much is missing, so the steps taken
are those of the map that is being designed: sums of the pilot rows, completed with what was found so far, solved for
mean and covariance (see :mod:`sketchlearn.features.completed`).  The first step, from columns taken to be independent,
gives the covariances of pairs.  For normal rows these steps are Fisher's scoring.  For heavy-tailed ones they may be
too long, and are halved where they get longer.  Directions of the covariance shrink or grow tenfold at most in
a step.

How exact the pilot's estimate is hardly matters, for it is a place to begin.  A fiftieth of its own sampling error is
enough.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.completed import FLOOR, CompletedFeatures
from sketchlearn.features.patterns import Patterns

_STEPS = 100  # ten times what rows of a t law with three degrees of freedom needed
_CLOSE = 0.02  # of the sampling error of the pilot
_ROUGH = 0.05  # relative residual of a step, which the next one makes good
_LEAST = 0.1  # of the variance of a direction is left by one step
_WEIGHT_UNIT = 2.0**16


def pilot_moments(rows: Array, weights: Array | None, patterns: Patterns) -> tuple[Array, Array]:
    """Mean and covariance of rows with NaN for what is missing, as an EM for normal rows finds them.

    `patterns`: those of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.completed import pilot_moments
    >>> from sketchlearn.features.patterns import Patterns
    >>> rows = np.random.default_rng(0).normal(size=(400, 1)) * [1.0, -2.0]
    >>> rows[:100, 0], rows[300:, 1] = np.nan, np.nan
    >>> pilot_moments(rows, None, Patterns.of(rows))[1].round(1)  # the second column tells the first
    array([[ 1. , -1.9],
           [-1.9,  3.8]])
    """
    n, d = rows.shape
    whole = None if weights is None else np.rint(weights * (_WEIGHT_UNIT / weights.mean())).astype(np.int64)
    total = float(n if whole is None else whole.sum())
    mean, covariance = _of_columns(rows, np.ones(n) if weights is None else weights)
    least = FLOOR * np.diag(covariance)
    close = _CLOSE * np.sqrt(d * (d + 1) / n)  # of n normal rows the error has about this Frobenius norm
    share, last = 1.0, np.inf
    for _ in range(_STEPS):
        phi = CompletedFeatures.draw(mean, covariance, patterns)
        moved, change = phi.step(phi.sum_rows(rows, whole).sums, total, _ROUGH)
        root = np.linalg.cholesky(covariance)
        values, vectors = np.linalg.eigh(np.eye(d) + share * change - share**2 * np.outer(moved, moved))
        factor = root @ (vectors * np.sqrt(np.clip(values, _LEAST, 1.0 / _LEAST)))
        after = factor @ factor.T + np.diag(least)
        mean, before, covariance = mean + root @ (share * moved), covariance, (after + after.T) / 2.0
        least = FLOOR * np.diag(covariance)
        back = np.linalg.inv(root)
        length = float(np.linalg.norm(back @ (covariance - before) @ back.T) + np.linalg.norm(moved) * share) / share
        if length < close:
            break
        share = share / 2.0 if length > last and share > _LEAST else share
        last = length
    return mean, covariance


def check_pilot(rows: Array) -> None:
    """Refuse pilots in which some covariance is hardly known: all of a column's with the others need more rows."""
    d, there = rows.shape[1], (~np.isnan(rows)).astype(np.float64)
    together = there.T @ there
    i, j = np.unravel_index(int(np.argmin(together)), together.shape)
    if together[i, j] > d + 1:
        return
    hold = f"hold column {i}" if i == j else f"hold both column {i} and column {j}"
    raise InputError(
        f"{int(together[i, j])} of {len(rows)} pilot rows {hold}, and for {d} columns {d + 2} are needed: design from "
        "more rows, leave out such columns, or use ",
        Option("missing", "pairs"),
    )


def _of_columns(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Means and variances of what columns hold."""
    there = ~np.isnan(rows)
    mass = weights @ there
    mean = (weights @ np.where(there, rows, 0.0)) / mass
    variance = (weights @ np.where(there, (rows - mean) ** 2, 0.0)) / mass
    # a column that is constant in the pilot: what its digits can't tell
    constant = np.nanmin(rows, axis=0) == np.nanmax(rows, axis=0)
    unseen = (FLOOR * np.where(mean == 0.0, 1.0, np.abs(mean))) ** 2
    return mean, np.diag(np.where(constant, unseen, variance))
