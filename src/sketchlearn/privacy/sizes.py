"""How many features to release for classes and for mixtures: as many as the noise is worth.

Classes.  One sum of m Fourier features per class, n rows each.  Noise of variance v m in every entry (v of Gaussian
noise does not depend on m, that of Laplace noise grows with it) moves the kernel's nearest-mean rule in three ways,
all in units of kernel values: the score of a row by ``2 v / n**2``, the length of a class mean by ``v**2 m / n**4``,
and the m random frequencies themselves by ``b**2 / m`` with b = 0.35 (digits, breast cancer and moons; the optimum is
flat).  The number with the least sum of the three is taken.  The kernel is as wide as so many features bear
(:mod:`sketchlearn.designs.classifier`).

Columns.  Histograms of d columns with B cells each: noise v of the share of a cell adds up along the range, to about
``0.4 sqrt(v B)`` of its width, and values spread evenly in a cell are off by about ``0.1 / B`` (Covertype, flights);
their sum is least at ``B = (0.5 / sqrt(v))**(2/3)``.

Mixtures.  As for k-means, with ten features for each parameter of a component in the place of its columns.
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism
from sketchlearn.privacy.sensitivity import Bounds, Reach, phase_bounds

_FEWEST, _MOST = 16, 4000  # features for classes; more is slow and gains little
_KERNEL = 0.35**2  # variance of kernel differences times m
_FEWEST_CELLS, _MOST_CELLS, _COARSE = 8, 1024, 0.1
_TOLD_APART = 0.15  # error of kernel differences from which on classes are mixed up: half of a usual difference


def class_size(
    n_classes: int, epsilon: float, delta: float, rows: int, relation: str, records_per_user: int
) -> tuple[int, str]:
    """Number of features for class means of `rows` rows in all, and what to expect of them.

    Examples
    --------
    >>> from sketchlearn.privacy.sizes import class_size
    >>> [class_size(10, epsilon, 1e-6, 1400, "add-remove", 1)[0] for epsilon in (0.3, 1.0, 3.0)]
    [45, 385, 3021]
    >>> class_size(10, 1.0, 0.0, 1400, "add-remove", 1)[0]  # pure epsilon
    19
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


def column_cells(
    dim: int, epsilon: float, delta: float, rows: int, relation: str, records_per_user: int
) -> tuple[int, str]:
    """Number of cells of each column, and what to expect of them.

    Examples
    --------
    >>> from sketchlearn.privacy.sizes import column_cells
    >>> [column_cells(10, epsilon, 1e-6, 100_000, "add-remove", 1)[0] for epsilon in (0.1, 1.0)]
    [56, 236]
    """
    one = 2**22
    added = Reach(dim * one, dim * one**2)
    bounds = Bounds(added, Reach(2 * added.l1, 2 * added.l2_squared), ((dim * _FEWEST_CELLS, 1),), "about")
    chosen = choose_mechanism(bounds, dim * _FEWEST_CELLS, epsilon, delta, relation, records_per_user)
    share = math.sqrt(chosen.variance) / (one * rows)
    cells = int(min(max((0.5 / share) ** (2.0 / 3.0), _FEWEST_CELLS), _MOST_CELLS))
    off = 0.4 * share * math.sqrt(cells) + 0.1 / cells
    words = (
        f"{cells} cells of each column for epsilon={epsilon:g}, delta={delta:g} and {rows:,} rows: values are off by "
    )
    if off > _COARSE:
        return cells, f"{words}{off:.2g} of the width of the bounds: no useful result is to be expected"
    return cells, f"{words}about {off:.2g} of the width of the bounds"
