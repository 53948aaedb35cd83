"""Second tier of the quartic pass: projections by plain loops, the rest as in NumPy; the same bits."""

from functools import partial

from sketchlearn.kernels import _quartic_numpy as base
from sketchlearn.kernels._quadratic_plain import project

LANES, TILE_ROWS = 1, 1
pack = base.pack
add_powers = partial(base.add_powers, project=project)
add_weighted_powers = partial(base.add_weighted_powers, project=project)
