"""Least squares on features, one indicator per class: penalty and band of frequencies by generalised cross-validation.

With the indicators t of the classes, ``E|t - W'f - b|^2 + lambda |W|^2`` needs the mean and covariance of the features
in each class, which the sketches hold.  For every penalty the residual sum and the effective number of parameters
follow from one eigendecomposition, hence ``GCV = RSS / (1 - (df + 1) / n)^2`` (Golub, Heath and Wahba 1979).  The
same for parts of the features: frequencies are sorted by length into bands, and unions of neighbouring bands are
kernels of several scales, of which the best is taken.  Three classes or more are then told apart by their means and
covariances in the space of the fitted indicators, which follow from the sketches too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sketchlearn.arrays import AnyArray, Array, Index
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.evidence import ROWS_EACH
from sketchlearn.decoders.lowrank.solution import CONSTANT
from sketchlearn.decoders.lowrank.solution import Moments as SketchMoments
from sketchlearn.decoders.noise import CHANCE, added_variance
from sketchlearn.decoders.solution import Code, said
from sketchlearn.decoders.verdicts import HELD
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.base import FeatureMap
from sketchlearn.kernels import PRODUCT_BITS
from sketchlearn.models.classifier import ClassifierModel
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.rules import DiscriminantRule, LinearRule, MixtureRule
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch

_PENALTIES = np.logspace(-8.0, 2.0, 41)
_BANDS = 6


class Moments(NamedTuple):
    """Mean (f,) and covariance (f, f) of features in each class, and the classes' shares."""

    means: Array
    covariances: list[Array]
    shares: Array

    @property
    def mean(self) -> Array:
        """Mean of all."""
        return self.shares @ self.means

    def pooled(self) -> tuple[Array, Array]:
        """Covariance of all rows, and their covariance with the indicators of the classes."""
        apart = self.means - self.mean
        total = (self.shares[:, None] * apart).T @ apart
        for share, covariance in zip(self.shares, self.covariances, strict=True):
            total += share * covariance
        return total, (self.shares[:, None] * apart).T


def class_moments(table: SketchTable, class_weights: Array | None, what: str) -> Moments:
    """Moments of the features of each class; `class_weights` multiply the rows of a class."""
    pairs = [feature_moments(s, what) for s in table.values()]
    return Moments(np.stack([mean for mean, _ in pairs]), [c for _, c in pairs], shares_of(table, class_weights))


def shares_of(table: SketchTable, class_weights: Array | None) -> Array:
    """Shares of the classes after weighting."""
    counts = counts_of(table) * (1.0 if class_weights is None else class_weights)
    return np.asarray(counts / counts.sum())


def counts_of(table: SketchTable) -> Array:
    """Rows of each class; ValueError for rows without a class, or a class without rows.

    Of a release they are drawn to their mean by the share of noise in what they differ by (James and Stein 1961).
    """
    if None in table:
        raise ValueError(f"{table[None].count} rows have no class: leave them out, or give them one")
    empty = [label for label, s in table.items() if s.weight <= 0]
    if empty:
        raise ValueError(f"the class {empty[0]!r} has no rows: take it out of the table")
    counts = np.array([float(s.count) for s in table.values()])
    noise = np.mean([0.0 if s.privacy is None else s.privacy.weight_variance for s in table.values()])
    if not noise or len(counts) < 4:  # of three numbers and fewer the observed ones are best
        return counts
    apart = counts - counts.mean()
    kept = max(0.0, 1.0 - (len(counts) - 3) / (len(counts) - 1) * noise / max(float(apart.var(ddof=1)), 1e-300))
    return np.maximum(counts.mean() + kept * apart, 1.0)


def varying(moments: Moments, features: FeatureMap) -> AnyArray:
    """Which features vary over the rows of all classes by more than rounding, (f,)."""
    least = (CONSTANT * np.abs(moments.means).max(0)) ** 2
    if features.as_embedded is not None:  # these are rounded to a grid before they are multiplied
        least = np.maximum(least, 4.0**-PRODUCT_BITS / 12.0)
    return np.asarray(np.diag(moments.pooled()[0]) > least)


def feature_moments(sketch: Sketch, what: str) -> tuple[Array, Array]:
    """Mean and covariance of what a linear rule multiplies: embedded rows, or the columns."""
    phi, weight = sketch.features, float(sketch.weight)
    products, columns = phi.as_embedded, phi.as_second_moment
    if products is not None:
        mean, second = products.moments_from_sums(sketch.sums, weight)
        return mean, second - np.outer(mean, mean)
    if columns is not None and columns.is_exact:
        moments = SketchMoments.of(sketch, what)
        return moments.mean, moments.covariance
    raise UnsuitableMapError(f"{what} needs products of features or of columns, the sketches have {phi.kind} features")


