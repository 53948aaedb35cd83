"""Least squares of columns on other columns, from a sketch of second moments.

An exact sketch holds the normal equations themselves.  From a compressed one the second moment is decoded at low rank
first, and the regression is one on its principal components.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning

from sketchlearn.arrays import Array, Flags, Index
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.lowrank.solution import full_matrix, unresolved
from sketchlearn.decoders.pairwise import fit_pairs
from sketchlearn.decoders.registry import decoders_of
from sketchlearn.decoders.solution import Code, LowRankSolution, said
from sketchlearn.exceptions import warn
from sketchlearn.features.second_moment import SecondMomentMap, second_moment
from sketchlearn.models.base import column_names
from sketchlearn.models.regression import RegressionModel
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_PAIRS = (
    "The coefficients come from the pairs of entries that are there. They are right if entries are missing "
    "independently of all values. The standard errors assume that columns miss entries independently of each other."
)
_COMPLETED = (
    "The coefficients are those of an EM on the rows, up to what one step from its result on the pilot leaves. They "
    "are right if entries are missing independently of what they would be, given those that are there"
)
_EXACT = "The sketch holds all products of columns, so these are the coefficients of least squares on the rows"


class _Fit(NamedTuple):
    """Coefficients (t, p), their variances over that of the noise, and what they explain of the total.

    `rounding` is what rounding of the moments may do to the coefficients (t, p) and to what is explained (t,).
    `inverse` is what the covariances with the targets are multiplied by to get coefficients (p, p).
    """

    coefficients: Array
    errors: Array | None
    explained: Array
    total: Array
    rank: int
    pull: Array | None
    rounding: tuple[Array, Array] | None = None
    inverse: Array | None = None


@decoder
def decode_regression(
    sketch: Sketch,
    k: int,
    *,
    rng: np.random.Generator,
    targets: Sequence[int] | Index = (-1,),
    predictors: Sequence[int] | Index | None = None,
    alpha: float | str = "auto",
    fit_intercept: bool = True,
    second_moment_decoder: str = "auto",
) -> RegressionModel:
    """Regress columns of a sketch on other columns of it.

    Parameters
    ----------
    k : int
        Principal components of the predictors to regress on; as many as predictors, or more: all of them.
    targets, predictors : sequence of int
        Index; by default the last one, and all others.
    alpha : float or "auto"
        Ridge penalty; ``"auto"`` is none, except for rows with missing entries, where it is as large as what is missing
        asks for.
    fit_intercept : bool
        Whether to fit a constant.
    second_moment_decoder : str
        For compressed sketches: a decoder of the task ``"pca"``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> s = sl.sketch(np.column_stack([X, X @ [1.0, 2.0]]), sl.QuadraticFeatures.draw(dim=3))
    >>> sl.decode(s, 2, task="regression").coefficients.round(6)
    array([[1., 2.]])
    """
    phi = second_moment(sketch.features, "regression")
    t = np.atleast_1d(np.asarray(targets, np.intp)) % phi.dim
    x = np.setdiff1d(np.arange(phi.dim), t) if predictors is None else np.asarray(predictors, np.intp) % phi.dim
    few = k if k < len(x) else None
    weight = float(sketch.weight)
    count = sketch.effective_count * phi.seen_share(sketch.sums, weight)
    chosen = alpha == "auto"
    ridge = 0.0 if chosen else float(alpha) / float(sketch.count)
    mean = phi.row_mean_from_sums(sketch.sums, weight)
    spread = second = pairs = gaps = None
    if phi.is_exact:
        moments = full_matrix(phi, phi.centred_mean_from_sums(sketch.sums, weight))
        spread = np.sqrt(np.maximum(np.diag(moments)[x], 0.0))
        if not fit_intercept:
            moments = full_matrix(phi, phi.about_origin_from_sums(sketch.sums, weight))
        shares = phi.shares(sketch.sums, weight)
        if shares is not None and few is None:
            place = mean[x] if fit_intercept else np.zeros(len(x))
            pairs = fit_pairs(moments, shares, x, t, place, sketch.effective_count, None if chosen else ridge)
            fit = _of_coefficients(moments, x, t, pairs.coefficients)
        else:
            noise = phi.precision_from_sums(sketch.sums, weight)[x]
            least = unresolved(phi, sketch.sums, weight)[x]
            fit = _from_matrix(moments, noise, least, x, t, ridge, few, count)
            gaps = _of_gaps(phi, sketch, fit, x, t, mean, fit_intercept)
    else:
        second = _second_moment(sketch, phi, few, fit_intercept, second_moment_decoder, rng)
        fit = _from_components(second, x, t, ridge, few)
    names = column_names(phi)
    coef, rest = fit.coefficients, np.maximum(fit.total - fit.explained, 0.0)
    freedom = count - fit.rank - fit_intercept
    variance = rest * count / freedom if freedom > 0 else np.full(len(t), np.nan)
    errors, constant = np.full(coef.shape, np.nan), np.full(len(t), np.nan)
    if pairs is not None:
        errors, constant = pairs.errors, pairs.constants
    elif gaps is not None:
        wider = np.sqrt(count / freedom) if freedom > 0 else np.nan
        errors, constant = gaps[0] * wider, gaps[1] * wider
    elif fit.errors is not None and fit.pull is not None:
        errors = np.sqrt(variance[:, None] * fit.errors)
        constant = np.sqrt(variance * (1.0 / count + float(mean[x] @ fit.pull @ mean[x])))
    # as in scikit-learn the part explained is of the variance, with or without an intercept
    about = fit.total if fit_intercept else np.maximum(fit.total - mean[t] ** 2, 0.0)
    r2 = np.where(about > 0, 1.0 - rest / np.where(about > 0, about, 1.0), np.where(rest > 0, 0.0, 1.0))
    # generalised cross-validation, of the constant alone too (Golub, Heath and Wahba 1979)
    again = 1.0 - (1.0 - r2) * ((count - 1.0) / freedom) ** 2 if freedom > 0 else np.full(len(t), np.nan)
    left = float(np.mean(rest / np.where(fit.total > 0, fit.total, 1.0)))
    said_of = _EXACT if gaps is None else _COMPLETED
    code, verdict = _judged(fit, rest, count, freedom, few, [names[i] for i in x], said_of)
    how: tuple[Any, ...] = ("exact", float("nan"), float("nan"), 0, ())
    if second is not None:
        how = second.decoder, second.noise_floor, second.ratio, second.iterations, second.trace
        code, verdict = second.code, f"{second.verdict} The regression is on these principal components."
    elif pairs is not None:
        verdict = _of_pairs(pairs.penalties, chosen)
    decoder_name, floor, ratio, rounds, trace = how
    return RegressionModel(
        **said("regression", decoder_name, left, floor, (code, verdict), rounds, trace, ratio),
        coefficients=coef,
        intercept=mean[t] - coef @ mean[x] if fit_intercept else np.zeros(len(t)),
        standard_errors=errors,
        intercept_error=constant if fit_intercept else np.zeros(len(t)),
        r2=r2,
        new_r2=again,
        residual_variance=variance,
        rank=fit.rank,
        predictor_spread=spread,
        predictors=tuple(names[i] for i in x),
        targets=tuple(names[i] for i in t),
    )


def _judged(
    fit: _Fit, rest: Array, count: float, freedom: float, few: int | None, names: Sequence[str], what: str
) -> tuple[Code, str]:
    """The verdict of a regression on exact moments that leaves this variance of so many rows."""
    if few is None and fit.rank < len(names):
        doubt = _collinear(fit.rank, len(names))
    elif not freedom > 0:
        doubt = f"{counted(fit.rank, 'coefficient')} fit any {count:.6g} rows, so the noise can't be estimated."
    else:
        doubt = _lost_digits(fit, rest, freedom / count, names)
    if doubt:
        return Code.UNDETERMINED, f"Not certified. {doubt}"
    of = "" if few is None else f", for {counted(fit.rank, 'principal component')}"
    return Code.RELIABLE, f"Reliable. {what}{of}."


def _of_gaps(
    phi: SecondMomentMap, sketch: Sketch, fit: _Fit, x: Index, t: Index, mean: Array, centred: bool
) -> tuple[Array, Array] | None:
    """Standard errors of coefficients (t, p) and constants (t,) where rows miss entries; None where errors are known.

    By the delta method: a coefficient moves with the covariances by ``h' dS g``, where h is its row of the inverse and
    g is 1 for the target and minus the coefficients for the predictors; a constant by ``g' dm - m_x' db``.  Without a
    constant the moments about the origin also move with the means, by ``h' (dm m' + m dm') g``.
    """
    if fit.inverse is None:
        return None
    d, p = phi.dim, len(x)
    rows = np.zeros((p + 1, d))
    rows[:p, x] = fit.inverse
    rows[p, x] = mean[x] @ fit.inverse
    errors, constants = np.empty(fit.coefficients.shape), np.empty(len(t))
    for k, target in enumerate(t.tolist()):
        g = np.zeros(d)
        g[x], g[target] = -fit.coefficients[k], 1.0
        both = rows[:, :, None] * g
        found = phi.contrast_variances((both + np.swapaxes(both, 1, 2)) / 2.0, sketch.sums, float(sketch.weight))
        if found is None:
            return None
        variances, means = found
        if not centred:
            with_means = (mean @ g) * rows + (rows @ mean)[:, None] * g
            variances = variances + np.sum((with_means @ means) * with_means, axis=1)
        errors[k] = np.sqrt(np.maximum(variances[:p], 0.0) / sketch.effective_count)
        constants[k] = np.sqrt(max(float(variances[p] + g @ means @ g), 0.0) / sketch.effective_count)
    return errors, constants


def _of_pairs(penalties: Array, chosen: bool) -> str:
    if not chosen or not penalties.any():
        return _PAIRS
    return (
        f"{_PAIRS} Uncertain directions are damped by a penalty of {penalties.max():.2g} of the predictors' variances."
    )


def _of_coefficients(S: Array, x: Index, t: Index, coefficients: Array) -> _Fit:
    """What given coefficients explain."""
    B, A = S[np.ix_(x, t)], S[np.ix_(x, x)]
    explained = 2.0 * np.sum(coefficients.T * B, 0) - np.sum(coefficients.T * (A @ coefficients.T), 0)
    return _Fit(coefficients, None, explained, np.diag(S)[t], len(x), None)


def _lost_digits(fit: _Fit, rest: Array, freedom: float, names: Sequence[str]) -> str:
    """A doubt, where rounding of the moments may have moved a coefficient by a tenth of its standard error.

    Changes in the fourth digit don't count.
    """
    if fit.rounding is None or fit.errors is None:
        return ""
    moved, explained = fit.rounding
    sure = np.maximum(rest - explained, 0.0)[:, None]
    allowed = np.maximum(0.1 * np.sqrt(sure / freedom * fit.errors), 1e-3 * np.abs(fit.coefficients))
    if (moved <= allowed).all():
        return ""
    column = names[int(np.argmax((moved > allowed).any(axis=0)))]
    return (
        f"Leave out nearly collinear predictors, or rows far from all others: rounding may change the coefficient of "
        f"{column}."
    )


def _from_matrix(
    S: Array, noise: Array, least: Array, x: Index, t: Index, ridge: float, few: int | None, count: float
) -> _Fit:
    """From the normal equations.

    `noise` is the rounding error of the predictors' variances, `least` the variance up to which they are constant.
    """
    A, B, total = S[np.ix_(x, x)], S[np.ix_(x, t)], np.diag(S)[t]
    # standardised columns: badly scaled ones cost no digits
    size = np.sqrt(np.maximum(np.diag(A), 0.0))
    constant = np.diag(A) <= least
    scale = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, size))
    C = A * scale[:, None] * scale
    penalised = ridge > 0
    rounding = None
    unsure = 8.0 * max(float(np.max(noise * scale**2, initial=0.0)), 2.0**-52)  # of the entries of C
    if few is not None:
        coef, H, rank = _principal(A, B, few, ridge)
    elif penalised:
        # in the units of the standardised columns the penalty differs from column to column
        weights = np.where(constant, 1.0, ridge * scale**2)
        H = scale[:, None] * np.linalg.inv(C + np.diag(weights)) * scale
        H = (H + H.T) / 2.0
        coef = scale[:, None] * np.linalg.solve(C + np.diag(weights), scale[:, None] * B)
        rank = int(np.sum(~constant))
    else:
        values, vectors = np.linalg.eigh((C + C.T) / 2.0)
        keep = values > unsure * len(x)
        rank = int(keep.sum())
        inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
        coef = scale[:, None] * (inverse @ (scale[:, None] * B))
        # one step of refinement: the residual is computed in the units of the standardised columns
        left = scale[:, None] * B - C @ (inverse @ (scale[:, None] * B))
        coef = coef + scale[:, None] * (inverse @ left)
        H = scale[:, None] * inverse * scale
        weight = np.abs(size[:, None] * coef).sum(0) + np.sqrt(np.maximum(total, 0.0))
        spread = np.sqrt((inverse**2).sum(1))  # errors of different entries are independent
        rounding = unsure * (scale * spread)[None] * weight[:, None], unsure * weight**2
        if rank < len(x):
            coef, H = _minimum_norm(coef, H, scale, vectors[:, ~keep], constant)
            warn(_collinear(rank, len(x)), LinAlgWarning)
    explained = 2.0 * np.sum(coef * B, 0) - np.sum(coef * (A @ coef), 0)
    pull = (H @ A @ H if penalised else H) / count
    errors = np.maximum(np.diag(pull), 0.0)[None, :].repeat(len(t), 0)
    return _Fit(coef.T, errors, explained, total, rank, pull, rounding, H)


def _collinear(rank: int, predictors: int) -> str:
    return (
        f"The predictors are collinear: they vary in {rank} of {predictors} directions. The coefficients are "
        "those of smallest norm, and single ones have no meaning."
    )


def _principal(A: Array, B: Array, k: int, ridge: float) -> tuple[Array, Array, int]:
    values, vectors = np.linalg.eigh(A)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    keep = values > len(A) * 2.0**-52 * max(float(values[0]), 1e-300)
    values, vectors = values[keep], vectors[:, keep]
    H = (vectors / (values + ridge)) @ vectors.T
    return H @ B, H, int(keep.sum())


def _second_moment(
    sketch: Sketch,
    phi: SecondMomentMap,
    few: int | None,
    centred: bool,
    decoder: str,
    rng: np.random.Generator,
) -> LowRankSolution:
    rank = max(1, min(phi.dim, phi.size // (4 * phi.dim)))
    if few is not None:
        rank = max(rank, min(phi.dim, 2 * few))
    chosen = decoders_of("pca").choose(decoder)
    solution = chosen(sketch, rank, rng=rng, centred=centred, tolerance=1e-7)
    assert isinstance(solution, LowRankSolution)
    return solution


def _from_components(second: LowRankSolution, x: Index, t: Index, ridge: float, few: int | None) -> _Fit:
    """From a second moment of low rank."""
    U = second.vectors * np.sqrt(second.values)
    left, singular, right = np.linalg.svd(U[x], full_matrices=False)
    # eigenvalues that the residual of the decoder could have made carry no information
    keep = singular**2 > max(second.resolution, 1e-12 * float(singular.max(initial=0.0)) ** 2)
    keep[few or len(keep) :] = False
    left, singular, right = left[:, keep], singular[keep], right[keep]
    level = singular**2 + second.isotropic + ridge
    targets = U[t]
    coef = (targets @ right.T) * (singular / level) @ left.T
    total = (targets**2).sum(1) + second.isotropic
    projected = targets @ right.T
    factor = singular / level
    explained = ((projected**2) * (2.0 * factor * singular - factor**2 * (singular**2 + second.isotropic))).sum(1)
    return _Fit(coef, None, explained, total, int(keep.sum()), None)


def _minimum_norm(coef: Array, H: Array, scale: Array, null: Array, constant: Flags) -> tuple[Array, Array]:
    """Take out of a solution whatever lies in the null space, in the units of the columns."""
    directions = scale[:, None] * null
    lengths = np.linalg.norm(directions, axis=0)
    directions = directions[:, lengths > 0] / lengths[lengths > 0]
    if directions.shape[1]:
        left, singular, _ = np.linalg.svd(directions, full_matrices=False)
        basis = left[:, singular > 1e-10 * singular[0]]
        P = np.eye(len(scale)) - basis @ basis.T
        coef, H = P @ coef, P @ H @ P
    coef = np.where(constant[:, None], 0.0, coef)
    return coef, H
