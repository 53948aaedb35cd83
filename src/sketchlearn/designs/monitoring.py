"""Maps for monitoring: all columns count in units of their spread, and each has a few features of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from sketchlearn.designs.kmeans import kmeans_size
from sketchlearn.designs.request import Request, find, register_design
from sketchlearn.designs.spread import standard_units
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.monitoring import HARMONICS, MonitoringFeatures

_MARGIN = 1.5  # times the largest distance from the centre in the pilot: later rows may lie farther out


def monitoring_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """As for k-means, and six features of each column."""
    return kmeans_size(k, d) + HARMONICS * d


@register_design("monitoring", size=monitoring_size, projects=False, units="own")
def design_monitoring(request: Request) -> tuple[MonitoringFeatures, str]:
    """A map that tells whether rows change, and how the mean and the spread of each column change."""
    request.refuse("covariance_type", why="has no covariance_type")
    request.refuse("dim", why="needs the range of each column: give a sample or bounds")
    designer = find("kmeans").design
    d = len(request.box()[0]) if request.sample is None else request.rows().shape[1]
    if request.size is not None:
        if request.size <= HARMONICS * d:
            raise ValueError(
                f"size={request.size}: {d} columns take {HARMONICS * d} features, and some for all of them"
            )
        request = replace(request, size=request.size - HARMONICS * d)
    if request.sample is None:
        lower, upper = request.box()
        offset, spread = 0.5 * (lower + upper), 0.5 * (upper - lower)
        inner = replace(request, bounds=((lower - offset) / spread, (upper - offset) / spread))
        reach = spread
        origin = "public bounds"
    else:
        rows, weights = request.weighted()
        offset, spread = standard_units(rows, None, np.ones(d, bool))
        inner = replace(request, sample=(rows - offset) / spread, weights=weights)
        reach = _MARGIN * np.maximum(np.abs(rows - offset).max(0), spread)
        origin = "the range of the pilot"
    joint, why = designer(replace(inner, task="kmeans"))
    phi = MonitoringFeatures.of(cast(FourierFeatures, joint).standardized(offset, spread), reach)
    return phi, f"{why}; columns in units of their spread; {HARMONICS} features of each column alone, for {origin}"
