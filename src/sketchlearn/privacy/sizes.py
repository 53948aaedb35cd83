"""How many features to release for classes and for mixtures: as many as the noise is worth.

Classes.  One sum of m Fourier features a class, n rows each.  Noise of variance v m in every entry (v of Gaussian noise
does not depend on m, that of Laplace noise grows with it) moves the kernel's nearest-mean rule in three ways, all in
units of kernel values: the score of a row by ``2 v / n**2``, the length of a class mean by ``v**2 m / n**4``, and the m
random frequencies themselves by ``b**2 / m`` with b = 0.35 (digits, breast cancer and moons; the optimum is flat).  The
number with the least sum of the three is taken.  The kernel is as wide as so many features bear
(:mod:`sketchlearn.designs.classifier`).

Mixtures.  As for k-means, with a component's own number of parameters in the place of its columns.
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism
from sketchlearn.privacy.sensitivity import phase_bounds

_FEWEST, _MOST = 16, 4000  # features for classes; more is slow and gains little
_KERNEL = 0.35**2  # variance of kernel differences times m
_TOLD_APART = 0.15  # error of kernel differences from which on classes are mixed up: half of a usual difference


def class_size(
    n_classes: int, epsilon: float, delta: float, rows: int, relation: str, records_per_user: int
) -> tuple[int, str]:
    """Number of features for class means of `rows` rows in all, and what to expect of them.

    Examples
    --------
    >>> from sketchlearn.privacy.sizes import class_size
    >>> [class_size(10, epsilon, 1e-6, 1400, "add-remove", 1)[0] for epsilon in (0.3, 1.0, 3.0)]
    [38, 369, 2536]
    >>> class_size(10, 1.0, 0.0, 1400, "add-remove", 1)[0]  # pure epsilon
    27
    """
    n = max(1.0, rows / max(1, n_classes))
    grid = np.unique(np.rint(np.geomspace(_FEWEST, _MOST, 60)).astype(int))

    def released(m: int) -> Mechanism:
        return choose_mechanism(phase_bounds(m), m, epsilon, delta, relation, records_per_user)

    def error(m: int) -> float:
        v = released(m).variance / (m * 4.0**22)
        return float(2.0 * v / n**2 + v * v * m / n**4 + _KERNEL / m)

    errors = [error(int(m)) for m in grid]
    best = int(np.argmin(errors))
    size, off = int(grid[best]), math.sqrt(errors[best])
    words = f"{size} features for epsilon={epsilon:g}, delta={delta:g} and {rows:,} rows of {n_classes} classes: "
    if off > _TOLD_APART:
        return size, (
            f"{words}no useful result is to be expected, for kernel values have an error of {off:.2g} and those of "
            f"classes differ by about {2 * _TOLD_APART:g}. It would take about {math.ceil(rows * off / _TOLD_APART):,} "
            "rows, a larger epsilon" + ("" if delta > 0 else ", delta > 0") + ", or fewer classes"
        )
    return (
        size,
        f"{words}kernel values have an error of {off:.2g}, those of classes differ by about {2 * _TOLD_APART:g}",
    )
