"""Does a sketch come from a given distribution?  Its distance from a mixture against its sampling noise.

If the rows follow the mixture, the average features are asymptotically normal about the mixture's characteristic
function, with the covariance of one row's features over n, which has a closed form
(:mod:`sketchlearn.comparison.two_sample`): nothing has to be estimated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.comparison.two_sample import (
    CHOSEN,
    Comparison,
    beyond_sampling,
    fewer_rows,
    law_of,
    moments_of_features,
    with_groups,
)
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.start import as_mixture
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread


def goodness_of_fit(sketch: Sketch, mixture: Any) -> Comparison:
    """Distance of a sketch from a Gaussian mixture, with a p-value.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    mixture : Mixture, or anything that :func:`sketchlearn.compare` takes for one
        The distribution that the rows should follow. The p-value is calibrated for a mixture that was not learned from
        these rows. For a mixture that was, differences are smaller than by chance, but a small p-value still means a
        misfit.

    Returns
    -------
    Comparison
        Its second count is infinite: the mixture is known without noise.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> s = sl.sketch(rng.normal(size=(2000, 2)), sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0))
    >>> normal = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
    >>> wider = normal.scaled(1.2, np.zeros(2))
    >>> sl.goodness_of_fit(s, normal).differs(1e-4), sl.goodness_of_fit(s, wider).differs(1e-4)
    (False, True)
    """
    features = characteristic(sketch.features, "a goodness of fit")
    n = sketch.effective_count
    if n < 2:
        raise ValueError(f"a goodness of fit needs at least two rows, got {n:.6g}")
    law = as_mixture(mixture, features.dim)
    operator = features.operator(dtype=np.float64).rows(np.arange(features.size)[CHOSEN])
    with single_blas_thread:
        mean, covariance, quantised = moments_of_features(features, law, operator.frequencies())
        behind = fewer_rows([sketch])
        added = beyond_sampling(sketch)[CHOSEN] * n - quantised
        spread = law_of(with_groups(covariance, behind * n, features, added)[0])
    statistic = float(np.sum(np.abs(np.where(behind > 0, sketch.mean[CHOSEN] - mean, 0.0)) ** 2))
    expected, m = spread.mean / n, len(mean)
    return Comparison(
        distance=float(np.sqrt(max(statistic - expected, 0.0) / m)),
        p_value=spread.tail(statistic * n),
        statistic=statistic / m,
        expected=expected / m,
        counts=(sketch.count, float("inf")),
    )
