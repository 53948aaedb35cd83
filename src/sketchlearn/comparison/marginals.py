"""Means and standard deviations of single columns, read off a sketch whose frequencies mix all columns.

A weighted sum of features, ``g(x) = c_0 + sum_k c_k exp(i w_k·x)``, has an average that the sketch knows exactly.  If g
is near the value of a column wherever there are rows, its average is near the mean of that column, whatever the law
of the rows.  The best weights in the mean square are those of a linear regression of the column on the features, ``S^-1
h``, where S is the covariance of the features and h their covariance with the column.  Both have closed forms under
a Gaussian mixture that describes the rows (:mod:`sketchlearn.decoders.description`); the mixture only says where the
approximation has to be good.  Squares of columns are read in the same way.

What the regression leaves is what the sketch can't see.  Its variance r gives a bound: between two laws p and q it
shifts the average by at most ``sqrt(r * chi2)``, where chi2 is the integral of ``(p - q)^2`` over the density of all
rows (Cauchy and Schwarz).  The part of chi2 that the features see is known.  What they don't see can be as much as that
of two laws that don't overlap, in proportion to the share of the variance of a column that is left.

Maps for monitoring have features of single columns (:class:`sketchlearn.features.MonitoringFeatures`).  The regression
is then on those alone, over the range of the column instead of under a mixture, and the largest residual is a bound.

All rows are in the box of their sketch.  So a mean is known at least to the width of the box: that tells shifts beyond
all that the features were designed for.

The mixture may miss rows far out.  One row's weight is therefore spread over the box: a weighted sum of features that
is wrong out there then has a residual that says so, and its weights stay small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array, Complex, Index
from sketchlearn.comparison.two_sample import ROUNDING, characteristic_values, chosen_entries, feature_covariance
from sketchlearn.decoders.metric import box_of
from sketchlearn.decoders.noise import added_variance, sampling_variance
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.monitoring import MonitoringFeatures
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch, pooled
from sketchlearn.threads import single_blas_thread

_APART = 4.0  # chi2 of two laws that don't overlap, in equal parts of all rows
_POINTS = 400  # of a range, over which a residual is measured
_NEAR = 2.0  # times the reach of a column, up to which its harmonics follow its values
_DAMPING = 1e-12  # mean square of a residual per squared weight: features are rounded to about 1e-7


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and standard deviation of every column, with standard errors, of one sketch.

    `mean`, `deviation`: in the units of the columns, (d,). `mean_error`, `deviation_error`: standard errors, (d,):
    sampling rows, additive noise.
    """

    mean: Array
    deviation: Array
    mean_error: Array
    deviation_error: Array


@dataclass(frozen=True, eq=False)
class Marginals:
    """Moments of the columns in two sketches.

    `before`, `after`: of the two sketches. `unseen_mean`, `unseen_deviation`: how much a change of the mean or of the
    standard deviation could differ because of what the features miss, (d,).
    """

    before: Moments
    after: Moments
    unseen_mean: Array
    unseen_deviation: Array


def marginals(a: Sketch, b: Sketch, mixture: Mixture | None = None) -> Marginals:
    """Moments of the columns in two sketches, given a mixture that describes the rows of both.

    Without a mixture one is decoded from the sum, if it is needed.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.comparison.marginals import marginals
    >>> before, after = np.random.default_rng(0).normal(size=(2, 4000, 2))
    >>> after = after * [1.0, 2.0] + [3.0, 0.0]
    >>> phi = sl.design(before, n_components=5)
    >>> a, b = sl.sketch(before, phi), sl.sketch(after, phi)
    >>> found = marginals(a, b)
    >>> bool(np.allclose(found.after.mean, after.mean(0), atol=0.02))
    True
    >>> bool(np.allclose(found.after.deviation, after.std(0), rtol=0.02))
    True
    """
    features = characteristic(a.features, "a comparison")
    if isinstance(features, MonitoringFeatures):
        return _of_single_columns(features, (a, b))
    if mixture is None:
        from sketchlearn.decoders.description import describe  # loads the decoders of mixtures

        mixture = describe(pooled([a, b]))
    chosen = chosen_entries(features.size)
    w = features.operator(dtype=np.float64).rows(np.arange(features.size)[chosen]).frequencies()
    noise = [np.tile(added_variance(s)[chosen] / 2.0, 2) for s in (a, b)]
    with single_blas_thread:
        return _read(w, (a, b), noise, _with_outlier(mixture, pooled([a, b])))


