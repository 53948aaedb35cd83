"""Families of components: all that decoders know about the shape of a cluster.

:class:`Family` is the contract; :data:`GAUSSIANS` holds the Gaussian families by type of covariance.
"""

from sketchlearn.decoders.families.base import Family
from sketchlearn.decoders.families.factors import Factors
from sketchlearn.decoders.families.gaussian import (
    DIAGONAL,
    FULL,
    GAUSSIANS,
    POINTS,
    SHARED,
    SPHERICAL,
    TIED,
    Gaussian,
    Known,
)
from sketchlearn.decoders.families.stable import Stable
from sketchlearn.models.stable_law import sample_stable, stable_log_density

__all__ = [
    "DIAGONAL",
    "FULL",
    "GAUSSIANS",
    "POINTS",
    "SHARED",
    "SPHERICAL",
    "TIED",
    "Factors",
    "Family",
    "Gaussian",
    "Known",
    "Stable",
    "sample_stable",
    "stable_log_density",
]
