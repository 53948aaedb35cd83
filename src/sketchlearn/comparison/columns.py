"""Which columns moved, from two sketches alone.

To first order, a shift of column j by t changes the characteristic function phi by ``i w_j t phi(w)``, and a change
of its variance by s changes it by ``-w_j^2 s phi(w) / 2``.  The difference of two sketches is fitted by such changes of
all columns, by least squares weighted with the variances of the entries; the errors of the fit follow from their
covariance (:mod:`sketchlearn.comparison.two_sample`).  What only changes how columns depend on each other, or the shape
of a column with the same mean and variance, is not seen here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.comparison.two_sample import SamplingNoise, check_comparable, chosen_entries, sampling_noise
from sketchlearn.decoders.noise import added_variance
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]

_SMALLEST = 1e-9  # variance of an entry: at the lowest frequencies there is next to none
_EQUATIONS = 1.5  # real numbers per unknown, at least


@dataclass(frozen=True)
class ColumnChange:
    """How one column changed.

    Attributes
    ----------
    column : str
        Its name.
    shift : float
        Change of its mean, in units of its spread in both sketches together.
    spread : float
        Relative change of its standard deviation; NaN where the sketch is too small to tell.
    p_value : float
        Of no change in either.
    """

    column: str
    shift: float
    spread: float
    p_value: float

    def __str__(self) -> str:
        parts = [f"{self.shift:+.2g} sd"]
        if abs(self.spread) >= 0.01:
            parts.append(f"spread {self.spread:+.0%}")
        return f"{self.column} ({', '.join(parts)})"


class _Fit(NamedTuple):
    values: Array
    errors: Array


def moved_columns(a: Sketch, b: Sketch, noise: SamplingNoise | None = None) -> list[ColumnChange]:
    """How each column changed from one sketch to another, the surest changes first.

    Parameters
    ----------
    a, b : Sketch
        Of independent rows, as for :func:`sketchlearn.compare`.
    noise : SamplingNoise, optional
        Of the rows, if it is known already.

    Returns
    -------
    list of ColumnChange
        Empty if the sketch has too few entries for as many columns.

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
    check_comparable(a, b)
    noise = sampling_noise(a + b) if noise is None else noise
    features = characteristic(a.features, "a comparison")
    chosen = chosen_entries(features.size)
    z = (a + b).mean[chosen]
    w = features.operator(dtype=np.float64).rows(np.arange(features.size)[chosen]).frequencies()
    d, m = features.dim, len(z)
    if d * _EQUATIONS > 2 * m:
        return []
    factor = 1.0 / a.effective_count + 1.0 / b.effective_count
    added = (added_variance(a) + added_variance(b))[chosen] / (2.0 * factor)
    covariance = noise.covariance + np.diag(np.tile(added, 2))
    difference = b.mean[chosen] - a.mean[chosen]
    both = 2 * d * _EQUATIONS <= 2 * m
    effects = [1j * w * z[:, None], -0.5 * w**2 * z[:, None]] if both else [1j * w * z[:, None]]
    fit = _fitted(np.concatenate(effects, axis=1), difference, covariance)
    unit = noise.spread
    names = features.columns or tuple(f"column {j}" for j in range(d))
    out = []
    for j, name in enumerate(names):
        sizes = np.abs(fit.values[j::d]) / np.maximum(fit.errors[j::d] * factor**0.5, 1e-300)
        p = min(1.0, len(sizes) * math.erfc(float(sizes.max()) / 2**0.5))
        variance = fit.values[d + j] / unit[j] ** 2 if both else np.nan
        spread = np.sqrt(max(1.0 + variance / 2, 0.0) / max(1.0 - variance / 2, 1e-12)) - 1.0 if both else np.nan
        out.append(ColumnChange(name, float(fit.values[j] / unit[j]), float(spread), p))
    return sorted(out, key=lambda c: (c.p_value, -abs(c.shift)))


def _fitted(effects: npt.NDArray[np.complex128], difference: npt.NDArray[np.complex128], covariance: Array) -> _Fit:
    """Least squares of real and imaginary parts, and the errors of the coefficients for the noise of one row."""
    A = np.concatenate([effects.real, effects.imag])
    y = np.concatenate([difference.real, difference.imag])
    weight = 1.0 / np.sqrt(np.maximum(np.diag(covariance), _SMALLEST))
    unit = np.maximum(np.linalg.norm(A * weight[:, None], axis=0), 1e-300)
    inverse = np.linalg.pinv(A * weight[:, None] / unit, rcond=1e-6) * weight / unit[:, None]
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", inverse, covariance, inverse, optimize=True), 0.0))
    return _Fit(inverse @ y, errors)
