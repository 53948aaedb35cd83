"""How many quadratic features to release for principal components.

All products of columns, where that is possible: with delta their noise does not grow with their number, and without it
matrix noise (:mod:`sketchlearn.privacy.matrices`, up to a few hundred columns) has eigenvalues that grow only like the
columns.  A component of variance c shows beside noise of variance v of each product where c is above ``2 sqrt(d v)``,
the edge of the semicircle that the eigenvalues of the noise fill.

Beyond, without delta, r orthonormal bases of d directions (m = r d features) have sensitivity r, and each feature gets
noise of variance ``2 (r / (n epsilon))**2``.  Besides, few measurements of a matrix C see each other's share of it: to
the estimate ``sum_j y_j a_j a_j'`` that is noise of variance ``2 |C|_F**2 / d**2``.  A component of variance c has
there the eigenvalue ``2 r c / d``, and noise fills a semicircle of radius ``2 sqrt(r variance)``; the squared ratio is

    r c**2 / (d**2 variance),    variance = 2 (r / (n epsilon))**2 + 2 |C|_F**2 / d**2,

largest where both kinds of noise are alike: ``r = n epsilon |C|_F / d``.  So m = n epsilon |C|_F, whatever the columns.
The decoder takes back what components found already see of each other, so that no more than the usual 8 k bases are
needed at any epsilon.  |C|_F is not known before the release: of rows clipped to the unit ball, a quarter of it shared
by k components is assumed.  (The optimum is flat: twice as many or half as many features cost a tenth of the ratio.)
"""

from __future__ import annotations

import math

import numpy as np

from sketchlearn.designs.pca import SIZE, released_size
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.kernels import PRODUCT_BITS
from sketchlearn.privacy.matrices import LARGEST
from sketchlearn.privacy.mechanism import choose_mechanism
from sketchlearn.privacy.quadratic import quadratic_bounds
from sketchlearn.privacy.sensitivity import Bounds, Reach

_ASSUMED = 0.25  # trace of the second moment over the squared radius
_FEWEST = 2  # bases: of a single one no two measurements see the same
_STANDS_OUT = 0.25  # squared ratio of a component of average size, beyond which leading ones were found
_ALL_PRODUCTS = 2000  # columns up to which all products are kept: 16 MB
_UNIT = 2**22


def pca_release_size(
    n_components: int, dim: int, epsilon: float, delta: float, rows: int, relation: str, records_per_user: int
) -> tuple[int, str]:
    """Number of features for principal components, and what to expect.

    Examples
    --------
    >>> from sketchlearn.privacy.quadratic_size import pca_release_size
    >>> [pca_release_size(5, 1000, e, 0.0, 10**6, "add-remove", 1)[0] for e in (0.01, 0.1, 1.0)]
    [2000, 11000, 40000]
    >>> pca_release_size(5, 100, 0.1, 0.0, 10**5, "add-remove", 1)[0]  # all products
    5050
    """
    k, d, products = max(1, n_components), dim, dim * (dim + 1) // 2
    usual, most = released_size(k, d), (d - 1) // 2
    size = products if d <= _ALL_PRODUCTS else usual
    if delta == 0.0 and d >= LARGEST:
        alike = rows * epsilon / records_per_user / (2.0 if relation == "replace-one" else 1.0)
        alike *= _ASSUMED / math.sqrt(k) / d
        bases = min(SIZE * k, max(_FEWEST, round(alike)))
        if bases <= most:
            size = bases * d
        else:  # all products of columns have twice the variance of as many orthogonal features, but miss nothing
            size = products if most < _FEWEST or alike >= 2 * most else most * d
    ratio = _ratio(k, d, size, epsilon, delta, rows, relation, records_per_user)
    what = f"all {size} products of columns" if size == products else f"{size} features"
    if size < usual:
        what += f" instead of {usual}, for the noise grows with their number,"
    words = f"{what} for epsilon={epsilon:g}, delta={delta:g} and {rows:,} rows: "
    if ratio < _STANDS_OUT:
        needed = math.ceil(rows * (_STANDS_OUT / ratio) ** (0.5 if size == products else 1.0))
        return size, (
            f"{words}no useful result is to be expected unless few components carry most of the variance: the "
            f"average one of {k} has {math.sqrt(ratio):.2g} of the size of the noise. It would take about {needed:,} "
            "rows, a larger epsilon" + ("" if delta > 0 else ", delta > 0") + ", or a smaller public radius"
        )
    return size, f"{words}the average one of {k} components is expected to have {math.sqrt(ratio):.2g} times its noise"


def _ratio(
    k: int, d: int, size: int, epsilon: float, delta: float, rows: int, relation: str, records_per_user: int
) -> float:
    """Squared eigenvalue of an average component over the squared edge of the noise."""
    exact = size == d * (d + 1) // 2
    component, norm = _ASSUMED / k, _ASSUMED / math.sqrt(k)
    if exact and 1 < d <= _ALL_PRODUCTS:
        bounds = quadratic_bounds(QuadraticFeatures.draw(dim=d, radius=1.0))
        chosen = choose_mechanism(bounds, size, epsilon, delta, relation, records_per_user)
        products = chosen.variances(bounds)[1][1] / (4.0**PRODUCT_BITS * rows) ** 2
        return float(component**2 / (4.0 * d * products))
    bases = size / d
    # (of orthogonal bases, what the certified bound is about)
    squares = 1.0 if exact else (1.0 + math.sqrt(2.0 * bases / d)) ** 2 + bases / d
    one = Reach(math.ceil(1.2 * bases * _UNIT), math.ceil(1.2 * squares * _UNIT**2))
    two = Reach(2 * one.l1, 2 * one.l2_squared)
    chosen = choose_mechanism(
        Bounds(one, two, ((size + d, 1),), "about"), size, epsilon, delta, relation, records_per_user
    )
    noise = chosen.variance / (float(_UNIT) * rows) ** 2
    if bases < SIZE * k and not exact:
        noise += 2.0 * norm**2 / d**2
    return float(np.float64(bases * component**2 / (d * d * noise)))
