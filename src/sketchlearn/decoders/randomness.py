"""Random numbers of :mod:`sketchlearn.models.randomness`, under the name that decoders import."""

from sketchlearn.models.randomness import RandomState, as_generator

__all__ = ["RandomState", "as_generator"]
