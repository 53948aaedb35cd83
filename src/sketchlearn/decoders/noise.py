"""Noise of a sketch, in one place: what sampling rows leaves, what was added to it, and floors made of both.

The features of one row have modulus 1, so their average over n rows has variance ``(1 - |z|^2) / n``: the sampling
part.  Whatever :attr:`sketchlearn.Sketch.variances` says beyond that was added, by a release or by coarser features,
independently at each frequency.  A model explains some of the sampling part: once a component has been fitted, only
``1 - exp(-q)(1 + q + h)`` of its variance is left (:func:`left_by_gaussian`).  It explains nothing of what was added.
Of both together it takes up one part in 2m for each of its parameters: the degrees of freedom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.features.second_moment import SecondMomentMap
from sketchlearn.sketches.value import Sketch

if TYPE_CHECKING:
    from sketchlearn.decoders.harmonics import Cleaned
    from sketchlearn.decoders.problem import Problem

Averages: TypeAlias = "Sketch | Cleaned"
"""What decoders read."""

LEAST_VARIANCE = 0.05
"""Frequencies with |z| near 1 are not weighted more than this variance of a row allows."""
RENEWED_LEAST = 0.01
"""The same where weights come from what a fitted model leaves."""
DEVIATIONS = 3.0
"""Standard deviations of a misfit above its floor that chance explains, everywhere: it exceeds them once in 1000."""
CHANCE = 1e-3
"""p-value above which something may be chance: of a thousand problems with nothing to find, one is called reliable."""
SLACK = 1.5
"""Misfit over noise floor up to which a model counts as right where correlations of frequencies are not looked at."""
ROUNDING = 1e-11
"""What double precision leaves of normal equations, relative to their diagonal."""
ROUNDING_SINGLE = 1e-5
"""What single precision leaves of them: directions that are known worse than 300 times their own error stay there."""
PROBES = 16
"""Random signs from which traces and diagonals are measured, with an error of 35 %."""
NOISELESS = 0.01
"""Variance added to an average, over that of a row, up to which judges of a model know all of its noise."""


# -- of a sketch --------------------------------------------------------------------------------


def sampling_variance(power: Array) -> Array:
    """Variance of ``exp(i w·x)`` over rows whose averages have this squared modulus, (m,)."""
    return np.maximum(1.0 - power, 0.0)


def added_variance(sketch: Averages) -> Array:
    """Variance of each average beyond that of sampling rows with ideal features, (m,)."""
    if sketch.features.as_second_moment is not None and sketch.privacy is None and not np.any(sketch.noise):
        return np.zeros(sketch.features.size)  # (nothing is added, and the rest takes many times the sketch)
    ideal = sketch.features.ideal_variances(sketch.mean, sketch.sums, float(sketch.weight))
    return np.maximum(sketch.variances - ideal / sketch.effective_count, 0.0)


def sums_with_shrunk_mean(sketch: Sketch, features: SecondMomentMap) -> AnyArray:
    """The sums of a map of second moments, with the sums of the columns less their noise.

    The mean of a released sketch may be nothing but noise, and its square would be taken off the second moment: it is
    shrunk by the share of noise in its length (James and Stein 1961, the positive part).  Of other sketches: as is.
    """
    if sketch.privacy is None:
        return sketch.sums
    noise = np.broadcast_to(np.asarray(sketch.privacy.variances_of_sums()), sketch.sums.size).reshape(sketch.sums.shape)
    columns = (..., slice(features.size, features.size + features.dim))
    sums = sketch.sums.copy()
    linear = sums[columns].astype(np.float64)
    energy = 4.0**sketch.weight_bits * float(noise[columns].sum())
    length = float((linear * linear).sum())
    sums[columns] = np.rint(linear * max(0.0, 1.0 - energy / max(length, 1e-300)))
    return sums


def empty_variance(n: float, added: Array) -> Array:
    """Variance of averages where there is nothing to see: of n rows whose features cancel, (m,)."""
    return 1.0 / n + added


# -- weights of the frequencies -------------------------------------------------------------------


def first_weights(power: Array, n: float, added: Array) -> Array:
    """Weights before anything is known of the model: one over the variance of a row, within reason."""
    return 1.0 / (np.maximum(sampling_variance(power), LEAST_VARIANCE) + n * added)


def renewed_weights(problem: Problem, left: Array, least: float) -> Array:
    """Weights from the variance of a row that a model leaves, and at least `least` of it."""
    return 1.0 / (left + problem.n * problem.added + least)


def weight_of_total(problem: Problem, least: float) -> float:
    """Weight of the equation "the weights sum to 1": that of the cleanest frequency of which nothing is left."""
    return float(1.0 / (least + problem.n * problem.added.min()))


# -- what a model leaves ---------------------------------------------------------------------------


def left_by_gaussian(q: Array, h: Array | float = 0.0) -> Array:
    """Variance of a row within a Gaussian component that no change of its parameters explains.

    exp(i w·x) is projected on the scores of weight, mean and covariance; with ``q = w'Sw`` what is left is
    ``1 - exp(-q)(1 + q + h)``: h = q^2/2 for full covariances, 0 if the covariance is not the component's own.
    """
    return np.maximum(1.0 - np.exp(-q) * (1.0 + q + h), 0.0)


def drowned(n: float, added: Array) -> bool:
    """Whether most of the noise was added: a misfit near its floor then says little about where clusters are."""
    return bool(added.mean() * n > 10.0)


def noise_floor(problem: Problem, left: Array, parameters: int) -> tuple[float, float]:
    """Expected misfit of the right model, and its relative standard deviation if frequencies are independent.

    The model has so many fitted parameters, and leaves this variance of a row at each frequency, (m,).
    """
    v = problem.u * (left + problem.n * problem.added)
    freedom = max(1.0 - 0.5 * parameters / len(problem.u), 0.1)
    total = float(v.sum())
    return max(total * freedom / problem.n, 1e-14), float(np.sqrt((v * v).sum()) / max(total, 1e-30))


def sketch_floor(problem: Problem, power: Array) -> float:
    """Expected misfit of the true characteristic function, with nothing fitted."""
    return float(problem.u @ (sampling_variance(power) + problem.n * problem.added)) / problem.n
