"""What worker processes need: imported once, by the process that they are forked from."""

from sketchlearn.engines import processes
from sketchlearn.kernels.tiers import active_kernel

active_kernel()  # loads the compiled loops

__all__ = ["processes"]
