"""Feature maps for unions of subspaces: isotropic frequencies at the scale of the rows inside a subspace.

Angles have a meaning in the units of the rows only, so nothing is whitened.  A frequency sees a subspace by its
projection on it, and a row's length is that of its projection: the scale follows from the lengths of the rows, whatever
the dimension of the subspaces.
"""

from __future__ import annotations

import math

import numpy.typing as npt

from sketchlearn.designs.gmm import weighted_rows
from sketchlearn.designs.request import Request, positive, register_design
from sketchlearn.designs.spread import usual
from sketchlearn.features.fourier import FourierFeatures

_SCALE = 0.45  # of the kernel, in lengths of the rows
_SAMPLES, _FEWEST = 20, 200  # frequencies per number of the bases, and at least
_DIM = 2  # dimension that a map is sized for if nobody says


def default_size(k: int, d: int, dim: int = _DIM) -> int:
    """Twenty frequencies per number of the bases, and at least 200."""
    return max(_SAMPLES * k * d * min(dim, d), _FEWEST)


def design_subspaces(
    sample: npt.ArrayLike,
    n_subspaces: int,
    seed: int = 0,
    *,
    size: int | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> FourierFeatures:
    """A feature map from which a union of subspaces can be decoded.

    `sample`: some rows, (n, d); they say how long rows are. `n_subspaces`: largest number of subspaces that will be
    asked for. `seed`: seed of the frequencies. `size`: number of frequencies; by default twenty per number of bases of
    two dimensions, and at least 200. `sample_weight`: weights of the rows of the sample, (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.subspaces import design_subspaces
    >>> design_subspaces(np.random.default_rng(0).normal(size=(500, 5)), 2).size
    400
    """
    k = positive(n_subspaces, "n_subspaces")
    x, w = weighted_rows(sample, sample_weight)
    near = usual(x)
    if not near.all() and w[near].sum() > 0:  # a single outlier would set the scale of everything
        x, w = x[near], w[near] / w[near].sum()
    length = math.sqrt(float(w @ (x * x).sum(1)))
    if not length > 0:
        length = 1.0  # rows of zeros: any scale sees one point
    if size is None:
        size = default_size(k, x.shape[1])
    return FourierFeatures.draw(dim=x.shape[1], size=size, scale=_SCALE * length, radial="adapted", seed=seed)


@register_design("subspaces", size=lambda k, d, _: default_size(k, d), projects=False, units="distances")
def _from_request(request: Request) -> tuple[FourierFeatures, str]:
    why = "needs a sample and nothing else to go by"
    if request.sample is None:
        raise ValueError(f"task='subspaces' {why}")
    request.refuse("bounds", "scale", "radial", "covariance_type", why=why)
    rows, weights = request.weighted()
    phi = design_subspaces(rows, request.n_components, request.seed, size=request.size, sample_weight=weights)
    return phi, (
        f"{phi.size} features in all directions, at the scale {phi.scale:.4g}: {_SCALE:g} times the length of "
        f"{len(rows)} pilot rows"
    )
