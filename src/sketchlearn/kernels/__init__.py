"""The compiled loops.  Nothing here knows what a sketch is."""

from sketchlearn.kernels.fourier import active_kernel

__all__ = ["active_kernel"]
