"""Canonical correlations of two groups of columns, from a sketch that holds all products of columns.

With the covariance in blocks, ``Sxx``, ``Sxy``, ``Syy``, the canonical correlations are the singular values of
``Sxx^-1/2 Sxy Syy^-1/2`` (Hotelling, "Relations between two sets of variates", 1936): exact, for the sketch holds the
covariance of the rows.  Whether the ones after the first j can be chance is told by Bartlett's statistic
``-(n - 1 - (p + q + 1) / 2) sum log(1 - r**2)``, which is then chi-squared with (p - j)(q - j) degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders import noise
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.lowrank.solution import Moments
from sketchlearn.decoders.solution import Code, said
from sketchlearn.models.base import column_names
from sketchlearn.models.cca import CCAModel
from sketchlearn.sketches.value import Sketch


@decoder
def decode_cca(
    sketch: Sketch,
    k: int,
    *,
    rng: np.random.Generator,
    targets: Sequence[int] | Index = (-1,),
    predictors: Sequence[int] | Index | None = None,
) -> CCAModel:
    """The first k canonical correlations of two groups of columns: by default the last column, and all others.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(1000, 1))
    >>> X = common + rng.normal(size=(1000, 4))
    >>> s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=4))
    >>> found = sl.decode(s, 1, task="cca", targets=[2, 3])
    >>> found.correlations.round(1), found.reliable
    (array([0.7]), True)
    """
    phi, count, mean, S, rounding = Moments.of(sketch, "canonical correlation")
    y = np.atleast_1d(np.asarray(targets, np.intp)) % phi.dim
    x = np.setdiff1d(np.arange(phi.dim), y) if predictors is None else np.asarray(predictors, np.intp) % phi.dim
    if k > min(len(x), len(y)):
        raise ValueError(
            f"{k} canonical correlations of {len(x)} and {len(y)} columns: there are at most as many as columns in the "
            "smaller group"
        )
    roots = [_inverse_root(S[np.ix_(at, at)], rounding[at]) for at in (x, y)]
    turns, correlations, right = np.linalg.svd(roots[0].T @ S[np.ix_(x, y)] @ roots[1], full_matrices=False)
    correlations = np.minimum(correlations, 1.0)
    ranks = roots[0].shape[1], roots[1].shape[1]
    p_values = _p_values(correlations, count, *ranks)
    k = min(k, len(correlations))
    # signs as scikit-learn has them: the largest entry of each direction is positive
    a, b = roots[0] @ turns[:, :k], roots[1] @ right[:k].T
    spread = np.sqrt(np.maximum(np.diag(S), 0.0))
    sign = np.where(a[np.abs(a * spread[x][:, None]).argmax(0), np.arange(k)] < 0, -1.0, 1.0)
    a, b = a * sign, b * sign
    names = column_names(phi)
    code, verdict = _verdict(p_values[:k], count, sum(ranks))
    # (what makes half of a correlation makes a quarter of its square)
    if code is Code.RELIABLE and (correlations[k - 1] ** 2 < 4.0 * _by_one_row(sketch, mean, spread, x, y)):
        code = Code.UNDETERMINED
        verdict = "Not certified. Leave out rows far from all others: a single one could cause half of a correlation."
    left = float(1.0 - correlations[0] ** 2) if len(correlations) else 1.0
    return CCAModel(
        **said("cca", "exact", left, float("nan"), (code, verdict)),
        correlations=correlations[:k],
        p_values=p_values[:k],
        x_rotations=a,
        y_rotations=b,
        x_loadings=S[np.ix_(x, x)] @ a,
        y_loadings=S[np.ix_(y, y)] @ b,
        x_mean=mean[x],
        y_mean=mean[y],
        x_spread=spread[x],
        y_spread=spread[y],
        x_columns=tuple(names[i] for i in x),
        y_columns=tuple(names[i] for i in y),
    )


def _inverse_root(S: Array, rounding: Array) -> Array:
    """Index (d, rank) that make rows uncorrelated, of variance 1; directions of no variance are left out."""
    variances = np.diag(S)
    constant = variances <= 8.0 * rounding
    scale = np.where(constant, 0.0, 1.0 / np.sqrt(np.where(constant, 1.0, np.maximum(variances, 1e-300))))
    values, vectors = np.linalg.eigh(S * np.outer(scale, scale))
    keep = values > 8.0 * len(S) * max(float(np.max(rounding * scale**2, initial=0.0)), 2.0**-46)
    return np.asarray(scale[:, None] * vectors[:, keep] / np.sqrt(values[keep]))


def _by_one_row(sketch: Sketch, mean: Array, spread: Array, x: Index, y: Index) -> float:
    """The square of the correlation of two columns, one of each group, that the farthest row could make alone."""
    if not sketch.has_box:
        return 0.0
    reach = np.maximum(sketch.upper - mean, mean - sketch.lower)
    share = np.where(spread > 0, (reach / np.where(spread > 0, spread, 1.0)) ** 2, 0.0) / sketch.effective_count
    return float(share[x].max() * share[y].max())


def _p_values(correlations: Array, count: float, p: int, q: int) -> Array:
    """Probability of correlations this large from the j-th on, if there were none."""
    from scipy.special import gammaincc

    j = np.arange(len(correlations))
    logs = np.log(np.maximum(1.0 - correlations**2, 1e-300))
    rest = np.cumsum(logs[::-1])[::-1]
    statistic = -max(count - 1.0 - 0.5 * (p + q + 1), 0.0) * rest
    return np.asarray(gammaincc(0.5 * (p - j) * (q - j), 0.5 * statistic))


def _verdict(p_values: Array, count: float, columns: int) -> tuple[Code, str]:
    chance = np.flatnonzero(p_values > noise.CHANCE)
    if count <= columns + 1:
        doubt = f"{count:.6g} rows are too few for {columns} columns: a correlation of 1 can be chance"
    elif not len(p_values):
        doubt = "In one of the groups all rows are equal, so there are no correlations"
    elif not len(chance):
        return Code.RELIABLE, "Reliable. These are the correlations of the rows, and all are more than chance."
    elif chance[0] == 0:
        doubt = f"None of these correlations is more than chance (p = {p_values[0]:.2g})"
    else:
        doubt = f"Only the first {chance[0]} are more than chance (p = {p_values[chance[0]]:.2g} for the next one)"
    return Code.UNDETERMINED, f"Not certified. {doubt}."