def _read(w: Array, sketches: tuple[Sketch, Sketch], added: list[Array], mixture: Mixture) -> Marginals:
    d, middle = w.shape[1], mixture.mean
    difference, total, z = characteristic_values(mixture, w)
    covariance = feature_covariance(difference, total, z, sampling_variance(np.abs(z) ** 2))
    targets, variances = _covariances_with_columns(mixture, w, z)
    damped = covariance + np.diag(added[0] + added[1] + ROUNDING)
    from scipy.linalg import cho_factor, cho_solve  # slow to import

    factor = cho_factor(damped, lower=True)
    weights = cho_solve(factor, targets)
    left = np.maximum(variances - 2.0 * (targets * weights).sum(0) + (weights * (covariance @ weights)).sum(0), 0.0)
    squares = np.diag(mixture.covariance)
    moments, parts = [], []
    for sketch, more in zip(sketches, added, strict=True):
        apart = sketch.mean[: len(w)] - z
        stacked = np.concatenate([apart.real, apart.imag])
        moved = stacked @ weights
        mean, square = moved[:d], squares + moved[d:]
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        # standard errors: of g itself, and of the standard deviation through that of (g_2 - 2 mean g_1) / 2 deviation
        second = (weights[:, d:] - 2.0 * mean * weights[:, :d]) / (2.0 * np.maximum(deviation, 1e-300))
        errors = [
            np.sqrt(((covariance @ c) * c).sum(0) / sketch.effective_count + (c**2).T @ more + rest)
            for c, rest in (
                (weights[:, :d], left[:d] / sketch.effective_count),
                (second, left[d:] / (2.0 * np.maximum(deviation, 1e-300)) ** 2 / sketch.effective_count),
            )
        ]
        moments.append(Moments(middle + mean, deviation, *errors))
        parts.append(stacked)
    seen = _divergence(parts[1] - parts[0], factor, covariance, sketches, added)
    unseen = np.sqrt(left * (seen + _APART * left / np.maximum(variances, 1e-300)))
    before, after = moments
    typical = np.sqrt(np.maximum(before.deviation * after.deviation, 1e-300))
    return Marginals(before, after, unseen[:d], unseen[d:] / (2.0 * typical))


def _divergence(
    difference: Array,
    factor: tuple[Array, bool],
    covariance: Array,
    sketches: tuple[Sketch, Sketch],
    added: list[Array],
) -> float:
    """chi2 between the laws of two sketches as far as the features see it, less what noise contributes."""
    rows = sum(1.0 / s.effective_count for s in sketches)
    noise = covariance * rows + np.diag(added[0] + added[1])
    from scipy.linalg import cho_solve  # slow to import

    seen = float(difference @ cho_solve(factor, difference)) - float(np.trace(cho_solve(factor, noise)))
    return max(seen, 0.0)


def _with_outlier(mixture: Mixture, sketch: Sketch) -> Mixture:
    """The mixture, within the box, with the weight of one row spread over it.

    Rows in a box have standard deviations of at most half its width.  A mixture that is wider in some column has not
    seen it: in such columns it is shrunk to that.
    """
    lower, upper = box_of(sketch)
    middle, half = 0.5 * (lower + upper), 0.5 * np.maximum(upper - lower, 0.0)
    deviation = np.sqrt(np.maximum(np.diag(mixture.covariance), 1e-300))
    shrunk = np.minimum(half / deviation, 1.0)
    inside = np.where(shrunk < 1.0, middle + shrunk * (mixture.means - mixture.mean), mixture.means)
    share = 1.0 / (1.0 + sketch.effective_count)
    return Mixture(
        np.append(mixture.weights * (1.0 - share), share),
        np.concatenate([inside, middle[None]]),
        np.concatenate([mixture.full_covariances() * np.outer(shrunk, shrunk), np.diag(half**2 / 3.0)[None]]),
    )


def _covariances_with_columns(mixture: Mixture, w: Array, z: Complex) -> tuple[Array, Array]:
    """Covariances of cosines and sines with the columns and their squares, (2m, 2d), and variances of those, (2d,).

    Columns count from the mean of the mixture.  With y normal, ``E y exp(i w·y) = (m + i C w) phi(w)`` and
    ``E y_j^2 exp(i w·y) = (C_jj + (m + i C w)_j^2) phi(w)``.
    """
    m, d = w.shape
    first, second = np.zeros((m, d), complex), np.zeros((m, d), complex)
    middle, squares, fourth = mixture.mean, np.zeros(d), np.zeros(d)
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.full_covariances(), strict=True):
        turned = w @ covariance
        value = weight * np.exp(1j * (w @ mean) - 0.5 * (turned * w).sum(1))
        place, variance = mean - middle, np.diag(covariance)
        centre = place + 1j * turned
        first += value[:, None] * centre
        second += value[:, None] * (variance + centre**2)
        squares += weight * (variance + place**2)
        fourth += weight * (3.0 * variance**2 + 6.0 * variance * place**2 + place**4)
    second -= z[:, None] * squares
    both = np.concatenate([first, second], axis=1)
    return np.concatenate([both.real, both.imag]), np.concatenate([squares, np.maximum(fourth - squares**2, 0.0)])


