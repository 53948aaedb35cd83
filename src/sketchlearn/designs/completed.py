"""Mean and covariance of pilot rows that miss entries, with which the gaps of all rows are filled.

They are those where an EM for normal rows stands still.  Its steps are slow where much is missing, so the steps taken
are those of the map that is being designed: sums of the pilot rows, completed with what was found so far, solved for
mean and covariance (see :mod:`sketchlearn.features.completed`).  The first step, from columns taken to be independent,
gives the covariances of pairs.  For normal rows whose gaps do not depend on their values these are steps of Fisher's
scoring; for others the steps before say how far to go (Anderson's mixing, Journal of the ACM 12, 1965).  Directions of
the covariance shrink or grow tenfold at most in a step.
"""

from __future__ import annotations

import itertools

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.completed import FLOOR, CompletedFeatures
from sketchlearn.features.patterns import Patterns

_STEPS = 100  # twice what 569 rows of thirty nearly collinear columns needed, with gaps given one of them
_CLOSE = 0.002  # length of the last step, in sampling errors of the pilot: what is left may be some tens of such steps
_ROUGH = 0.01  # relative residual of a step, which the next one makes good
_MEMORY = 20  # steps that are mixed
_LONGER = 3.0  # a step so much longer than the one before starts anew, with half of each step
_TABLE = 2**20  # numbers of the gains that steps are made with: a tenth of a second for each step
_LEAST = 0.1  # of the variance of a direction is left by one step
_ROWS_PER_COLUMN = 3  # that hold any two columns: with 1.9 an EM has no end but a singular covariance, with 6.8 it has
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
    array([[ 1., -2.],
           [-2.,  4.]])
    """
    n, d = rows.shape
    whole = None if weights is None else np.rint(weights * (_WEIGHT_UNIT / weights.mean())).astype(np.int64)
    total = float(n if whole is None else whole.sum())
    mean, covariance = _of_columns(rows, np.ones(n) if weights is None else weights)
    least, constant = FLOOR * np.diag(covariance), np.nanmin(rows, axis=0) == np.nanmax(rows, axis=0)
    close = _CLOSE * np.sqrt(d * (d + 1) / n)  # of n normal rows the error has about this Frobenius norm
    gaps = int((~patterns.there).sum(1).mean() * d) + 1
    some = patterns.some(
        max(_TABLE // gaps, 1)
    )  # the rows say where the steps end, the patterns only how they get there
    share, last = 1.0, np.inf
    places: list[Array] = []
    steps: list[Array] = []
    for _ in range(_STEPS):
        phi = CompletedFeatures.draw(mean, covariance, some)
        moved, change = phi.step(phi.sum_rows(rows, whole).sums, total, _ROUGH)
        root = np.asarray(np.linalg.cholesky(covariance), np.float64)
        change = change - np.outer(moved, moved) + _whitened(np.diag(least), root)
        change[constant], change[:, constant] = 0.0, 0.0  # they stay as they are, apart from the others
        length = float(np.hypot(np.linalg.norm(moved), np.linalg.norm(change)))
        if length < close:
            break
        if length > _LONGER * last:
            share, places, steps = max(share / 2.0, _LEAST), [], []
        last = length
        places.append(np.vstack([mean, covariance]))
        steps.append(np.vstack([root @ moved, root @ change @ root.T]))
        places, steps = places[-_MEMORY:], steps[-_MEMORY:]
        towards = _mixed(places, steps, share, root)
        values, vectors = np.linalg.eigh(_whitened(towards[1:], root))
        factor = root @ (vectors * np.sqrt(np.clip(values, _LEAST, 1.0 / _LEAST)))
        mean, covariance = towards[0], factor @ factor.T
        scale = np.sqrt(np.diag(covariance))
        lowest = float(np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0])
        covariance = (covariance + covariance.T) / 2.0 + np.diag(max(FLOOR - lowest, 0.0) * scale**2)
    return mean, covariance


def _mixed(places: list[Array], steps: list[Array], share: float, root: Array) -> Array:
    """Where to go from the last place: as its step says, corrected for how steps changed with places so far."""
    place, step = places[-1], steps[-1]
    if len(places) > 1:
        moves = [b - a for a, b in itertools.pairwise(places)]
        turns = [b - a for a, b in itertools.pairwise(steps)]
        units = np.array([_flat(turn, root) for turn in turns]).T
        weights = np.linalg.lstsq(units, _flat(step, root), rcond=1e-8)[0]
        place = place - np.tensordot(weights, moves, 1)
        step = step - np.tensordot(weights, turns, 1)
    return np.asarray(place + share * step)


def _flat(step: Array, root: Array) -> Array:
    """A step of mean and covariance in units of the covariance, as a vector."""
    return np.append(np.linalg.solve(root, step[0]), _whitened(step[1:], root))


def _whitened(X: Array, root: Array) -> Array:
    found = np.linalg.solve(root, np.linalg.solve(root, X).T)
    return np.asarray((found + found.T) / 2.0)


def check_pilot(rows: Array) -> None:
    """Refuse pilots in which some covariance is hardly known: all of a column's with the others need more rows."""
    d, there = rows.shape[1], (~np.isnan(rows)).astype(np.float64)
    together = there.T @ there
    i, j = np.unravel_index(int(np.argmin(together)), together.shape)
    if together[i, j] >= _ROWS_PER_COLUMN * d:
        return
    hold = f"hold column {i}" if i == j else f"hold both column {i} and column {j}"
    raise InputError(
        f"{int(together[i, j])} of {len(rows)} pilot rows {hold}, and for {d} columns {_ROWS_PER_COLUMN * d} are "
        "needed: design from more rows, leave out such columns, or use ",
        Option("missing", "pairs"),
    )


def _of_columns(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Means and variances of what columns hold."""
    there = ~np.isnan(rows)
    mass = weights @ there
    mean = (weights @ np.where(there, rows, 0.0)) / mass
    variance = (weights @ np.where(there, (rows - mean) ** 2, 0.0)) / mass
    # a column that is constant in the pilot has no unit: its value is one that fits what may come, and digits are left
    constant = np.nanmin(rows, axis=0) == np.nanmax(rows, axis=0)
    unseen = np.where(mean == 0.0, 1.0, mean) ** 2
    return mean, np.diag(np.where(constant, unseen, variance))
