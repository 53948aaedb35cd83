"""From a sketch to a low-rank second moment, with what it explains and what it doesn't."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders import verdicts
from sketchlearn.decoders.budget import announce
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.lowrank.burer_monteiro import burer_monteiro
from sketchlearn.decoders.lowrank.greedy import greedy
from sketchlearn.decoders.lowrank.nuclear import nuclear
from sketchlearn.decoders.lowrank.positive import positive
from sketchlearn.decoders.lowrank.problem import Estimate, Problem
from sketchlearn.decoders.lowrank.shrunk import drowned, shrunk
from sketchlearn.decoders.lowrank.thresholding import thresholding
from sketchlearn.decoders.noise import added_variance, sums_with_shrunk_mean
from sketchlearn.decoders.solution import Code, LowRankSolution, said
from sketchlearn.exceptions import UnsuitableMapError
from sketchlearn.features.second_moment import SecondMomentMap, second_moment
from sketchlearn.models.solution import FREE, spikes
from sketchlearn.sketches.value import Sketch

METHODS: dict[str, Callable[..., Estimate]] = {
    "burer-monteiro": burer_monteiro,
    "positive": positive,
    "nuclear": nuclear,
    "thresholding": thresholding,
    "greedy": greedy,
    "shrunk": shrunk,
}

CONSTANT = 2.0**-46
"""Standard deviation over the mean of a column that is constant: smaller ones are rounding."""


def default_rank(features: SecondMomentMap, n_components: int) -> int:
    """Rank to decode at: twice the components (Gribonval et al., after theorem 4.1), where the columns allow it."""
    return int(min(features.dim, 2 * n_components))


@decoder
def decode_second_moment(
    sketch: Sketch,
    rank: int,
    *,
    rng: np.random.Generator,
    method: str = "burer-monteiro",
    centred: bool = True,
    starts: int = 3,
    max_iterations: int = 500,
    tolerance: float | None = None,
    components: int | None = None,
) -> LowRankSolution:
    """Second moment of the rows behind a sketch of quadratic features, of rank at most `rank`.

    Parameters
    ----------
    rank : int
        Rank to decode at; take more than needed and truncate.
    method : str
        ``"burer-monteiro"``, ``"greedy"`` (both without d x d matrices), ``"positive"``, ``"nuclear"``,
        ``"thresholding"`` or ``"shrunk"``, which knows the noise of a release.  Where that is large, ``"shrunk"`` takes
        the place of ``"burer-monteiro"``, up to 3000 columns.
    centred : bool
        Of the rows minus their mean (the covariance) or of the rows as they are.
    starts, max_iterations : int
        For the decoders that use them.
    tolerance : float, optional
        Residual, relative to the measurements, at which to stop; by default 0.004 of the sampling noise.
    components : int, optional
        Components that will be used, which the verdict is about; by default half of the rank.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) @ rng.normal(size=(2, 30))
    >>> s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=30, size=240, seed=0))
    >>> sl.decode(s, 4, task="pca", random_state=0).verdict.split(". They")[0]
    'Reliable. The components explain the sketch down to its sampling noise'
    """
    features = second_moment(sketch.features, "a second moment")
    rank = max(1, min(rank, features.dim))
    weight = float(sketch.weight)
    count = sketch.effective_count * features.seen_share(sketch.sums, weight)
    if features.is_exact:
        # (of a pass, averages, the matrix and its eigenvectors)
        announce(7.0 * sketch.sums.nbytes, sketch.sums.nbytes)
    sums = sums_with_shrunk_mean(sketch, features)
    mean = features.row_mean_from_sums(sums, weight)
    if centred:
        y = features.centred_mean_from_sums(sums, weight)
    else:
        y = features.mean_from_sums(sketch.sums, weight)
    added = added_variance(sketch)
    record = sketch.privacy  # (of several releases together the noise is a sum, and no longer Laplace's)
    laplace = record is not None and record.mechanism == "discrete-laplace" and "parts" not in record.details
    if features.is_exact:
        found = _from_matrix(features, y, mean, rank, count, added)
        total = float(found.values.sum()) + features.dim * found.isotropic
        if centred and not added.any() and total <= float(unresolved(features, sums, weight).sum()):
            code, verdict = verdicts.of_equal_rows()
            found = replace(found, code=code, verdict=verdict)
        return found
    if tolerance is None:
        tolerance = min(max(0.004 * math.sqrt(2.0 / count), 1e-7), 1e-3)
    problem = Problem.from_features(features, y, tolerance, added, laplace)
    if method == "burer-monteiro" and sketch.privacy is not None and features.dim <= 3000 and drowned(problem):
        method = "shrunk"
    if not np.abs(y).max() > 0:
        estimate = Estimate(np.zeros((features.dim, rank)), 0.0, 0, True)
    else:
        estimate = METHODS[method](problem, rank, rng, max_iterations=max_iterations, starts=starts)
    solution = _assess(problem, estimate, mean, rank, count, method)
    return certified(solution, (rank + 1) // 2 if components is None else components)


def certified(solution: LowRankSolution, components: int) -> LowRankSolution:
    """The solution with a verdict about its first components; one from an exact sketch as it is.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.lowrank import certified
    >>> X = np.random.default_rng(0).normal(size=(1000, 100)) * np.r_[9.0, np.ones(99)]
    >>> s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=100, size=1600, seed=0))
    >>> found = sl.decode(s, 4, task="pca", random_state=0)
    >>> [certified(found, k).reliable for k in (1, 2)]
    [True, False]
    """
    if solution.decoder == "exact":
        return solution
    held = held_share(solution.values[:components], solution.isotropic, solution.resolution)
    rank, converged = len(solution.values), solution.converged
    code, verdict = verdicts.of_low_rank(solution.residual, solution.ratio, rank, converged, held, solution.free < FREE)
    captured, least = solution.captured(components)
    if np.isfinite(captured):
        most = f"of the variance that {components} can have (at least {least:.1%})"
        verdict += f" They capture about {captured:.1%} {most}."
    return replace(solution, code=code, verdict=verdict)


def held_share(values: Array, isotropic: float, resolution: float) -> Array:
    """Variance along each component as a share of what it claims, (k,)."""
    held, _ = spikes(values, resolution)
    claimed = np.maximum(values, 0.0) + isotropic
    return np.asarray((held + isotropic) / np.where(claimed > 0.0, claimed, 1.0))


class Moments(NamedTuple):
    """Mean (d,) and covariance (d, d) of the rows of a sketch of all products of columns.

    `rows` is their number, of those whose products are known, and `rounding` (d,) the error of the variances.
    """

    features: SecondMomentMap
    rows: float
    mean: Array
    covariance: Array
    rounding: Array

    @classmethod
    def of(cls, sketch: Sketch, what: str) -> Moments:
        """TypeError for other sketches, which `what` can't do with."""
        phi, weight = second_moment(sketch.features, what), float(sketch.weight)
        if not phi.is_exact:
            raise UnsuitableMapError(f"{what} needs all products of columns, the sketch has {phi.describe()}")
        return cls(
            phi,
            sketch.effective_count * phi.seen_share(sketch.sums, weight),
            phi.row_mean_from_sums(sketch.sums, weight),
            full_matrix(phi, phi.centred_mean_from_sums(sketch.sums, weight)),
            phi.precision_from_sums(sketch.sums, weight),
        )


