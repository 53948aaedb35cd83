"""Independent components from cumulants along directions.

Rows are ``x = A s`` with independent sources.  In coordinates in which they are uncorrelated, of variance 1, the mixing
is a rotation R, and the fourth cumulant along v is ``sum_i kappa_i (r_i . v)**4`` (kappa: excess kurtosis of a
source).  R and kappa are fitted by generalised least squares: cumulants of independent sources have a covariance in
closed form (:func:`cumulant_covariance`), which says how much each of them is worth.  Sources that are flatter than
normal are known much better than peaked ones, and the weights make use of it: JADE and the cubic contrast, which
weigh all cumulants alike, have about twice the error where both kinds are mixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import nnls

from sketchlearn.arrays import Array, Flags
from sketchlearn.decoders.budget import ROUNDS, SECOND, announce, charge, over, running
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.noise import CHANCE, DEVIATIONS, PROBES
from sketchlearn.decoders.solution import Code, said
from sketchlearn.features.quartic import QuarticFeatures, quartic, usual_radius
from sketchlearn.models.ica import ICAModel
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

Moments: TypeAlias = Callable[[Array], tuple[Array, Array, Array]]
LIMIT = 2.5  # misfit over noise floor that is let pass: eighth moments behind the floor are only roughly known


@decoder
def decode_ica(sketch: Sketch, k: int, *, rng: np.random.Generator, starts: int = 10) -> ICAModel:
    """The k independent components that are farthest from normal.

    There are at most `starts` random starts, and none if the first one, which is not random, explains the sketch.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> S = np.random.default_rng(0).uniform(-1.0, 1.0, (20_000, 2))
    >>> X = S @ np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> s = sl.sketch(X, sl.design(X[:2000], task="ica"))
    >>> found = sl.decode(s, 2, task="ica")
    >>> found.kurtosis.round(1), found.n_sources, found.reliable
    (array([-1.2, -1.2]), 2, True)
    """
    phi = quartic(sketch.features, "independent component analysis")
    count = sketch.effective_count
    size = affordable(phi.size, phi.dim)
    announce(1.5 * 8.0 * size**2, sketch.sums.nbytes + 8.0 * phi.size * phi.dim)
    cumulants, directions, root, mean = whitened_cumulants(sketch, phi, size)
    d = directions.shape[1]
    near = phi.radius < usual_radius(phi.dim)
    best = _explained(cumulants, directions, np.eye(d), count, rng, near)
    trace = []
    for _ in range(starts):
        trace.append({"ratio": best.ratio, "rounds": best.rounds})
        if not best.ratio > LIMIT or d == 1 or over("other starts"):
            break
        turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
        found = _explained(cumulants, directions, turned, count, rng, near)
        best = found if found.ratio < best.ratio else best
    order = np.argsort(-np.abs(best.kurtosis), kind="stable")
    rotation, kurtosis, std = best.rotation[:, order], best.kurtosis[order], best.kurtosis_std[order]
    inverse = np.linalg.inv(phi.matrix)
    mixing = inverse @ root @ rotation
    components = rotation.T @ np.linalg.pinv(root) @ phi.matrix
    sign = np.where(mixing[np.abs(mixing).argmax(0), np.arange(d)] < 0, -1.0, 1.0)
    sources = _not_normal(kurtosis, std, count)
    code, verdict = _verdict(best, sources, d, count)
    varying = phi.dim if not sketch.has_box else int(np.count_nonzero(sketch.upper > sketch.lower))
    if code is Code.RELIABLE and d < varying:
        code = Code.UNDETERMINED
        verdict = (
            f"{verdict} The {varying} columns vary in {d} directions only, so at most {d} sources can be separated."
        )
    floor = best.value / best.ratio if best.ratio > 0 else float("nan")
    return ICAModel(
        **said("ica", "cumulants", best.value, floor, (code, verdict), best.rounds, trace, best.ratio),
        components=(sign[:, None] * components)[:k],
        mixing=(mixing * sign)[:, :k],
        mean=phi.origin + inverse @ mean,
        kurtosis=kurtosis[:k],
        kurtosis_std=std[:k],
        n_sources=int(sources.sum()),
        leakage=best.leakage,
    )


# -- the sketch --------------------------------------------------------------------------------------


def work(m: int, d: int) -> float:
    """Multiply-adds of one start with m directions in d columns: large products, which run twice as fast as others.

    A start has three metrics, and thirty rounds of its three fits together, usually.
    """
    turns = 0.5 * d * (d + 1)
    return 0.5 * (3 * m**3 / 6.0 + 30 * (0.5 * m**2 * turns + m * turns**2))


def affordable(m: int, d: int) -> int:
    """How many of m directions the budget allows; ValueError, with what it does allow, if they are too few."""
    limit, least = running().left, min(fewest_directions(d), m)
    if work(m, d) <= limit:
        return m
    if work(least, d) > limit:
        widest = next((c for c in range(d - 1, 1, -1) if work(fewest_directions(c), c) <= limit), 1)
        raise ValueError(
            f"independent components of {d} columns take about {work(least, d) / SECOND:.0f} s of CPU, more than the "
            f"budget of {limit / SECOND:.3g} s allows: up to {widest} columns can be separated within it (leave "
            "columns out or project them on principal components first); sl.decoding_budget(seconds) allows more"
        )
    low, high = least, m
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if work(middle, d) <= limit else (low, middle)
    return low


def fewest_directions(d: int) -> int:
    """Directions that determine a covariance of d columns."""
    return d * (d + 1) // 2 + d


def whitened_cumulants(sketch: Sketch, phi: QuarticFeatures, count: int) -> tuple[Array, Array, Array, Array]:
    """Cumulants (m,) along unit directions (m, r), the root of the covariance (d, r) and the mean of the map's rows.

    Of the directions of the map, `count` are looked at, the same ones in every decoding.
    """
    moments = phi.moments_from_sums(sketch.sums, float(sketch.weight))
    chosen = np.sort(np.random.default_rng(phi.size).permutation(phi.size)[:count])
    e1, e2, e3, e4 = (x[chosen] for x in (moments.first, moments.second, moments.third, moments.fourth))
    variance = e2 - e1**2
    cumulants = e4 - 4.0 * e1 * e3 + 6.0 * e1**2 * e2 - 3.0 * e1**4 - 3.0 * variance**2
    units = phi.directions[chosen] / phi.lengths[chosen, None]
    covariance = _covariance(units, variance)
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-7 * max(float(values[-1]), 1e-300)
    root = vectors[:, keep] * np.sqrt(values[keep])
    root = root @ vectors[:, keep].T if keep.all() else root  # symmetric: the axes stay where the map has them
    seen = units @ root
    squares = (seen**2).sum(1)
    used = squares > 1e-3 * float(squares.mean())
    scale = squares[used]
    return cumulants[used] / scale**2, seen[used] / np.sqrt(scale)[:, None], root, moments.mean


def _covariance(units: Array, variances: Array) -> Array:
    """The covariance whose quadratic forms along directions are these variances."""
    d = units.shape[1]
    i, j = np.triu_indices(d)
    if len(units) < fewest_directions(d):
        raise ValueError(f"{len(units)} directions are too few for {d} columns: draw at least {fewest_directions(d)}")
    forms = units[:, i] * units[:, j] * np.where(i == j, 1.0, 2.0)
    found = np.linalg.lstsq(forms, variances, rcond=None)[0]
    covariance = np.zeros((d, d))
    covariance[i, j] = covariance[j, i] = found
    return covariance


# -- noise -------------------------------------------------------------------------------------------


def source_moments(kurtosis: Array) -> tuple[Array, Array, Array]:
    """Fourth, sixth and eighth moments of sources of variance 1, from their excess kurtosis.

    Of the generalised normal law ``exp(-|s|**b)`` with this kurtosis, between that of a uniform law and of b = 1/2.
    """
    from scipy.special import gammaln

    powers = 2.0 ** np.linspace(-1.0, 8.0, 4000)

    def moment(order: int, b: Array) -> Array:
        logs = gammaln((order + 1) / b) - gammaln(1 / b) + 0.5 * order * (gammaln(1 / b) - gammaln(3 / b))
        return np.asarray(np.exp(logs))

    of = moment(4, powers) - 3.0  # falls with the power
    b = np.exp2(np.interp(-np.asarray(kurtosis, np.float64), -of, np.log2(powers)))
    return moment(4, b), moment(6, b), moment(8, b)


def sparse_moments(kurtosis: Array) -> tuple[Array, Array, Array]:
    """Fourth, sixth and eighth moments of sources that are normal with probability ``3 / (kurtosis + 3)``, else zero.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.decoders.ica import sparse_moments
    >>> [float(moment[0].round(6)) for moment in sparse_moments(np.array([27.0]))]
    [30.0, 1500.0, 105000.0]
    """
    share = 3.0 / (np.maximum(np.asarray(kurtosis, np.float64), 0.0) + 3.0)
    return 3.0 / share, 15.0 / share**2, 105.0 / share**3


def cumulant_covariance(V: Array, kurtosis: Array | None, moments: Moments = source_moments) -> Array:
    """Covariance, times the number of rows, of fourth cumulants along directions V (m, d) in source coordinates.

    Of what is left of sample cumulants when the model is computed with the sample covariance, for independent,
    symmetric sources; None stands for normal ones, for which it is ``24 (v . v')**4``.  Products of different powers
    of different sources are uncorrelated, so that it is a sum over monomials of degree four.
    """
    if kurtosis is None:
        return np.asarray(24.0 * (V @ V.T) ** 4)
    fourth, sixth, eighth = moments(kurtosis)
    kappa = fourth - 3.0
    square = fourth - 1.0  # variance of s**2
    cube = sixth - fourth**2  # of s**3 without its part along s
    linear = 6.0 + 2.0 * kappa
    power = eighth - fourth**2 - 2.0 * linear * (sixth - fourth) + linear**2 * square  # of s**4 - linear * s**2
    V2, V3 = V**2, V**3
    V4 = V2**2
    out = np.empty((len(V), len(V)))
    for at in range(0, len(V), 256):  # a dozen matrices at a time are enough of a block
        rows = slice(at, at + 256)
        a, a2, a3, a4 = V[rows], V2[rows], V3[rows], V4[rows]
        p1, p2, p3, p4 = a @ V.T, a2 @ V2.T, a3 @ V3.T, a4 @ V4.T
        distinct = (p1**4 - 6 * p1**2 * p2 + 3 * p2**2 + 8 * p1 * p3 - 6 * p4) / 24.0
        b2, b3, b4 = (a2 * square) @ V2.T, (a3 * square) @ V3.T, (a4 * square) @ V4.T
        one_square = 0.5 * ((p1**2 - p2) * b2 - 2 * p1 * b3 + 2 * b4)
        two_squares = 0.5 * (b2**2 - (a4 * square**2) @ V4.T)
        # a cube times another source: its own noise, and what the sample covariance adds to both cubes of a pair
        weight = 16.0 * cube + 4.0 * kappa**2
        cubes = (a3 * weight) @ V3.T * p1 - (a4 * (weight + 4.0 * kappa**2)) @ V4.T
        shared = 4.0 * ((a3 * kappa) @ V.T) * (a @ (V3 * kappa).T)
        out[rows] = 576 * distinct + 144 * one_square + 36 * two_squares + cubes + shared + (a4 * power) @ V4.T
    return out


# -- the fit -----------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    rotation: Array
    kurtosis: Array
    kurtosis_std: Array
    value: float
    ratio: float
    leakage: float
    rounds: int


def _explained(cumulants: Array, V: Array, start: Array, count: float, rng: np.random.Generator, near: bool) -> _Fit:
    """Least squares in the metric of normal sources, then in that of the sources that were found, twice.

    Rows that are clipped `near` share their length, so that of two sources one is small where the other is large: what
    that takes from the products of their squares is no misfit.  What they have in addition is one.
    """
    metric = CumulantMetric(V, None)
    rotation, kurtosis, _, rounds = _turned(cumulants, V, start, metric)
    for _ in range(2):
        del metric  # (one of these matrices at a time is enough)
        metric = CumulantMetric(V @ rotation, kurtosis)
        rotation, kurtosis, value, more = _turned(cumulants, V, rotation, metric)
        rounds += more
    d = V.shape[1]
    freedom = metric.rank(rng) - 0.5 * d * (d + 1)
    if near:
        P = V @ rotation
        i, j = np.triu_indices(d, 1)
        own = np.linalg.qr(metric.whiten(P**4))[0]
        pairs, target = metric.whiten((P[:, i] * P[:, j]) ** 2), metric.whiten(cumulants)
        taken, rest = nnls(own @ (own.T @ pairs) - pairs, target - own @ (own.T @ target), maxiter=30 * len(i))
        value = rest**2
        freedom -= int(np.count_nonzero(taken))
    ratio = value * count / freedom if freedom >= 1.0 else float("nan")
    whole = metric.whiten(_linearised(V @ rotation, kurtosis))
    information = whole.T @ whole
    information[np.diag_indices(len(information))] += 1e-9 * float(np.trace(information)) / len(information)
    variances = np.diag(np.linalg.inv(information)) / count
    turns = float(variances[d:].mean()) if d > 1 else 0.0
    leakage = float(np.sqrt(min(turns + 0.25 / count, 1.0)))
    return _Fit(rotation, kurtosis, np.sqrt(variances[:d]), value, ratio, leakage, rounds)


class CumulantMetric:
    """The inverse root of a covariance of cumulants."""

    def __init__(self, V: Array, kurtosis: Array | None, moments: Moments = source_moments) -> None:
        from scipy.linalg import cholesky

        covariance = cumulant_covariance(V, kurtosis, moments)
        self._ridge = 1e-4 * float(np.mean(np.diag(covariance)))  # of directions that are nearly combinations of others
        covariance[np.diag_indices(len(covariance))] += self._ridge
        self._root = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)

    def whiten(self, values: Array) -> Array:
        """Cumulants, or columns of them, in units in which their noise is independent, of variance 1."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._root, values, lower=True, check_finite=False))

    def rank(self, rng: np.random.Generator) -> float:
        """How many cumulants there are, not counting those that are combinations of others (by random probes)."""
        m = len(self._root)
        signs = rng.choice([-1.0, 1.0], size=(m, PROBES))
        return m - self._ridge * float(np.mean(np.sum(self.whiten(signs) ** 2, axis=0)))


def _linearised(P: Array, kurtosis: Array) -> Array:
    """Derivatives of the cumulants by kurtoses, which are the fourth powers, and by turns of any two axes."""
    i, j = np.triu_indices(P.shape[1], 1)
    cubes = P**3
    turns = 4.0 * (P[:, i] * cubes[:, j] * kurtosis[j] - P[:, j] * cubes[:, i] * kurtosis[i])
    return np.concatenate([cubes * P, turns], axis=1)


def _turned(cumulants: Array, V: Array, rotation: Array, metric: CumulantMetric) -> tuple[Array, Array, float, int]:
    """Rotation and kurtoses that fit best: Gauss-Newton with a step that is damped until it helps."""
    d = V.shape[1]
    target = metric.whiten(cumulants)
    damping, rounds = 1e-3, 0
    kurtosis, value = _kurtosis(target, V @ rotation, metric)
    m, p = len(V), d * (d + 1) / 2
    while rounds < ROUNDS and not (rounds and over("more rounds of the fit")):
        rounds += 1
        charge(0.5 * (0.5 * m * m * p + m * p * p))
        whole = metric.whiten(_linearised(V @ rotation, kurtosis))
        left = target - whole[:, :d] @ kurtosis
        normal, slope = whole.T @ whole, whole.T @ left
        scale = np.maximum(np.diag(normal), 1e-12 * float(np.trace(normal)) / len(normal))
        moved = gained = 0.0
        while damping < 1e6:
            step: Array = np.linalg.solve(normal + np.diag(damping * scale), slope)[d:].astype(np.float64)
            step *= min(1.0, 0.5 / max(float(np.abs(step).max(initial=0.0)), 1e-300))
            trial = rotation @ _rotation(step, d)
            new, error = _kurtosis(target, V @ trial, metric)
            if error <= value:
                moved = float(np.abs(step).max(initial=0.0))
                gained = value - error
                rotation, kurtosis, value = trial, new, error
                damping = max(damping / 10.0, 1e-9)
                break
            damping *= 10.0
        if moved < 1e-8 or gained < 1e-7 * value:
            break
    return rotation, kurtosis, value, rounds


def _kurtosis(target: Array, P: Array, metric: CumulantMetric) -> tuple[Array, float]:
    """Kurtoses for a rotation, by least squares, and the squares that are left."""
    powers = metric.whiten(P**4)
    found: Array = np.linalg.lstsq(powers, target, rcond=None)[0].astype(np.float64)
    return found, float(np.sum((target - powers @ found) ** 2))


def _rotation(turns: Array, d: int) -> Array:
    """The rotation of some small turns: Cayley's, which is one to rounding, for any turns."""
    half = np.zeros((d, d))
    half[np.triu_indices(d, 1)] = 0.5 * turns
    half -= half.T
    return np.asarray(np.linalg.solve(np.eye(d) - half, np.eye(d) + half))


# -- what it means -----------------------------------------------------------------------------------


def _not_normal(kurtosis: Array, std: Array, count: float) -> Flags:
    """Which sources have a kurtosis that is no chance, for all of them together."""
    from scipy.special import ndtri

    level = -float(ndtri(0.5 * CHANCE / len(kurtosis)))
    return np.asarray(np.abs(kurtosis) > level * np.maximum(std, np.sqrt(24.0 / max(count, 1.0))))


def _verdict(best: _Fit, sources: Flags, d: int, count: float) -> tuple[Code, str]:
    if best.ratio > LIMIT:
        return Code.MISFIT, (
            "Not certified. The rows are not a linear mixture of so many independent sources, or too many rows were "
            f"clipped: the misfit of the cumulants is {best.ratio:.3g} times the noise floor."
        )
    if np.isnan(best.ratio):
        return Code.UNDETERMINED, (
            f"Not certified. The model of {counted(d, 'source')} has as many parameters as there are cumulants, so "
            "nothing tests it."
        )
    if (best.kurtosis + DEVIATIONS * best.kurtosis_std < -2.0).any():
        return Code.MISFIT, (
            "Not certified. The rows are not a mixture of so many sources, or they hardly vary in some direction: an "
            f"excess kurtosis of {float(best.kurtosis.min()):.3g} is impossible (below -2)."
        )
    normal = int((~sources).sum())
    quality = f"about {best.leakage:.2g} of the other sources remain in each"
    if normal == d:
        return (
            Code.UNDETERMINED,
            f"Not certified. {count:.6g} rows show only sources that may be normal, and these can't be separated.",
        )
    if normal > 1:
        return Code.UNDETERMINED, (
            f"Not certified. {d - normal} sources were separated. The other {normal} may be normal, and normal sources "
            "can't be separated."
        )
    return Code.RELIABLE, f"Reliable. The sources explain the cumulants down to their noise; {quality}."
