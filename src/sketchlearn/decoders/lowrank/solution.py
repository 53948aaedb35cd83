"""From a sketch to a low-rank second moment, with what it explains and what it doesn't."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders.lowrank.burer_monteiro import burer_monteiro
from sketchlearn.decoders.lowrank.greedy import greedy
from sketchlearn.decoders.lowrank.nuclear import nuclear
from sketchlearn.decoders.lowrank.positive import positive
from sketchlearn.decoders.lowrank.problem import Array, Estimate, Problem
from sketchlearn.decoders.lowrank.thresholding import thresholding
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.sketches.value import Sketch

DECODERS: dict[str, Callable[..., Estimate]] = {
    "burer-monteiro": burer_monteiro,
    "positive": positive,
    "nuclear": nuclear,
    "thresholding": thresholding,
    "greedy": greedy,
}

_EXPLAINED = 1.5  # residual over noise floor


@dataclass(frozen=True)
class LowRankSolution:
    """A second moment ``vectors @ diag(values) @ vectors.T + isotropic * I`` and how well it explains a sketch.

    Attributes
    ----------
    values, vectors : ndarray (r,), (dim, r)
        Eigenvalues in falling order (without the isotropic part), and orthonormal eigenvectors.
    isotropic : float
        Variance in every direction that the r eigenvectors leave over.
    mean : ndarray (dim,)
        Mean of the rows.
    residual, noise_floor : float
        Root mean square of what the solution leaves of the measurements, and of their sampling error, both
        relative to the measurements.  The sampling error is that of normal data with this second moment.
    ratio : float
        Residual over noise floor.
    resolution : float
        Eigenvalues below this can't be told from what the residual does to them.
    iterations : int
        Of all starts together.
    converged : bool
        Whether the decoder stopped because nothing changed any more.
    decoder : str
        Name of the decoder; ``"exact"`` if the sketch holds the second moment itself.
    verdict : str
        The same in words.
    """

    values: Array
    vectors: Array
    isotropic: float
    mean: Array
    residual: float
    noise_floor: float
    ratio: float
    resolution: float
    iterations: int
    converged: bool
    decoder: str
    verdict: str

    @property
    def explained(self) -> bool:
        """Whether what is left is at the level of the sampling noise."""
        return self.ratio <= _EXPLAINED


def default_rank(features: QuadraticFeatures, n_components: int) -> int:
    """Rank to decode at: twice the components (Gribonval et al., after theorem 4.1), where the columns allow it."""
    return int(min(features.dim, 2 * n_components))


def decode_second_moment(
    sketch: Sketch,
    rank: int,
    *,
    centred: bool = True,
    decoder: str = "auto",
    starts: int = 3,
    max_iterations: int = 500,
    tolerance: float | None = None,
    seed: int = 0,
) -> LowRankSolution:
    """Second moment of the rows behind a sketch of quadratic features, of rank at most `rank`.

    Parameters
    ----------
    sketch : Sketch
        Of :class:`~sketchlearn.QuadraticFeatures`.
    rank : int
        Rank to decode at; take more than needed and truncate.
    centred : bool
        Of the rows minus their mean (the covariance) or of the rows as they are.
    decoder : str
        ``"auto"``, ``"burer-monteiro"``, ``"greedy"`` (both without d x d matrices), ``"positive"``, ``"nuclear"`` or
        ``"thresholding"``.
    starts, max_iterations : int
        For the decoders that use them.
    tolerance : float, optional
        Residual, relative to the measurements, at which to stop; by default 0.004 of the sampling noise.
    seed : int
        Of the random starts.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.lowrank import decode_second_moment
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) @ rng.normal(size=(2, 30))
    >>> s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=30, size=240, seed=0))
    >>> solution = decode_second_moment(s, rank=4)
    >>> solution.verdict
    'explains the sketch down to sampling noise'
    """
    features = sketch.features
    if not isinstance(features, QuadraticFeatures):
        raise TypeError(f"a second moment needs quadratic features, the sketch has {features.kind} features")
    if sketch.weight == 0:
        raise ValueError("the sketch is empty: there is nothing to decode")
    if decoder != "auto" and decoder not in DECODERS:
        raise ValueError(f"decoder={decoder!r}: choose one of auto, {', '.join(DECODERS)}")
    rank = max(1, min(rank, features.dim))
    weight, count = float(sketch.weight), float(sketch.count)
    mean = features.row_mean_from_sums(sketch.sums, weight)
    if centred:
        y = features.centred_mean_from_sums(sketch.sums, weight)
    else:
        y = features.mean_from_sums(sketch.sums, weight)
    if features.is_exact:
        return _from_matrix(features, y, mean, rank, count)
    if tolerance is None:
        tolerance = min(max(0.004 * math.sqrt(2.0 / count), 1e-7), 1e-3)
    problem = Problem.from_features(features, y, tolerance)
    name = "burer-monteiro" if decoder == "auto" else decoder
    if not np.abs(y).max() > 0:
        estimate = Estimate(np.zeros((features.dim, rank)), 0.0, 0, True)
    else:
        estimate = DECODERS[name](problem, rank, seed=seed, max_iterations=max_iterations, starts=starts)
    return _assess(problem, estimate, mean, rank, count, name)


def full_matrix(features: QuadraticFeatures, triangle: Array) -> Array:
    """The symmetric matrix behind its upper triangle."""
    S = np.zeros((features.dim, features.dim))
    S[np.triu_indices(features.dim)] = triangle
    return S + np.triu(S, 1).T


def _from_matrix(features: QuadraticFeatures, triangle: Array, mean: Array, rank: int, count: float) -> LowRankSolution:
    S = full_matrix(features, triangle)
    unit = float(np.abs(S).max(initial=0.0)) or 1.0
    values, vectors = np.linalg.eigh(S / unit)
    values, vectors = np.maximum(values[::-1], 0.0) * unit, vectors[:, ::-1]
    rest = values[rank:]
    floor = math.sqrt(2.0 / count)
    residual = float(np.linalg.norm(rest)) / max(float(np.linalg.norm(values)), 1e-300)
    return LowRankSolution(
        values=values[:rank] - (rest.mean() if len(rest) else 0.0),
        vectors=vectors[:, :rank],
        isotropic=float(rest.mean()) if len(rest) else 0.0,
        mean=mean,
        residual=residual,
        noise_floor=floor,
        ratio=residual / floor,
        resolution=2.0**-50 * float(values[0]),
        iterations=0,
        converged=True,
        decoder="exact",
        verdict="the sketch holds the whole second moment: nothing was lost but what lies beyond the rank",
    )


def _assess(problem: Problem, estimate: Estimate, mean: Array, rank: int, count: float, name: str) -> LowRankSolution:
    left, singular, _ = np.linalg.svd(estimate.factor, full_matrices=False)
    values, vectors = singular[:rank] ** 2, left[:, :rank]
    isotropic = estimate.isotropic
    projected = problem.directions.project(vectors * singular[:rank])
    lengths = np.einsum("ij,ij->i", projected, projected)
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
    noise = math.sqrt(float(np.mean(spread**2)) / count)
    ratio = rms / max(noise, 1e-300)
    # A random residual of this size turns into a random matrix with this largest eigenvalue (Wigner's edge).  The
    # fit has taken up its share of it, and iterations stop within a tolerance.
    free = max(1.0 - rank * problem.dim / problem.size, 0.05)
    left_over = max(rms / math.sqrt(free), problem.tolerance * size)
    resolution = left_over * problem.dim**1.5 / math.sqrt(problem.size)
    return LowRankSolution(
        values=values,
        vectors=vectors,
        isotropic=isotropic,
        mean=mean,
        residual=rms / size,
        noise_floor=noise / size,
        ratio=ratio,
        resolution=resolution,
        iterations=estimate.iterations,
        converged=estimate.converged,
        decoder=name,
        verdict=_verdict(rms / size, ratio, rank, estimate.converged),
    )


def _verdict(residual: float, ratio: float, rank: int, converged: bool) -> str:
    if ratio <= _EXPLAINED:
        return "explains the sketch down to sampling noise"
    text = (
        f"rank {rank} leaves {residual:.2g} of the measurements unexplained, {ratio:.3g} times their sampling noise: "
        "the tail of the spectrum, if it is long; a larger sketch lowers its influence, a larger rank fits more of it"
    )
    return text if converged else text + "; the decoder was still moving when it stopped: allow more iterations"
