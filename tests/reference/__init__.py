"""NumPy references of the compiled loops, one file a family, for tests alone.

Importing this makes those of the passes known to :func:`sketchlearn.kernels.tiers.module_of` as the tier ``"numpy"``.
"""

import sys

from reference import fourier, hadamard, quadratic, quartic

for name, module in {"": fourier, "hadamard_": hadamard, "quadratic_": quadratic, "quartic_": quartic}.items():
    sys.modules[f"sketchlearn.kernels._{name}numpy"] = module
