"""The Gaussian mixture of :mod:`sketchlearn.models.mixture`, under the name that decoders import."""

from sketchlearn.models.mixture import Array, Mixture, mixture_quantiles

__all__ = ["Array", "Mixture", "mixture_quantiles"]
