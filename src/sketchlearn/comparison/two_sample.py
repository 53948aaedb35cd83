"""Do two sketches come from the same distribution?  The distance of their averages against their sampling noise.

The statistic is the squared distance of the averages, an estimate of the squared maximum mean discrepancy (MMD)
for the kernel whose spectral density the frequencies follow.  If both samples have one distribution with
characteristic function phi, the difference of the averages is asymptotically Gaussian with covariance
``(1/n_a + 1/n_b) S``, where the entries of S for the cosines and sines at the frequencies w_j and w_k are

    Cov(c_j, c_k) = (Re phi(w_j - w_k) + Re phi(w_j + w_k)) / 2 - Re phi(w_j) Re phi(w_k)
    Cov(s_j, s_k) = (Re phi(w_j - w_k) - Re phi(w_j + w_k)) / 2 - Im phi(w_j) Im phi(w_k)
    Cov(c_j, s_k) = (Im phi(w_j + w_k) - Im phi(w_j - w_k)) / 2 - Re phi(w_j) Im phi(w_k)

so the statistic is distributed like a sum of squares of independent normals weighted by the eigenvalues of S
(:mod:`sketchlearn.comparison.squares`).  phi at sums and differences is not in the
sketch; it comes from a Gaussian mixture decoded from the sketch of both samples together
(:mod:`sketchlearn.decoders.description`), for which it has a closed form.  The total variance of an entry,
1 - |phi|^2, is in the sketch: S is scaled to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Complex
from sketchlearn.comparison.squares import SumOfSquares
from sketchlearn.decoders.noise import added_variance, sampling_variance
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.operator import Operator
from sketchlearn.features.phases import PhaseMap
from sketchlearn.features.reading import square_wave
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.start import as_mixture
from sketchlearn.sketches.value import Sketch, check_same_features, pooled
from sketchlearn.threads import single_blas_thread
from sketchlearn.words import html_table

_F64 = Array
_C128 = Complex
Waves = Sequence[tuple[int, Any]]
CHOSEN = slice(0, 1000)  # frequencies that are used: they come in random order, and more gain little
_BANDS = 10  # of lengths of frequencies, in which the misfit is averaged
_STRETCH = 100.0  # variance of an entry over that of the mixture, up to which its correlations are believed
_FAINT = -30.0  # exponents below add nothing
_RESIDUE = 1e-7  # of an average: harmonics that add less are the last
PAIRED = 9  # order of the harmonics of one-bit features whose correlations count; others are independent noise
AVERAGED = 999  # order of those in averages
ROUNDING = 2.0**-20  # added to the variances: features are rounded to 2**-22, which matters at far too large scales


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    distance : float
        MMD between the two distributions, with the contribution of sampling noise subtracted; 0 if noise explains the
        whole difference.
    p_value : float
        Probability of a distance at least as large as observed between two samples of one distribution.
    statistic : float
        Mean squared difference of the entries.
    expected : float
        What the statistic would be on average from noise alone.
    counts : tuple
        Rows behind the two sketches.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    >>> a, b = (sl.sketch(rng.normal(size=(2000, 2)), phi) for _ in range(2))
    >>> sl.compare(a, b).differs(alpha=1e-4)
    False
    """

    distance: float
    p_value: float
    statistic: float
    expected: float
    counts: tuple[int | float, int | float]

    def differs(self, alpha: float = 0.01) -> bool:
        """True if the p-value is below `alpha`, which is between 0 and 1."""
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}")
        return self.p_value < alpha

    def __repr__(self) -> str:
        return f"Comparison(distance={self.distance:.4g}, p_value={self.p_value:.3g})"

    def _repr_html_(self) -> str:
        facts = {"distance (MMD)": f"{self.distance:.4g}", "p-value": f"{self.p_value:.3g}"}
        facts["rows"] = " and ".join(f"{count:,}" for count in self.counts)
        return html_table("Comparison", facts.items())


def compare(a: Sketch, b: Sketch, mixture: Any = None) -> Comparison:
    """Distance of two sketches, with a p-value from their own sampling noise.

    Parameters
    ----------
    a, b : Sketch
        Sketches of independent rows (no row in both), with the same Fourier feature map. Fractional weights and noise
        added by a private release are taken into account.
    mixture : optional
        A Gaussian mixture that describes the rows of both sketches together: a :class:`sketchlearn.Mixture`, anything
        with a ``mixture``, a fitted estimator with ``weights_``, ``means_`` and ``covariances_``, or the three arrays.
        By default one is decoded from ``a + b``.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    >>> monday, tuesday = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) + [0.3, 0]
    >>> sl.compare(sl.sketch(monday, phi), sl.sketch(tuesday, phi)).p_value < 1e-6
    True
    """
    check_comparable(a, b)
    return compared(a, b, sampling_noise(pooled([a, b]), mixture))


