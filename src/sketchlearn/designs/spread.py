"""Offset and spread of columns that a few outliers can't move, and remarks about columns.

A pilot's variance is decided by its largest values: one row of 10⁹, or three sentinels of -999999, would set the scale
of every frequency.  Values that lie more than fifty robust standard deviations from the median are left out of
moments; they stay in the data and in the sketch.  Many equal values are left out
too, if they are codes for what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Flags
from sketchlearn.exceptions import DataWarning, Option, warn
from sketchlearn.words import counted

_FAR = 50.0  # robust standard deviations beyond which a value says nothing about the spread of the others
_FEW = 0.05  # of the rows: more than that are no accident
_CODES = 3
_QUARTILES, _HALF = 1.349, 0.6745  # standard deviations of a normal law between quartiles, and to one of them
_NAMED = 3  # columns with such values that are named one by one
_SAY = 0.1  # of the variance, with which a column decides something
_EVEN = ", or dividing columns by their spread, gives all of them the same weight"
_TENTH = 0.1  # of the values, which are left out on each side
_WIDER = 30.0  # times as wide as another column, from which on distances are about one column only


def far(sample: Array) -> Flags:
    """Which values are so far out that they say nothing about the spread of their column, (n, d)."""
    middle, width = _middles(sample)
    with np.errstate(over="ignore"):  # distances may be infinite: far enough
        out = np.abs(sample - middle) > _FAR * np.where(width > 0, width, np.inf)
    few = out.mean(axis=0) <= _FEW
    codes = [not f and _are_codes(column[o], column[~o]) for f, o, column in zip(few, out.T, sample.T, strict=True)]
    return np.asarray(out & (few | codes))


def _middles(sample: Array) -> tuple[Array, Array]:
    """Median and robust standard deviation of each column: of the values that differ, where half of them are one."""
    low, middle, high = np.percentile(sample, [25.0, 50.0, 75.0], axis=0)
    width = (high - low) / _QUARTILES
    for k in np.flatnonzero(width == 0).tolist():  # (as in pictures)
        with np.errstate(over="ignore"):
            apart = np.abs(sample[:, k] - middle[k])
        if apart.any():
            width[k] = np.median(apart[apart > 0]) / _HALF
    return middle, width


def _are_codes(values: Array, others: Array) -> bool:
    """Whether values are two or three numbers again and again, such as 9999 for a missing one, and others are not."""
    return len(np.unique(values)) <= _CODES and len(np.unique(others)) > 10 * _CODES


def usual(sample: Array) -> Flags:
    """Which rows have no such value; all of them, if few would be left."""
    rows = np.asarray(~far(sample).any(axis=1))
    return rows if 2 * int(rows.sum()) >= len(rows) else np.ones(len(sample), bool)


def standard_units(
    sample: Array,
    names: Sequence[str] | None = None,
    indicators: Flags | None = None,
    weights: Array | None = None,
) -> tuple[Array, Array]:
    """Offset and spread of each column, without values that are far out; ValueError for constant columns.

    `indicators` that are constant in the sample have a spread of 1: their other value may come later.  The numbers have
    single precision: weights and repetition, which differ in the last bits, give the same ones.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.spread import standard_units
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2)) * [1.0, 100.0]
    >>> rows[7, 0] = 1e9
    >>> standard_units(rows)[1].round()
    array([ 1., 98.])
    """
    offset, spread = (np.asarray(v.astype(np.float32), np.float64) for v in _moments(sample, weights))
    if indicators is not None:
        spread = np.where(indicators & (spread == 0), 1.0, spread)
    if not (spread > 0).all():
        column = _named(int(np.argmin(spread)), names, len(spread))
        raise ValueError(f"column {column} is constant in the pilot and can't be standardised: leave it out")
    return offset, spread


def column_units(rows: npt.ArrayLike, weights: Array | None = None, *, robust: bool = False) -> tuple[Array, Array]:
    """Offset and spread of each column, rounded coarsely; a constant column counts in its own units.

    Mean and standard deviation, or if `robust` median and quartiles, which heavy tails don't move.

    For tasks that do not depend on the units of columns: every designer takes them from here.  A column that varies has
    its own spread, however narrow it is.  Rounding to a thousandth makes them the same for rows in another order, or
    with weights instead of repetition.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.spread import column_units
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 1e-12, 0.0]
    >>> column_units(rows)[1].round(14)
    array([9.91210938e-01, 9.60000000e-13, 1.00000000e+00])
    """
    plain = np.asarray(rows, np.float64)
    offset, spread = _middles(plain) if robust else _moments(plain, weights)
    spread = np.where((plain.max(axis=0) > plain.min(axis=0)) & (spread > 0), spread, 1.0)
    mantissa, exponent = np.frexp(spread)
    spread = np.ldexp(np.rint(mantissa * 1024.0), exponent - 10)
    return np.rint(offset / spread * 1024.0) / 1024.0 * spread, spread


def unlike(rows: Array) -> bool:
    """Whether one column is so much wider than another that they hardly have the same unit.

    Widths are those of the middle of the values.  Columns in which most values are one, such as pixels at the edge of
    pictures, are rare and not narrow.
    """
    low, high = np.quantile(rows, [_TENTH, 1.0 - _TENTH], axis=0)
    widths = (high - low)[high > low]
    return bool(len(widths) and widths.max() > _WIDER * widths.min())


def _moments(sample: Array, weights: Array | None) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, without values that are far out."""
    near = np.where(far(sample), 0.0, 1.0 if weights is None else weights[:, None])
    total = near.sum(axis=0)
    near[:, total == 0] = 1.0 if weights is None else weights[:, None]
    total = near.sum(axis=0)
    offset = (near * sample).sum(axis=0) / total
    return offset, np.sqrt((near * (sample - offset) ** 2).sum(axis=0) / total)