@decoder
def decode_ridge(
    table: SketchTable,
    k: int = 1,
    *,
    rng: np.random.Generator,
    class_weights: Array | None = None,
    alpha: float | None = None,
) -> ClassifierModel:
    """Least squares on the indicators of the classes.

    Sketches are of :class:`~sketchlearn.EmbeddedFeatures`, or of all products of columns for a rule that is linear in
    the columns.  `class_weights` (c,) multiply the rows of the classes; the penalty ``|T - F W|^2 + alpha |W|^2``, as
    in scikit-learn's Ridge, is chosen by cross-validation if it is not given.
    """
    one_component(k, "ridge")
    moments = class_moments(table, class_weights, "ridge classification")
    counts = counts_of(table)
    n = sum(float(s.effective_count) for s in table.values())
    total, across = moments.pooled()
    same = ~varying(moments, table.features)  # and what is left of these is rounding
    total[same], total[:, same], across[same] = 0.0, 0.0, 0.0
    spread = float(moments.shares @ (1.0 - moments.shares))
    noise = _release_noise(table, moments.shares)
    found: _Fit | None = None
    bands, trace = bands_of(table.features), list[dict[str, Any]]()
    for band, chosen in bands:
        at = np.ix_(chosen, chosen)
        fit = _fit(total[at], across[chosen], spread, n, None if alpha is None else alpha / n, band, chosen, noise)
        if fit is not None:
            trace.append({"band": band, "penalty": fit.penalty * n, "gcv": fit.gcv, "parameters": fit.parameters})
        if fit is not None and (found is None or fit.criterion < found.criterion):
            found = fit
        if alpha is not None:
            break  # a given penalty is for all features
    assert found is not None
    weights = np.zeros((len(total), len(counts)))
    weights[found.chosen] = found.coefficients
    intercepts = moments.shares - moments.mean @ weights
    code, verdict = _verdict(found, spread, n, len(bands))
    rule = LinearRule(table.features, weights, intercepts)
    return ClassifierModel(
        **said("classifier", "ridge", found.residual, float("nan"), (code, verdict), 0, trace),
        rule=rule if alpha is not None else _refined(rule, moments, found),
        counts=counts,
        typical=moments.means @ weights + intercepts,
        facts={
            "alpha": found.penalty * n,
            "gcv": found.gcv,
            "band": found.band,
            "parameters": found.parameters,
            "explained": 1.0 - found.gcv / spread if spread > 0 else 0.0,
        },
    ).labelled(table.groups)


def _release_noise(table: SketchTable, shares: Array) -> float:
    """Standard deviation of the noise that a release added to entries of the second moment of all classes."""
    variances = [
        0.0 if s.privacy is None else share**2 * float(np.mean(added_variance(s)))
        for share, s in zip(shares, table.values(), strict=True)
    ]
    return float(np.sqrt(sum(variances)))