# -- from features of single columns ----------------------------------------------------------------


def _of_single_columns(features: MonitoringFeatures, sketches: tuple[Sketch, Sketch]) -> Marginals:
    boxes = [box_of(s if s.has_box else pooled(list(sketches))) for s in sketches]
    columns = [_one_column(features, j, sketches, [(float(b[0][j]), float(b[1][j])) for b in boxes])
               for j in range(features.dim)]  # fmt: skip
    before, after, unseen = (np.array(part) for part in zip(*columns, strict=True))
    return Marginals(Moments(*before.T), Moments(*after.T), unseen[:, 0], unseen[:, 1])


def _one_column(
    features: MonitoringFeatures, column: int, sketches: tuple[Sketch, Sketch], boxes: list[tuple[float, float]]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, float]]:
    """Mean, deviation and their errors in both sketches; how much the features may miss of their change.

    The column is measured from its centre in units of its reach.
    """
    entries, reach = features.entries_of(column), float(features.reach[column])
    middle = 0.0 if features.center is None else float(features.center[column])
    orders = np.arange(1, features.harmonics + 1)
    edges = [((low - middle) / reach, (high - middle) / reach) for low, high in boxes]
    low, high = min(low for low, _ in edges), max(high for _, high in edges)
    near = np.linspace(max(low, -_NEAR), min(high, _NEAR), _POINTS)
    far = np.linspace(low, high, _POINTS)
    rows = sum(1.0 / s.effective_count for s in sketches)
    points = np.concatenate([near, far])
    shares = np.repeat([1.0 / _POINTS, rows / _POINTS], _POINTS)
    noise = [np.tile(added_variance(s)[entries] / 2.0, 2) for s in sketches]
    basis = _waves(points, orders)
    damping = np.concatenate([[0.0], noise[0] + noise[1] + _DAMPING])
    targets = np.stack([points, points**2, points**4], axis=1)
    weights = np.linalg.lstsq(
        np.concatenate([basis * np.sqrt(shares)[:, None], np.diag(np.sqrt(damping))]),
        np.concatenate([targets * np.sqrt(shares)[:, None], np.zeros((len(damping), 3))]),
        rcond=None,
    )[0]
    out, deviations, missed = [], [], np.zeros(3)
    for sketch, added, edge in zip(sketches, noise, edges, strict=True):
        unseen = _missed(weights, orders, edge, sketch.effective_count)
        z = sketch.mean[entries] * np.exp(-1j * orders * middle / reach)
        first, second, fourth = np.concatenate([[1.0], z.real, z.imag]) @ weights
        variance = max(second - first**2, 0.0)
        # the fourth moment about the mean is at least the square of the variance
        spread = max(fourth - second**2, 2.0 * variance**2, 0.0)
        n, deviation = sketch.effective_count, np.sqrt(variance)
        half = 0.5 * (edge[1] - edge[0])
        errors = [
            np.sqrt(of_rows / n + added @ (c[1:] ** 2))
            for of_rows, c in ((variance, weights[:, 0]), (spread, weights[:, 1] - 2.0 * first * weights[:, 0]))
        ]
        if sketch.has_box and unseen[0] + errors[0] > half:  # the box says more than the features
            first, errors[0], unseen[0] = 0.5 * (edge[0] + edge[1]), half, 0.0
            deviation = min(deviation, half)
        missed += unseen
        out.append(
            (
                middle + reach * first,
                reach * deviation,
                reach * errors[0],
                reach * errors[1] / (2.0 * max(deviation, 1e-300)),
            )
        )
        deviations.append(deviation)
    typical = max(np.sqrt(deviations[0] * deviations[1]), 1e-300)
    return out[0], out[1], (reach * missed[0], reach * missed[1] / (2.0 * typical))


def _missed(weights: Array, orders: Index, edge: tuple[float, float], n: float) -> Array:
    """How much weighted sums of the harmonics can miss of the moments of n rows between two values.

    Up to one row may lie anywhere in the box, all others where the harmonics follow the values.  Where the box has no
    such part, all rows are out there.
    """
    near = (max(edge[0], -_NEAR), min(edge[1], _NEAR))
    worst = []
    for low, high in (near, edge) if near[0] <= near[1] else (edge, edge):
        points = np.linspace(low, high, _POINTS)
        targets = np.stack([points, points**2, points**4], axis=1)
        worst.append(np.abs(_waves(points, orders) @ weights - targets).max(0))
    return np.asarray(worst[0] + worst[1] / n)


def _waves(points: Array, orders: Index) -> Array:
    """1, cosines and sines of the harmonics at some points."""
    phases = np.outer(points, orders)
    return np.concatenate([np.ones((len(points), 1)), np.cos(phases), np.sin(phases)], axis=1)
