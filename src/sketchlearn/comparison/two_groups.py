"""Are two groups of columns independent?  The covariance of their Fourier features against its sampling noise.

With f and g the cosines and sines of the two groups, the squared entries of Cov(f, g) add up to an estimate of the
Hilbert-Schmidt independence criterion (Gretton et al. 2005) for the kernels of the features.  For independent groups n
times that sum is distributed like a sum of squares of independent normals, weighted by the products of an eigenvalue of
Cov(f) and one of Cov(g) (Zhang, Filippi, Gretton and Sejdinovic 2018); the traces of their powers are products of
traces.  A sketch of the products of all features holds these covariances exactly: nothing has to be estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.comparison.two_sample import powers, tail
from sketchlearn.decoders.noise import added_variance
from sketchlearn.features.embedded import embedding
from sketchlearn.features.split import two_groups
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread


@dataclass(frozen=True)
class Independence:
    """What :func:`independence` found.

    Attributes
    ----------
    dependence : float
        Between 0 and 1: like a squared correlation, of features, without the part that noise explains.
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
        With a map of :func:`sketchlearn.design_independence`, which says what the groups are.

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
    if n < 4:
        raise ValueError(f"a test of independence needs at least four rows, got {n:.6g}")
    if added_variance(sketch).any():
        raise ValueError("noise was added to the sketch: a test of independence needs the covariances as they are")
    mean, second = features.moments_from_sums(sketch.sums, float(sketch.weight))
    covariance = second - np.outer(mean, mean)
    m, k = inner.size, inner.parts[0].size
    first = np.r_[np.arange(k), m + np.arange(k)]  # cosines, then sines, of both groups
    other = np.setdiff1d(np.arange(2 * m), first)
    unbiased = n / (n - 1.0)
    with single_blas_thread:
        of_first = powers(covariance[np.ix_(first, first)] * unbiased)
        of_other = powers(covariance[np.ix_(other, other)] * unbiased)
    traces = of_first * of_other
    statistic = float(np.sum(covariance[np.ix_(first, other)] ** 2)) * unbiased
    expected = float(traces[0]) / n
    size = float(np.sqrt(of_first[1] * of_other[1]))
    return Independence(
        dependence=float(np.clip((statistic - expected) / size, 0.0, 1.0)) if size > 0 else 0.0,
        p_value=tail(statistic * n, traces),
        statistic=statistic,
        expected=expected,
        count=sketch.count,
    )