def _refined(rule: LinearRule, moments: Moments, fit: _Fit) -> LinearRule | DiscriminantRule:
    """Normal classes in the space of the scores, whose moments the sketches know, where there are three or more.

    Scores of rows that were fitted are closer to their targets than those of new rows, as far as cross-validation says;
    covariances of the classes are drawn halfway to their mean (Friedman 1989).
    """
    if len(rule.intercepts) < 3 or rule.features.as_embedded is None:
        return rule
    w = rule.coefficients[:, :-1]
    means = moments.means @ w + rule.intercepts[:-1]
    own = np.stack([w.T @ covariance @ w for covariance in moments.covariances])
    pooled = np.einsum("c,cij->ij", moments.shares, own)
    level = float(np.trace(pooled)) / len(pooled)
    if not level > 1e-12 or not (moments.shares > 0).all():
        return rule
    optimism = min(fit.gcv / fit.residual, 100.0) if fit.residual > 0 else 100.0
    values, vectors = np.linalg.eigh(0.5 * own + 0.5 * pooled)
    values = optimism * np.maximum(values, 1e-6 * level)  # (sums to which noise was added may have negative ones)
    own = (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    laws = tuple(Mixture(np.ones(1), mean[None], s[None]) for mean, s in zip(means, own, strict=True))
    return DiscriminantRule(rule, MixtureRule(np.log(moments.shares), laws))


def one_component(k: int, what: str) -> None:
    """Refuse several components where a class has one."""
    if k != 1:
        raise ValueError(f"{what} has one component per class, got {k}; decoder='mixture' has several")


def bands_of(features: FeatureMap) -> list[tuple[str, Index]]:
    """Parts of the features to try: all of them, then unions of neighbouring bands of frequencies."""
    products = features.as_embedded
    if products is None:
        return [("all", np.arange(features.dim))]
    everything = np.arange(products.width)
    inner = products.inner
    size = inner.size
    if size < 4 * _BANDS:
        return [("all", everything)]
    spread = inner.spread
    units = np.ones(features.dim) if spread is None else spread
    lengths = inner.operator(dtype=np.float64).quadratic((units**2)[None])[0]
    parts = np.array_split(np.argsort(lengths, kind="stable"), _BANDS)
    out = [("all", everything)]
    for first in range(_BANDS):
        for last in range(first + 2, _BANDS + 1):
            if last - first < _BANDS:
                some = np.sort(np.concatenate(parts[first:last]))
                out.append((f"{first + 1} to {last} of {_BANDS}", np.concatenate([some, some + size])))
    return out


class _Fit(NamedTuple):
    coefficients: Array
    penalty: float
    gcv: float
    criterion: float
    residual: float
    parameters: float
    band: str
    chosen: Index


def _fit(
    total: Array, across: Array, spread: float, n: float, penalty: float | None, band: str, chosen: Index, noise: float
) -> _Fit | None:
    """The best penalty for some features, or the one that is given; None if there are too few rows for any.

    `noise` is the standard deviation of entries of `total` that a release added.  The largest eigenvalue of a symmetric
    matrix of such noise is about ``2 sqrt(width) noise`` (Wigner): what is smaller is noise, and no penalty is below.
    Of forty rows the best of many fits is best by chance: there parameters count twice.  Beyond 0.95 of the rows
    cross-validation says nothing.
    """
    values, vectors = np.linalg.eigh(total)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ across
    unit, price = float(values.mean()) or 1.0, 1.0 + 40.0 / n

    def at(level: float) -> _Fit:
        shrink = 1.0 / np.where(values + level > 0, values + level, np.inf)
        parameters, weights = float((values * shrink).sum()), shrink[:, None] * rotated
        residual = spread - 2.0 * float((weights * rotated).sum()) + float((values[:, None] * weights**2).sum())
        gcv, criterion = (
            max(residual, 0.0) / max(1.0 - each * (parameters + 1.0) / n, 1e-12) ** 2 for each in (1.0, price)
        )
        return _Fit(vectors @ weights, level, gcv, criterion, residual, parameters, band, chosen)

    if penalty is not None:
        return at(penalty)
    levels = np.maximum(_PENALTIES * unit, 2.0 * np.sqrt(len(total)) * noise)
    fits = [fit for fit in map(at, levels.tolist()) if price * (fit.parameters + 1.0) <= 0.95 * n]
    if not fits and band == "all":
        # a handful of rows: the largest penalty, and the verdict says what that is worth
        return at(float(_PENALTIES[-1] * unit))
    return min(fits, key=lambda fit: fit.criterion, default=None)


def _verdict(fit: _Fit, spread: float, n: float, tried: int) -> tuple[Code, str]:
    """What a fit is worth, which is the best of those with so many bands of frequencies.

    If classes are alike, the share of the variance that is explained in the rows that were seen, which cross-validation
    takes to be twice the parameters over the rows too much, is about chi-squared over the rows.
    """
    from scipy.special import gammaincc

    if spread <= 0:
        return Code.UNDETERMINED, "all rows are of one class: there is nothing to tell apart"
    explained = 1.0 - fit.gcv / spread
    if explained <= 0.0:
        return (
            Code.MISFIT,
            "Not certified. The features don't separate the classes: the shares of the classes predict as well.",
        )
    p = tried * float(gammaincc(0.5 * max(fit.parameters, 1.0), 0.5 * n * explained + fit.parameters))
    if p > CHANCE:
        return (
            Code.UNDETERMINED,
            f"Not certified. The differences between the classes may be chance (p = {min(p, 1.0):.2g}).",
        )
    seen = 1.0 - fit.residual / spread
    # cross-validation takes all rows to be alike: rows that have a parameter each are not, and nothing shows them
    if explained < HELD * seen or n < ROWS_EACH * fit.parameters:
        return Code.UNDETERMINED, (
            f"Not certified. There are too few rows: {fit.parameters:.0f} effective parameters for {n:.0f} rows. The "
            f"rule explains {seen:.1%} of the variance of the class indicators in these rows, but {explained:.1%} in "
            "new rows (cross-validation)."
        )
    verdict = (
        "Reliable. The coefficients are those of least squares on the rows. In new rows they explain about "
        f"{explained:.1%} of the variance of the class indicators (cross-validation). There are {fit.parameters:.0f} "
        f"effective parameters for {n:.0f} rows."
    )
    return Code.RELIABLE, verdict
