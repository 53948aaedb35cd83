"""Are two groups of columns independent?  The covariance of their Fourier features against its sampling noise.

With f and g the cosines and sines of the two groups, the squared entries of Cov(f, g) add up to an estimate of the
Hilbert-Schmidt independence criterion (Gretton et al. 2005) for the kernels of the features.  For independent groups n
times that sum is distributed like a sum of squares of independent normals, weighted by the products of an eigenvalue of
Cov(f) and one of Cov(g) (Zhang, Filippi, Gretton and Sejdinovic 2018).  A sketch of the products of all features holds
these covariances exactly: nothing has to be estimated.

That law is one of many rows.  Mean and variance are those over all permutations of rows of one group (Kazi-Aoual,
Hitier, Sabatier and Lebreton, Comput. Stat. Data Anal. 20, 1995), which the sketch holds too: they need no more than
the squared distances of the rows from their mean in the space of features, a quadratic form of the second moments, for
features of one frequency have length 1.  What the variance has beyond that of many rows comes from a few rows far
away, and is added as a chi-square law of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.comparison.squares import SumOfSquares
from sketchlearn.decoders.noise import added_variance
from sketchlearn.features.embedded import embedding
from sketchlearn.features.split import two_groups
from sketchlearn.kernels import PRODUCT_BITS
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

_LITTLE = 1e-9  # of the variance: rows that are no farther away than others
_LEAST_SKEWNESS = 0.1  # of a normal law, as a chi-square law


@dataclass(frozen=True)
class Independence:
    """What :func:`independence` found.

    Attributes
    ----------
    dependence : float
        A number between 0 and 1, like a squared correlation of features, with the contribution of noise subtracted.
    p_value : float
        Probability of a dependence at least as large as observed between independent groups.
    statistic, expected : float
        Sum of squared covariances of features, and what it would be on average for independent groups.
    count : int or float
        Rows behind the sketch.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.Independence(dependence=0.2, p_value=1e-9, statistic=0.1, expected=0.01, count=1000).dependent()
    True
    """

    dependence: float
    p_value: float
    statistic: float
    expected: float
    count: int | float

    def dependent(self, alpha: float = 0.01) -> bool:
        """True if the p-value is below `alpha`."""
        return self.p_value < alpha

    def __repr__(self) -> str:
        return f"Independence(dependence={self.dependence:.4g}, p_value={self.p_value:.3g})"


def independence(sketch: Sketch) -> Independence:
    """Test whether the two groups of columns of a sketch are independent.

    Parameters
    ----------
    sketch : Sketch
        A sketch with a map of :func:`sketchlearn.design_independence`, which defines the groups.

    Returns
    -------
    Independence

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> X = np.column_stack([x, x**2 + rng.normal(size=2000)])  # dependent, with no correlation
    >>> phi = sl.design_independence(X[:500], first=[0])
    >>> sl.independence(sl.sketch(X, phi)).dependent(1e-6)
    True
    >>> X[:, 1] = rng.permutation(X[:, 1])
    >>> sl.independence(sl.sketch(X, phi)).dependent(1e-4)
    False
    """
    features = embedding(sketch.features, "a test of independence")
    inner = two_groups(features.inner, "a test of independence")
    n = sketch.effective_count
    if n < 5:
        raise ValueError(f"a test of independence needs at least five rows, got {n:.6g}")
    if added_variance(sketch).any():
        raise ValueError("a test of independence needs exact covariances, and noise was added to this sketch")
    mean, second = features.moments_from_sums(sketch.sums, float(sketch.weight))
    covariance = second - np.outer(mean, mean)
    m, k = inner.size, inner.parts[0].size
    first = np.r_[np.arange(k), m + np.arange(k)]  # cosines, then sines, of both groups
    other = np.setdiff1d(np.arange(2 * m), first)
    own, others = (_Group.of(mean[at], second[np.ix_(at, at)], n) for at in (first, other))
    if own.constant or others.constant:  # and independent of everything
        return Independence(0.0, 1.0, 0.0, 0.0, sketch.count)
    unbiased = n / (n - 1.0)
    statistic = float(np.sum(covariance[np.ix_(first, other)] ** 2)) * unbiased
    expected, pairs, rows = permuted(own, others, n)
    law = own.law.product(others.law)
    size = float(np.sqrt(0.5 * law.variance))
    law = law.scaled(float(np.sqrt(pairs / law.variance)))
    if rows > _LITTLE * pairs:
        law = law.plus(rows, max(own.skewness * others.skewness / np.sqrt(n), _LEAST_SKEWNESS))
    return Independence(
        dependence=float(np.clip((statistic - expected) / size, 0.0, 1.0)) if size > 0 else 0.0,
        p_value=law.tail(law.mean + statistic - expected),
        statistic=statistic,
        expected=expected,
        count=sketch.count,
    )


@dataclass(frozen=True, eq=False)
class _Group:
    """What the test needs of the features of one group of columns.

    `law`: of the squared length of a normal vector with their covariance. `fourth`: mean over rows of the fourth power
    of the distance from the mean. `far`: squared distance of a row whose features have nothing to do with the mean: few
    are further away. `constant`: they don't vary by more than rounding.
    """

    law: SumOfSquares
    fourth: float
    far: float
    constant: bool

    @property
    def skewness(self) -> float:
        """Of the squared distances from the mean: that of a law of two values with their mean and variance."""
        average = self.law.mean
        deviation = np.sqrt(max(self.fourth - average**2, 0.0))
        reach = max(self.far - average, 0.0) / deviation if deviation > 0 else 0.0
        return float(max(reach - 1.0 / reach, 0.0)) if reach > 0 else 0.0

    @classmethod
    def of(cls, mean: Array, second: Array, n: float) -> _Group:
        covariance = second - np.outer(mean, mean)
        with single_blas_thread:
            law = SumOfSquares.of(covariance * (n / (n - 1.0)))
        # |f - mean|^2 = |f|^2 + |mean|^2 - 2 f.mean, where |f|^2 is the same for all rows: the trace of their products
        length = float(np.trace(second)) + float(mean @ mean)
        along = float(mean @ second @ mean)
        fourth = length**2 - 4.0 * length * float(mean @ mean) + 4.0 * along
        rounding = 4.0**-PRODUCT_BITS * len(mean)
        return cls(law, max(fourth, 0.0), length, float(np.trace(covariance)) <= rounding)


def permuted(a: _Group, b: _Group, n: float) -> tuple[float, float, float]:
    """Mean and variance of the statistic over all permutations of the rows of one group, exact.

    The variance has two parts: that of pairs of rows, which is all there is of many rows, and that of rows far away,
    whose squared distances from the mean in both groups are multiplied with each other.
    """
    back = n - 1.0  # from unbiased covariances to sums over rows
    t1, u1 = (back * g.law.mean for g in (a, b))
    t2, u2 = (back**2 * 0.5 * g.law.variance for g in (a, b))
    s2, v2 = (n * g.fourth for g in (a, b))
    pairs = ((n - 1) * t2 - t1**2) * ((n - 1) * u2 - u1**2) * 2.0 / ((n - 1) ** 2 * (n + 1) * (n - 2))
    rows = (n * (n + 1) * s2 - (n - 1) * (t1**2 + 2 * t2)) * (n * (n + 1) * v2 - (n - 1) * (u1**2 + 2 * u2))
    rows /= (n + 1) * n * (n - 1) * (n - 2) * (n - 3)
    unit = 1.0 / (n * (n - 1.0))  # from the trace of a product of two matrices of rows to the sum of squares
    return t1 * u1 / (n - 1) * unit, max(pairs, 1e-6 * 2.0 * t2 * u2 / n**2) * unit**2, max(rows, 0.0) * unit**2
