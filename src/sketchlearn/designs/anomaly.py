"""Maps for anomaly scores: products of Fourier features of one scale, that of the whole data."""

from __future__ import annotations

import math

import numpy.typing as npt

from sketchlearn.designs.gmm import weighted_rows
from sketchlearn.designs.request import Request, register_design
from sketchlearn.designs.spread import usual
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.fourier import FourierFeatures

WIDTH = 600
"""Cosines and sines of an embedding by default."""


def design_anomaly(
    rows: npt.ArrayLike,
    *,
    width: int | None = None,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
) -> tuple[EmbeddedFeatures, str]:
    """An embedding by a Gaussian kernel as wide as the data, and why.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.anomaly import design_anomaly
    >>> design_anomaly(np.random.default_rng(0).normal(size=(100, 3)), width=60)[0].width
    60
    """
    x, w = weighted_rows(rows, weights)
    near = usual(x)
    if not near.all() and w[near].sum() > 0:  # a single outlier would set the scale of everything
        x, w = x[near], w[near] / w[near].sum()
    d = x.shape[1]
    spread = math.sqrt(float(w @ ((x - w @ x) ** 2).sum(1))) or 1.0
    size = max((WIDTH if width is None else width + width % 2) // 2, 1)
    inner = FourierFeatures.draw(dim=d, size=size, scale=spread, radial="gaussian", seed=seed)
    phi = EmbeddedFeatures.of(inner)
    return phi, f"products of {phi.width} features of one scale, {spread:.4g}, the spread of {len(x)} pilot rows"


@register_design("anomaly", size=lambda k, d, _: WIDTH, units="unlike", outliers=False)
def _from_request(request: Request) -> tuple[EmbeddedFeatures, str]:
    why = "needs a sample and nothing else to go by"
    if request.sample is None:
        raise ValueError(f"task='anomaly' {why}")
    request.refuse("bounds", "scale", "radial", "covariance_type", why=why)
    rows, weights = request.weighted()
    return design_anomaly(rows, width=request.size, seed=request.seed, weights=weights)