def check_comparable(a: Sketch, b: Sketch) -> None:
    """Refuse sketches that have different maps, or maps or too few rows to compare."""
    check_same_features(a, b)
    if a.features.as_characteristic is None:
        raise ValueError(f"compare needs Fourier features, these are {a.features.kind}")
    for s in (a, b):
        if s.effective_count < 2:
            raise ValueError(f"compare needs at least two rows on each side, got {s.effective_count:.6g}")


@dataclass(frozen=True, eq=False)
class SamplingNoise:
    """Covariance S of the cosines and sines of one row (2m, 2m), and the squares of entries that the mixture misses."""

    covariance: _F64
    missed: float
    spread: _F64
    """Standard deviations of the columns."""
    quantised: _F64
    """What one-bit features add to the variances of pairs in `covariance`, (m,)."""

    @cached_property
    def law(self) -> SumOfSquares:
        """Of the squared distance of two averages of many rows, over ``1/n_a + 1/n_b``."""
        return law_of(self.covariance, self.missed)

    def of_difference(self, a: Sketch, b: Sketch) -> tuple[SumOfSquares, float]:
        """The law of the squared distance of two averages, and the factor by which it was divided: 1/n_a + 1/n_b.

        What was added to the averages is independent, half of it in each part.
        """
        factor = 1.0 / a.effective_count + 1.0 / b.effective_count
        added = (beyond_sampling(a) + beyond_sampling(b))[CHOSEN] / factor - self.quantised
        if not added.any():
            return self.law, factor
        whole, more = with_groups(self.covariance, fewer_rows([a, b]) / factor, a.features, added)
        return law_of(whole, self.missed * more), factor


def law_of(covariance: _F64, missed: float = 0.0) -> SumOfSquares:
    """The law of the squared length of a normal vector, of whose covariance the squares of some entries are `missed`.

    Nothing else is known of these entries: the spectrum is taken to fall faster.
    """
    with single_blas_thread:
        law = SumOfSquares.of(covariance)
    return law.steeper(missed) if missed > 0 else law


def beyond_sampling(sketch: Sketch) -> _F64:
    """Variance of each average beyond that of sampling rows with ideal features, in two sketches of one law, (m,).

    The harmonics of one-bit features are the same in both.
    """
    distortion = sketch.features.distortion_variances(sketch.sums, float(sketch.weight))
    return np.asarray(np.maximum(added_variance(sketch) - distortion, 0.0))


def fewer_rows(sketches: list[Sketch]) -> _F64:
    """Sum over sketches of one over the rows behind each average, 0 where a sketch has none: nothing is known there."""
    total = np.zeros(len(range(sketches[0].features.size)[CHOSEN]))
    known = np.ones(len(total), bool)
    for s in sketches:
        behind = characteristic(s.features, "compare").rows_behind(s.sums, float(s.weight))
        share = behind[CHOSEN] / float(s.weight)
        known &= share > 0
        total += 1.0 / (s.effective_count * np.where(share > 0, share, 1.0))
    return np.where(known, total, 0.0)


def with_groups(covariance: _F64, ratio: _F64, features: FeatureMap, added: _F64) -> tuple[_F64, float]:
    """Covariance of averages where a row contributes to one group of features only, plus additive noise.

    Features of one group share their rows, of which there are fewer by a `ratio`; those of two groups share none.
    `added` is the variance beyond that of all rows, what the ratio explains included.  The second number is what the
    squares of entries grow by, on average.
    """
    m = len(ratio)
    own = np.diag(covariance)[:m] + np.diag(covariance)[m:]
    rest = np.where(ratio > 0, np.maximum(added - own * (ratio - 1.0), 0.0), 0.0)
    root = np.sqrt(np.tile(ratio, 2))
    whole = covariance * root[:, None] * root[None, :]
    group = characteristic(features, "compare").feature_groups[CHOSEN]
    same = group[:, None] == group[None, :]
    whole *= np.tile(same, (2, 2))
    more = np.outer(ratio, ratio) * same
    whole[np.diag_indices(2 * m)] += np.tile(rest / 2.0, 2)
    return whole, float(more.mean())


