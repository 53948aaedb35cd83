"""How the budget is divided between the sums and the number of rows: by a rule that looks at no row.

Under "add-remove" the number of rows is private too.  The average of the features is their noisy sum over the noisy
number, and its relative squared error is about ``(1 + A / x**2) (B + C / (1 - x)**2) - 1`` if the number of rows gets
the share x of a pure epsilon: ``A = 1 / (n epsilon)**2`` for the number, B for sampling, C for the sums (Chatalic
2020, section 9.2.3).  The share may not depend on n.  It is chosen for the smallest n at which the result is of use at
all, ``n0 = m max(1 / t, 1 / (epsilon sqrt(t)))`` for m features and an error t that learning tolerates; the error falls
with n, so nothing larger is worse off.  The thesis drops A B / C next to A to get a closed form; at the sizes that
matter it is larger than A, so the minimum is found numerically instead.

Gaussian noise needs no split of epsilon: the number of rows is one more entry of the vector, times a whole number s.
The noise grows like ``sqrt(L**2 + s**2)``, the relative error of the number falls like 1/s; their sum is smallest at
``s = L / (D C0)**(1/4)`` for D entries, with ``C0 = L**2 / |average|**2``.
"""

from __future__ import annotations

import math
from fractions import Fraction

_TOLERATED = 1e-2  # relative squared error of the averages: 1e-3 m / (k d) at the usual m = 10 k d
_FLATNESS = 3.0  # C0: squared length of one row's features over that of the average; below 10 on very different data


def least_rows(size: int, epsilon: float) -> float:
    """Rows below which a pure release of so many features is of little use."""
    return size * max(1.0 / _TOLERATED, 1.0 / (epsilon * math.sqrt(_TOLERATED)))


def share_of_count(epsilon: float, size: int, noise_energy: float, row_energy: float) -> Fraction:
    """Share of a pure epsilon that the number of rows gets.

    `epsilon`: the whole budget. `size`: number of features. `noise_energy`: expected squared length of the noise of all
    sums at this epsilon. `row_energy`: largest squared length of one row's features.

    Examples
    --------
    >>> from sketchlearn.privacy.split import share_of_count
    >>> 0.001 < share_of_count(1.0, 1000, 6e9, 1000.0) < 0.01
    True
    """
    from scipy.optimize import minimize_scalar

    n = least_rows(size, epsilon)
    a, b = 1.0 / (n * epsilon) ** 2, 1.0 + _FLATNESS / n
    c = noise_energy * _FLATNESS / (n * n * row_energy)

    def error(log_x: float) -> float:
        x = math.exp(log_x)
        # in differences from B, which is all but constant
        return a / x**2 * (b + c / (1.0 - x) ** 2) + c * (1.0 / (1.0 - x) ** 2 - 1.0)

    best = minimize_scalar(error, bounds=(math.log(1e-6), math.log(0.5)), method="bounded")
    return Fraction(round(math.exp(best.x) * 2**30), 2**30)


def count_multiplier(l2_squared: int, entries: int) -> int:
    """What the number of rows is multiplied by before it joins `entries` sums under Gaussian noise.

    Examples
    --------
    >>> from sketchlearn.privacy.split import count_multiplier
    >>> count_multiplier(100**2 * 2**44, entries=20_000)
    26799216
    """
    return max(1, round(math.sqrt(l2_squared) / (entries * _FLATNESS) ** 0.25))
