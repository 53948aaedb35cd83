"""Random projections from a pilot sample: where the rows are, and what their columns count in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.designs.spread import standard_units
from sketchlearn.features.projection import Projection


def project_sample(
    sample: Array,
    size: int,
    seed: int,
    standardize: bool = False,
    names: Sequence[str] | None = None,
    weights: Array | None = None,
) -> tuple[Projection, Array]:
    """A projection for the rows of a pilot, about their mean, and the projected pilot.

    With `standardize` columns count in units of their spread; those that are constant in the pilot (dark corners of
    images, rare words) in units of 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.projection import project_sample
    >>> rows = np.random.default_rng(0).normal(size=(500, 100))
    >>> P, few = project_sample(rows, 10, seed=0)
    >>> P.dim, few.shape
    (100, (500, 10))
    """
    rows = np.asarray(sample, np.float64)
    constant = np.ones(rows.shape[1], bool)  # may be: that is no fault of one column among hundreds
    offset, spread = standard_units(rows, names, constant, weights)
    made = Projection.draw(
        rows.shape[1], size, seed, center=offset, spread=spread if standardize else None, columns=names
    )
    return made, made(rows)