def standardised(found: LowRankSolution, sketch: Sketch) -> tuple[LowRankSolution, Array]:
    """What was found in a sketch of all products, in units of the columns' standard deviations, and these.

    The moments are standardised before anything else: eigenvectors keep nothing of a column that is 10⁸ times narrower
    than another.  Columns that are constant, up to rounding, have the unit 1 and no variance.
    """
    phi, weight = second_moment(sketch.features, "PCA"), float(sketch.weight)
    sums = sums_with_shrunk_mean(sketch, phi)
    covariance = full_matrix(phi, phi.centred_mean_from_sums(sums, weight))
    variances = np.diag(covariance).copy()
    known = variances > unresolved(phi, sums, weight)
    scale = np.sqrt(np.where(known, variances, 1.0))
    covariance *= np.where(known, 1.0 / scale, 0.0)[:, None] * np.where(known, 1.0 / scale, 0.0)
    values, vectors = np.linalg.eigh(covariance)
    standard = replace(found, values=np.maximum(values[::-1], 0.0), vectors=vectors[:, ::-1], isotropic=0.0)
    return standard, scale


def unresolved(features: SecondMomentMap, sums: AnyArray, weight: float) -> Array:
    """Variance up to which each column counts as constant: rounding of the sums, or of the rows themselves."""
    mean = features.row_mean_from_sums(sums, weight)
    return np.asarray(np.maximum(8.0 * features.precision_from_sums(sums, weight), (CONSTANT * mean) ** 2))


def full_matrix(features: SecondMomentMap, triangle: Array) -> Array:
    """The symmetric matrix behind its upper triangle."""
    S, at = np.empty((features.dim, features.dim)), 0
    for i, count in enumerate(range(features.dim, 0, -1)):  # row by row: indices would be twice as large as the matrix
        S[i, i:] = S[i:, i] = triangle[at : at + count]
        at += count
    return S


