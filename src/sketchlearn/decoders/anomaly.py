"""How far a row is from the others in feature space: Mahalanobis distance of its features from their mean.

With covariance C of the features and a small ridge r, ``s(x) = (f - m)' (C + r)^-1 (f - m)`` is the score of kernel
principal components with all components: features that vary among the rows count little, features that never did
count most.  A row that was sketched pulls C towards itself; without it the score would be about ``s / (1 - s / n)``
(the formula for rank one), so that scores of rows seen and unseen can be compared.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.classifier.ridge import feature_moments
from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.solution import Code, said
from sketchlearn.kernels import GRID_BITS, PRODUCT_BITS
from sketchlearn.models.anomaly import AnomalyModel, Distance
from sketchlearn.sketches.value import Sketch

RIDGE = 0.01
"""Variance that every feature is taken to have at least, in units of a feature's square, where features are bounded."""


def embedding_means(sketch: Sketch) -> Sketch | None:
    """The sketch of the Fourier features alone that a sketch of their products holds; None if there is none.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.anomaly import embedding_means
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> phi = sl.design(X, task="anomaly", size=50)
    >>> found = embedding_means(sl.sketch(X, phi))
    >>> bool(np.allclose(found.mean, sl.sketch(X, phi.inner).mean, atol=1e-4))
    True
    """
    phi = sketch.features.as_embedded
    if phi is None or sketch.privacy is not None or not phi.inner.sees_all_columns:
        return None
    means = sketch.sums[phi.size :].reshape(phi.inner.sums_shape) * 2 ** (GRID_BITS - PRODUCT_BITS)
    return Sketch(
        features=phi.inner, sums=means, weight=sketch.weight, weight_bits=sketch.weight_bits, lower=sketch.lower,
        upper=sketch.upper, squared_weights=sketch.squared_weights,
    )  # fmt: skip


@decoder
def decode_anomaly(sketch: Sketch, k: int = 1, *, rng: np.random.Generator) -> AnomalyModel:
    """The distance of a sketch of embedded rows, or of exact quadratic features; `k` and `rng` are not needed.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> s = sl.sketch(X, sl.design(X, task="anomaly", size=50))
    >>> usual, strange = sl.decode(s, 1, task="anomaly").distance(np.array([[0.0, 0.0], [9.0, 0.0]]))
    >>> bool(strange > 5 * usual)
    True
    """
    mean, covariance = feature_moments(sketch, "an anomaly score")
    bounded = sketch.features.kind == "embedded"
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    units = np.ones(len(mean)) if bounded else np.where(spread > 0, spread, max(float(spread.max()), 1.0))
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    values = np.maximum(values, 0.0)
    ridge = RIDGE if bounded else 1e-6
    freedom = float((values / (values + ridge)).sum())
    kept = values > 1e-3 * ridge  # others are as if without any variance
    rows = float(sketch.effective_count)
    distance = Distance(sketch.features, mean, units, vectors[:, kept].T, values[kept], ridge)
    code, verdict = Code.RELIABLE, f"Reliable. There are {rows:.6g} rows for {freedom:.0f} effective features."
    if freedom > 0.5 * rows:
        code = Code.UNDETERMINED
        verdict = (
            f"Not certified. Use fewer features or more rows. {freedom:.0f} effective features are too many for "
            f"{rows:.6g} rows: the scores of new rows depend on which rows were seen."
        )
    return AnomalyModel(
        **said("anomaly", "mahalanobis", 0.0, float("nan"), (code, verdict)),
        distance=distance,
        freedom=freedom,
        effective_rows=rows,
    )