def sampling_noise(sketch: Sketch, mixture: Any = None) -> SamplingNoise:
    """Noise of one row's features, for the rows behind a sketch; `mixture` as above."""
    features = characteristic(sketch.features, "compare")
    if mixture is None:
        from sketchlearn.decoders.description import describe  # loads the decoders of mixtures

        found = describe(sketch)
    else:
        found = as_mixture(mixture, features.dim)
    chosen = features.operator(dtype=np.float64).rows(np.arange(features.size)[CHOSEN])
    with single_blas_thread:  # as many threads as there are comparisons, and no more
        return noise_of_rows(found, chosen, sketch)


def chosen_entries(size: int) -> slice:
    """Which entries of a sketch are compared."""
    return slice(0, min(size, CHOSEN.stop))


def compared(a: Sketch, b: Sketch, noise: SamplingNoise) -> Comparison:
    """The comparison of two sketches that :func:`compare` has checked, given the noise of a row."""
    law, factor = noise.of_difference(a, b)
    statistic, m = squared_distance(a, b), len(noise.covariance) // 2
    expected = law.mean * factor
    return Comparison(
        distance=float(np.sqrt(max(statistic - expected, 0.0) / m)),
        p_value=law.tail(statistic / factor),
        statistic=statistic / m,
        expected=expected / m,
        counts=(a.count, b.count),
    )


def squared_distance(a: Sketch, b: Sketch) -> float:
    """Of the averages of two sketches, where both have rows behind them."""
    difference = np.where(fewer_rows([a, b]) > 0, a.mean[CHOSEN] - b.mean[CHOSEN], 0.0)
    return float(np.sum(np.abs(difference) ** 2))


def noise_of_rows(mixture: Mixture, operator: Operator, sketch: Sketch) -> SamplingNoise:
    """Covariance of the features of a row that a mixture describes, scaled to what the sketch says of them."""
    w = operator.frequencies()
    seen, n = sketch.mean[: len(w)], sketch.effective_count
    added = beyond_sampling(sketch)[: len(w)]
    # additive noise makes averages look larger than they are
    variance = np.minimum(sampling_variance(np.abs(seen) ** 2 - added), 1.0) * n / (n - 1)
    mean, covariance, quantised = moments_of_features(sketch.features, mixture, w, variance)
    missed = _unexplained(w, np.abs(seen - mean) ** 2 - variance / n - added, variance, mixture.covariance)
    spread = np.sqrt(np.maximum(np.diag(mixture.covariance), 1e-300))
    return SamplingNoise(covariance, missed, spread, quantised)


def moments_of_features(
    features: FeatureMap, mixture: Mixture, w: _F64, variance: _F64 | None = None
) -> tuple[_C128, _F64, _F64]:
    """Mean (m,) and covariance (2m, 2m) of the features of a row of a mixture, and what quantisation adds to variances.

    `variance` is that of ideal features, where a sketch tells it better.  Of one-bit features the covariance holds the
    low harmonics; what the others add to each variance depends on nothing else, and is not in it.
    """
    if not isinstance(features, PhaseMap) or features.dither is None:
        difference, total, z = characteristic_values(mixture, w)
        mean, ideal = z, np.maximum(1.0 - np.abs(z) ** 2, 0.0)
        quantised = np.zeros(len(w))
    else:
        center = np.zeros(w.shape[1]) if features.center is None else np.asarray(features.center, np.float64)
        law = Mixture(mixture.weights, mixture.means - center, mixture.covariances)
        angle = np.pi * np.asarray(features.dither[: len(w)], np.float64)
        waves = [(h, s * np.exp(1j * (w @ center + (h - 1) * angle))) for h, s in ((1, 1.0), *square_wave(AVERAGED))]
        difference, total, z = characteristic_values(law, w, [wave for wave in waves if abs(wave[0]) <= PAIRED])
        mean = _average(law, w, waves)
        ideal = np.maximum(1.0 - np.abs(mean) ** 2, 0.0)
        whole = np.pi**2 / 8.0 - np.abs(mean) ** 2  # with all harmonics
        quantised = np.clip(np.diag(difference).real - np.abs(z) ** 2, 0.0, np.maximum(whole, 0.0)) - ideal
    wanted = np.maximum((ideal if variance is None else variance) + quantised, 0.0)
    return mean, feature_covariance(difference, total, z, wanted + ROUNDING), quantised