def _from_matrix(
    features: SecondMomentMap, triangle: Array, mean: Array, rank: int, count: float, added: Array
) -> LowRankSolution:
    S = full_matrix(features, triangle)
    unit = max(float(S.max(initial=0.0)), -float(S.min(initial=0.0))) or 1.0
    S /= unit
    d = len(S)
    if d > 500 and rank < d // 8 and not added.any():
        values, vectors, rest, left = _leading(S, rank)
    else:
        values, vectors = np.linalg.eigh(S)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        rest, left = float(values[rank:].mean()) if rank < d else 0.0, float(np.linalg.norm(values[rank:]))
    size = max(float(np.hypot(np.linalg.norm(values[:rank]), left)), 1e-300)
    unexplained, noise = left / size, math.sqrt(float(added.sum())) / unit / size
    values, rest = values * unit, rest * unit
    floor = math.hypot(math.sqrt(2.0 / count), noise)
    # eigenvalues of a symmetric matrix of independent noise stay below 2 sqrt(d v): the edge of the semicircle
    edge = 2.0 * math.sqrt(features.dim * float(added.mean())) if added.any() else 0.0
    judged = verdicts.of_exact(rank, int((values[:rank] <= edge).sum()) if edge else 0)
    return LowRankSolution(
        **said("pca", "exact", unexplained, floor, judged),
        values=values[:rank] - rest,
        vectors=vectors[:, :rank],
        isotropic=rest,
        mean=mean,
        resolution=2.0**-50 * float(values[0]),
        converged=True,
        free=float("nan") if added.any() else 1.0,
    )


def _leading(S: Array, rank: int) -> tuple[Array, Array, float, float]:
    """Largest eigenvalues of a positive matrix, their vectors, and mean and norm of the others; S is overwritten.

    A third of the work of all eigenvectors, and a third of the memory.
    """
    from scipy.linalg import eigh

    d, trace, square = len(S), float(np.trace(S)), float(np.vdot(S, S))
    # (S.T is S, in the order that LAPACK works in)
    values, vectors = eigh(S.T, subset_by_index=[d - rank, d - 1], overwrite_a=True, check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])
    rest = max(trace - float(values.sum()), 0.0) / (d - rank)
    return values, vectors, rest, float(np.sqrt(max(square - float(values @ values), 0.0)))


def _assess(problem: Problem, estimate: Estimate, mean: Array, rank: int, count: float, method: str) -> LowRankSolution:
    """What the decoder found, with its noise and what it resolves."""
    trace = [{"method": method, "iterations": estimate.iterations, "converged": estimate.converged}]
    left, singular, _ = np.linalg.svd(estimate.factor, full_matrices=False)
    values, vectors = singular[:rank] ** 2, left[:, :rank]
    isotropic = estimate.isotropic
    projected = problem.operator.forward((vectors * singular[:rank]).T)
    lengths = np.einsum("ij,ij->j", projected, projected)
    model = problem.of_lengths(lengths)
    if len(singular) > rank:  # the convex decoders choose their own rank: what is cut off is put back as isotropic
        isotropic += float(np.sum(singular[rank:] ** 2)) / problem.dim
    model = model + (isotropic if problem.has_trace else 0.0)
    y = problem.measurements
    size = max(math.sqrt(float(np.mean(y**2))), 1e-300)
    rms = math.sqrt(float(np.mean((y - model) ** 2)))
    # the variance of the square of a normal number is twice its variance squared
    variances = 2.0 * (np.abs(problem.factors) * lengths) ** 2
    variances = variances[: problem.size] + (variances[problem.size :] if len(variances) > problem.size else 0.0)
    spread = np.sqrt(variances) + math.sqrt(2.0) * (isotropic if problem.has_trace else 0.0)
    noise = math.sqrt(float(np.mean(spread**2)) / count + float(np.mean(problem.added)))
    ratio = rms / max(noise, 1e-300)
    # A random residual of this size turns into a random matrix with this largest eigenvalue (Wigner's edge).  The
    # fit has taken up its share of it, and iterations stop within a tolerance.
    free = 1.0 - rank * (problem.dim - 0.5 * (rank - 1.0)) / problem.size
    left_over = max(rms / math.sqrt(max(free, 0.05)), problem.tolerance * size)
    resolution = left_over * problem.dim**1.5 / math.sqrt(problem.size)
    return LowRankSolution(
        **said("pca", method, rms / size, noise / size, (Code.UNCERTIFIED, ""), estimate.iterations, trace, ratio),
        values=values,
        vectors=vectors,
        isotropic=isotropic,
        mean=mean,
        resolution=resolution,
        converged=estimate.converged,
        free=float("nan") if np.any(problem.added) else free,
    )
