"""The loops over rows, and who runs them.  Nothing here knows what a sketch is."""

from sketchlearn.kernels._constants import ENTRY_BOUND, GRID_BITS, PRODUCT_BITS
from sketchlearn.kernels.plan import Plan, Summer, prepare, register_summer
from sketchlearn.kernels.sums import RowSums
from sketchlearn.kernels.tiers import active_kernel
from sketchlearn.kernels.warm import warmup

__all__ = [
    "ENTRY_BOUND", "GRID_BITS", "PRODUCT_BITS", "Plan", "RowSums", "Summer", "active_kernel", "prepare",
    "register_summer", "warmup",
]  # fmt: skip