def characteristic_values(mixture: Mixture, w: _F64, waves: Waves = ((1, 1.0),)) -> tuple[_C128, _C128, _C128]:
    """``E f f*`` and ``E f f`` of all pairs of features, (m, m), and ``E f``, (m,), for ``f = exp(i w·x)``.

    Or for a sum of harmonics, ``f = sum s exp(i h w·x)``: `waves` are the pairs of h and s, a number or (m,).
    """
    m = len(w)
    difference, total, z = np.zeros((m, m), complex), np.zeros((m, m), complex), np.zeros(m, complex)
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.full_covariances(), strict=True):
        product = w @ covariance @ w.T
        half, angle = np.diag(product) / 2, w @ mean
        parts = [(h, np.sqrt(weight) * s * np.exp(1j * h * angle), h * h * half) for h, s in waves]
        for h, turned, own in parts:
            z += np.sqrt(weight) * turned * np.exp(-own)
            for g, other, its in parts:
                base = own[:, None] + its[None, :]
                _add(difference, h * g * product - base, turned, other.conj())
                _add(total, -h * g * product - base, turned, other)
    return difference, total, z


def _add(out: _C128, exponent: _F64, left: _C128, right: _C128) -> None:
    """Add the outer product of two vectors times an exponential, where that is not too small to count."""
    rows, columns = np.nonzero(exponent > _FAINT)
    if 4 * len(rows) > exponent.size:
        out += np.exp(exponent) * (left[:, None] * right[None, :])
    else:
        out[rows, columns] += np.exp(exponent[rows, columns]) * left[rows] * right[columns]


def _average(mixture: Mixture, w: _F64, waves: Waves) -> _C128:
    """``E f`` of a sum of harmonics, (m,), which are added as long as they count."""
    phases = mixture.means @ w.T
    half = 0.5 * np.stack([((w @ covariance) * w).sum(1) for covariance in mixture.full_covariances()])
    out = np.zeros(len(w), complex)
    for h, s in waves:
        part = mixture.weights @ np.exp(1j * h * phases - h * h * half)
        out += s * part
        if np.abs(part).max() < _RESIDUE:
            break
    return out


def feature_covariance(difference: _C128, total: _C128, z: _C128, variance: _F64) -> _F64:
    """Covariance of the stacked cosines and sines of one row, (2m, 2m), scaled to the variances of the pairs."""
    m = len(z)
    out = np.empty((2 * m, 2 * m))
    out[:m, :m] = (difference.real + total.real) / 2 - np.outer(z.real, z.real)
    out[m:, m:] = (difference.real - total.real) / 2 - np.outer(z.imag, z.imag)
    out[:m, m:] = (total.imag - difference.imag) / 2 - np.outer(z.real, z.imag)
    out[m:, :m] = out[:m, m:].T
    model = np.diag(out)[:m] + np.diag(out)[m:]
    share = np.clip(variance / np.maximum(model, 1e-300), 0.0, _STRETCH)
    factor = np.tile(np.sqrt(share), 2)
    out *= factor[:, None]
    out *= factor[None, :]
    # what the mixture has no place for, e.g. rounding errors of constant rows
    out[np.diag_indices(2 * m)] += np.tile(np.maximum(variance - share * model, 0.0) / 2, 2)
    return out


def _unexplained(w: _F64, excess: _F64, variance: _F64, metric: _F64) -> float:
    """What the squares of the entries of S lack if the mixture misses something.

    `excess` is the squared misfit at each frequency less what sampling noise explains.  At sums and differences it
    is taken to be, on average, that of frequencies of their length.
    """
    product = w @ metric @ w.T
    squares = np.maximum(np.diag(product), 0.0)
    order = np.argsort(squares)
    level = _running_mean(excess[order], min(max(10, len(w) // _BANDS), len(w)))
    out = 0.0
    for sign in (1.0, -1.0):
        pairs = squares[:, None] + squares[None, :] + 2 * sign * product
        values = np.minimum(np.interp(pairs, squares[order], level), np.outer(variance, variance))
        out += float(values.sum() - np.trace(values)) / 2  # the variances themselves are known
    return max(out, 0.0)


def _running_mean(values: _F64, width: int) -> _F64:
    """Averages of `width` neighbours, of the first and last ones at the ends."""
    inner = np.convolve(values, np.full(width, 1.0 / width), "valid")
    before = (width - 1) // 2
    return np.pad(inner, (before, width - 1 - before), mode="edge")
