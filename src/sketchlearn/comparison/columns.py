"""Which columns changed between two sketches, and by how much: means and standard deviations with error bars.

The mean and standard deviation of every column are read off both sketches (:mod:`sketchlearn.comparison.marginals`).
What only changes how columns depend on each other, or the shape of a column with the same mean and standard
deviation, is not seen here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sketchlearn.comparison.two_sample import check_comparable
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch

_TELLING = 0.25  # standard deviations: error of a shift beyond which a shift of half a deviation could go unnoticed
_CLEAR = 0.25  # of a shift: an error below it leaves no doubt about the sign
_CONSTANT = 1e-6  # of the larger of two deviations: a column with less is constant


@dataclass(frozen=True)
class ColumnChange:
    """How one column changed.

    Attributes
    ----------
    column : str
        Its name.
    shift, shift_error : float
        Change of its mean in units of its standard deviation in the first sketch, and the standard error.  Where it
        was constant there, in units of the standard deviation in the second one.
    spread, spread_error : float
        Relative change of its standard deviation, and the standard error; NaN where it was constant.
    p_value : float
        Probability of a change at least as large, if neither changed.
    means, deviations : tuple of two floats
        Mean and standard deviation in both sketches, in units of the column.

    Examples
    --------
    >>> from sketchlearn.comparison import ColumnChange
    >>> print(ColumnChange("price", 1.82, 0.03, 0.41, 0.02, 1e-9, (10.0, 19.1), (5.0, 7.05)))
    price (+1.82 ± 0.03 sd, spread +41 ± 2 %)
    >>> round(ColumnChange("x", 0.316, 0.01, 0.0, 0.01, 0.0, (0.0, 0.316), (1.0, 1.0)).psi, 2)
    0.1
    """

    column: str
    shift: float
    shift_error: float
    spread: float
    spread_error: float
    p_value: float
    means: tuple[float, float] = (math.nan, math.nan)
    deviations: tuple[float, float] = (math.nan, math.nan)

    @property
    def psi(self) -> float:
        """Population stability index of normal columns with these moments: below 0.1 small, above 0.25 large.

        This is the symmetric Kullback-Leibler divergence, which the usual index estimates from bins. It is NaN if it is
        not known, and infinite if a constant column moved.
        """
        before, after = (deviation**2 for deviation in self.deviations)
        if not (before > 0 and after > 0):
            return 0.0 if before == after and self.means[0] == self.means[1] else math.inf if before == 0 else math.nan
        apart = (self.means[1] - self.means[0]) ** 2
        return 0.5 * (apart * (1.0 / before + 1.0 / after) + before / after + after / before - 2.0)

    @property
    def size(self) -> str:
        """How large the change is, by :attr:`psi`: small (below 0.1), moderate, or large (above 0.25)."""
        return size_in_words(self.psi)

    def facts(self) -> dict[str, Any]:
        """Everything by name, None for what is not known: as values of JSON."""
        shown = {
            **asdict(self),
            "psi": self.psi,
            "size": self.size,
            "tells_shift": self.tells_shift,
            "tells_spread": self.tells_spread,
        }
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in shown.items()}

    @property
    def tells_shift(self) -> bool:
        """Whether the sketches can distinguish this shift, or one of half a standard deviation, from none."""
        return self.shift_error <= max(_TELLING, _CLEAR * abs(self.shift))

    @property
    def tells_spread(self) -> bool:
        """Whether the sketches can distinguish a spread that is 50 % larger from an unchanged one."""
        return self.spread_error <= _TELLING

    def __str__(self) -> str:
        parts = []
        if not self.tells_shift:
            parts.append("the sketches can't tell its mean")
        elif abs(self.shift) >= 2.0 * self.shift_error:
            parts.append(f"{_rounded(self.shift, self.shift_error)} sd")
        if not self.tells_spread and self.tells_shift:
            parts.append("the sketches can't tell its spread")
        elif self.tells_spread and abs(self.spread) >= 2.0 * self.spread_error:
            parts.append(f"spread {_rounded(100.0 * self.spread, 100.0 * self.spread_error)} %")
        return f"{self.column} ({', '.join(parts)})" if parts else self.column


def size_in_words(psi: float) -> str:
    """A population stability index in words, by the limits that monitoring of credit scores made common.

    Examples
    --------
    >>> from sketchlearn.comparison.columns import size_in_words
    >>> [size_in_words(psi) for psi in (0.05, 0.2, 0.5)]
    ['small', 'moderate', 'large']
    """
    if math.isnan(psi):
        return "unknown"
    return "small" if psi < 0.1 else "moderate" if psi < 0.25 else "large"


def _rounded(value: float, error: float) -> str:
    """A value and its error, with as many decimals as the error has up to its first digit."""
    decimals = max(0, -math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:+.{decimals}f} ± {error:.{decimals}f}"


def moved_columns(a: Sketch, b: Sketch, mixture: Mixture | None = None) -> list[ColumnChange]:
    """How each column changed from one sketch to another, the surest changes first.

    Parameters
    ----------
    a, b : Sketch
        Sketches of independent rows, as for :func:`sketchlearn.compare`.
    mixture : Mixture, optional
        A mixture that describes the rows of both sketches. By default, one is decoded from their sum if it is needed.

    Returns
    -------
    list of ColumnChange
        One entry per column. The errors include sampling noise, noise added by a private release, and a bound on what
        the features can't see of a column.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.comparison import moved_columns
    >>> rng = np.random.default_rng(0)
    >>> before, after = rng.normal(size=(2, 4000, 3)) * [1.0, 5.0, 1.0]
    >>> after[:, 1] += 2.0
    >>> phi = sl.design(before[:1000], n_components=5).with_columns(["a", "b", "c"])
    >>> moved = moved_columns(sl.sketch(before, phi), sl.sketch(after, phi))
    >>> [c.column for c in moved if c.p_value < 1e-6], round(moved[0].shift, 1)
    (['b'], 0.4)
    """
    from sketchlearn.comparison.marginals import marginals

    check_comparable(a, b)
    found = marginals(a, b, mixture)
    before, after = found.before, found.after
    largest = np.maximum(before.deviation, after.deviation)
    unit = np.where(before.deviation > _CONSTANT * largest, before.deviation, largest)
    unit = np.where(unit > 0, unit, 1.0)
    shift = (after.mean - before.mean) / unit
    relative = [np.divide(m.deviation_error, m.deviation, out=np.full_like(unit, np.inf), where=m.deviation > 0)
                for m in (before, after)]  # fmt: skip
    noise = (before.mean_error**2 + after.mean_error**2 + found.unseen_mean**2) / unit**2
    shift_error = np.sqrt(noise + (shift * np.minimum(relative[0], 1.0)) ** 2)
    steady = (before.deviation > _CONSTANT * largest) & (largest > 0)
    ratio = np.divide(after.deviation, before.deviation, out=np.full_like(unit, np.nan), where=steady)
    unseen = found.unseen_deviation / np.sqrt(np.maximum(before.deviation * after.deviation, 1e-300))
    spread_error = ratio * np.sqrt(relative[0] ** 2 + relative[1] ** 2 + unseen**2)
    names = a.features.columns or tuple(f"column {j}" for j in range(len(unit)))
    out = []
    for j, name in enumerate(names):
        sizes = [abs(shift[j]) / max(float(np.sqrt(noise[j])), 1e-300)]
        if steady[j] and ratio[j] > 0:
            sizes.append(abs(math.log(ratio[j])) / max(float(spread_error[j] / ratio[j]), 1e-300))
        p = min(1.0, len(sizes) * math.erfc(max(sizes) / 2**0.5))
        out.append(
            ColumnChange(
                name, float(shift[j]), float(shift_error[j]), float(ratio[j] - 1.0), float(spread_error[j]), p,
                (float(before.mean[j]), float(after.mean[j])),
                (float(before.deviation[j]), float(after.deviation[j])),
            )
        )  # fmt: skip
    return sorted(out, key=lambda c: (c.p_value, -abs(c.shift)))
