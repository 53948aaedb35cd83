"""Maps for many targets: products of Fourier features of a few predictors with low harmonics of every target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Index
from sketchlearn.designs.gmm import weighted_rows
from sketchlearn.designs.spread import column_units
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.monitoring import MonitoringFeatures
from sketchlearn.features.radial import MultiscaleLaw

_LOW, _KNEE, _HIGH, _DECAY = 0.4, 2.0, 4.0, 2.0  # lengths in radians per spread of a predictor, and the tail beyond
_MARGIN = 1.5  # times the largest distance from the centre in the pilot: later rows may lie farther out
_HARMONICS = 2  # of each column: their sines make its value up to the fifth power of its share of the reach
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
    joint = FourierFeatures.draw(
        dim=d, size=m, scale=scale, radial=law, seed=seed, directions="iid", center=offset, whitening=np.diag(given)
    )
    reach = _MARGIN * np.maximum(np.abs(rows - offset).max(0), spread)
    phi = EmbeddedFeatures.of(MonitoringFeatures.of(joint, reach, _HARMONICS))
    return phi, f"products of {m} features of {len(given[given > 0])} predictors and {_HARMONICS} of each column"
