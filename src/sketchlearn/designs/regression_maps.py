"""Maps for many targets: products of Fourier features of a few predictors with low harmonics of every target."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sketchlearn.arrays import Array, Index
from sketchlearn.designs.gmm import inverse_root, weighted_rows
from sketchlearn.designs.spread import column_units
from sketchlearn.features.adapted import AdaptedFeatures
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.monitoring import MonitoringFeatures
from sketchlearn.features.radial import AdaptedLaw, MultiscaleLaw
from sketchlearn.threads import single_blas_thread
from sketchlearn.words import counted

_LOW, _KNEE, _HIGH, _DECAY = 0.4, 2.0, 4.0, 2.0  # lengths in radians per spread of a predictor, and the tail beyond
_MARGIN = 1.5  # times the largest distance from the centre in the pilot: later rows may lie farther out
_HARMONICS = 2  # of each column: their sines make its value up to the fifth power of its share of the reach
_ROWS = 10  # of the pilot for each number of a component, from which its shape is known to a third
_EACH = 2  # frequencies for each number of the gates and of the maps of one target


def maps_size(k: int, predictors: int) -> int:
    """Frequencies of the predictors by default."""
    p = predictors
    return _EACH * k * ((p + 1) * (p + 2) // 2 + p + 1)


def design_maps(
    sample: npt.ArrayLike,
    predictors: Sequence[int] | Index,
    n_components: int,
    *,
    size: int | None = None,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
) -> tuple[EmbeddedFeatures, str]:
    """A map that mixtures of linear maps of all other columns are learned from, and why.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.regression_maps import design_maps
    >>> phi, _ = design_maps(np.random.default_rng(0).normal(size=(100, 9)), [0, 1], 3)
    >>> phi.inner.joint.size, int((phi.inner.joint.frequencies != 0).any(0).sum())
    (54, 2)
    """
    rows, w = weighted_rows(sample, weights)
    d = rows.shape[1]
    offset, spread = column_units(rows, w)
    given = np.zeros(d)
    given[list(predictors)] = 1.0 / spread[list(predictors)]
    m = maps_size(n_components, len(predictors)) if size is None else size
    root = math.sqrt(d)  # a direction among all columns has one over this along each
    law = MultiscaleLaw(low=_LOW * root, knee=_KNEE * root, high=_HIGH * root, decay=_DECAY)
    scale = math.sqrt(d / law.second_moment(d))
    columns = np.asarray(predictors, np.intp)
    parts = _components(rows, w, spread, columns, m // 2, n_components, seed) if n_components > 1 else []
    joint = FourierFeatures.draw(
        dim=d,
        size=m - sum(part.size for part in parts),
        scale=scale,
        radial=law,
        seed=seed,
        directions="iid",
        center=offset,
        whitening=np.diag(given),
    )
    reach = _MARGIN * np.maximum(np.abs(rows - offset).max(0), spread)
    whole = AdaptedFeatures.of(joint, parts) if parts else joint
    phi = EmbeddedFeatures.of(MonitoringFeatures.of(whole, reach, _HARMONICS))
    why = f"products of {m} features of {counted(len(columns), 'predictor')} and {_HARMONICS} of each column"
    if parts:
        why += f"; half of the {m} have the widths and shapes of {counted(len(parts), 'component')} of the pilot"
    return phi, why


def _components(
    rows: Array, w: Array, spread: Array, predictors: Index, count: int, k: int, seed: int
) -> list[FourierFeatures]:
    """Frequencies of the width and shape of each component of a mixture of the predictors in the pilot, and its places.

    No single metric suits components of other shapes, and thin ones are seen at their own frequencies alone.
    """
    p, d = len(predictors), rows.shape[1]
    x = rows[:, predictors] / spread[predictors]
    if np.ptp(w) > 0:
        x = x[np.random.default_rng(seed).choice(len(x), len(x), p=w)]
    k = min(k, count, len(x) // (_ROWS * (p + 1) * (p + 2) // 2))
    if k < 1:
        return []
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings(), single_blas_thread, threadpool_limits(1, "openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = GaussianMixture(k, random_state=seed % 2**32).fit(x)
    law, parts = AdaptedLaw(), list[FourierFeatures]()
    scale = math.sqrt(p / law.second_moment(p))
    for l, (mean, covariance) in enumerate(zip(found.means_, found.covariances_, strict=True)):
        share = count * (l + 1) // k - count * l // k
        center, whitening = np.zeros(d), np.zeros((d, d))
        center[predictors] = mean * spread[predictors]
        inverse = inverse_root(covariance, np.sqrt(np.diag(covariance)), "full") / spread[predictors]
        whitening[np.ix_(predictors, predictors)] = inverse
        parts.append(
            FourierFeatures.draw(
                dim=d, size=share, scale=scale, radial=law, seed=seed + 1 + l, directions="iid", center=center,
                whitening=whitening,
            )
        )  # fmt: skip
    return parts