def remarks(sample: Array, names: Sequence[str] | None, distances: bool, outliers: bool = True) -> list[DataWarning]:
    """What the owner of some pilot rows should know; `distances`: whether the widths of columns are compared."""
    out: list[DataWarning] = []
    wild = far(sample)
    columns = np.flatnonzero(wild.any(axis=0)).tolist() if outliers else []
    for k in columns[:_NAMED]:
        values = sample[wild[:, k], k]
        worst = values[np.argmax(np.abs(values - np.median(sample[:, k])))]
        out.append(
            DataWarning(
                f"column {_named(k, names, sample.shape[1])} holds {counted(len(values), 'value')} far from all others "
                f"(such as {worst:.6g}) among {len(sample)} rows: check whether that is real. Such values count in "
                "what is learned, but not in the scale"
            )
        )
    if len(columns) > _NAMED:
        out.append(DataWarning(f"values far from all others in {counted(len(columns) - _NAMED, 'more column')}, too"))
    if distances and sample.shape[1] > 1:
        out += _of_units(np.where(wild, np.nan, sample), names)
    return out


def _of_units(sample: Array, names: Sequence[str] | None) -> list[DataWarning]:
    """Distances are decided by the widest column: a remark where another column hardly counts."""
    spread = np.nanstd(sample, axis=0)
    wide, narrow = int(np.argmax(spread)), int(np.argmin(np.where(spread > 0, spread, np.inf)))
    if not spread[wide] > _WIDER * spread[narrow] > 0:
        return []
    share = spread[wide] ** 2 / (spread**2).sum()
    if share < _SAY:
        return []  # one of many wide ones, as in pictures
    column = _named(wide, names, len(spread))
    said = f"column {column} has {share:.1%} of the variance; "
    return [DataWarning(said, Option("standardize", True), _EVEN)]


def warn_of(sample: Array, names: Sequence[str] | None, distances: bool, outliers: bool = True) -> None:
    """Remarks as warnings."""
    for remark in remarks(sample, names, distances, outliers):
        warn(remark)


def _named(number: int, names: Sequence[str] | None, columns: int) -> str:
    return repr(names[number]) if names is not None and len(names) == columns else str(number)
