"""What one component looks like through a feature map."""

from sketchlearn.atoms.base import Atom
from sketchlearn.atoms.gaussian import (
    GAUSSIANS,
    DiagonalGaussian,
    FullGaussian,
    KnownGaussian,
    SphericalGaussian,
    TiedGaussian,
)
from sketchlearn.atoms.stable import EllipticStable, sample_stable, stable_log_density

__all__ = [
    "GAUSSIANS",
    "Atom",
    "DiagonalGaussian",
    "EllipticStable",
    "FullGaussian",
    "KnownGaussian",
    "SphericalGaussian",
    "TiedGaussian",
    "sample_stable",
    "stable_log_density",
]
