"""Watching a dataset: is today like the weeks before, and when did it change?

A check every day for a year is 365 tests.  The probability of any false alarm within a horizon is bounded by the sum
of the levels of its checks, whatever their dependence (the union bound: they share their reference), so the level of
one check is `alpha` times its length over the horizon: alpha is spent evenly over time.

Change points are found by binary segmentation with the kernel scan statistic: the squared distance of the averages
before and after a split, times ``n_a n_b / (n_a + n_b)`` (Harchaoui, Bach and Moulines 2008, without whitening).  Its
law without a change is that of :func:`sketchlearn.compare`; the largest over all splits gets a Bonferroni bound.

Levels of one check are small (0.1 in a year of days is 0.00027 per day), and p-values hold that far out
(:mod:`sketchlearn.comparison.squares`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sketchlearn.comparison import ColumnChange, moved_columns
from sketchlearn.comparison.two_sample import compared, sampling_noise, squared_distance
from sketchlearn.sketches import Sketch
from sketchlearn.sketches.value import merge, pooled
from sketchlearn.store.periods import Period, moment, readable
from sketchlearn.store.query import Query

_MONTH = 30.436875 * 86400e6  # microseconds: 1/12 of a Gregorian year


@dataclass(frozen=True)
class Check:
    """One period against the time before it.

    `period`, `since`, `until`: beginning of the period, and beginning and end of the reference. `rows`,
    `reference_rows`: rows of both. `distance`: the part of their distance that sampling noise doesn't explain.
    `p_value`: of no difference. `level`: the p-value below which it is an alarm, such that the false alarms of a
    horizon are bounded. `differs`: whether there is an alarm. `columns`: columns that moved, the surest first.
    """

    period: str
    since: str
    until: str
    rows: int | float
    reference_rows: int | float
    distance: float
    p_value: float
    level: float
    differs: bool
    columns: tuple[ColumnChange, ...]

    def facts(self) -> dict[str, Any]:
        """Everything by name, as values of JSON."""
        columns = [
            {k: (None if v != v else v) for k, v in (("column", c.column), ("shift", c.shift), ("spread", c.spread))}
            for c in self.columns
        ]
        return {**{k: v for k, v in self.__dict__.items() if k != "columns"}, "columns": columns}


@dataclass(frozen=True)
class ChangePoint:
    """A moment at which the rows changed.

    `period`: the first period after the change. `p_value`: of no change, corrected for the number of moments that were
    tried. `distance`: between before and after, without the part that noise explains. `columns`: columns that moved,
    the surest first.
    """

    period: str
    p_value: float
    distance: float
    columns: tuple[ColumnChange, ...]


def level_of(every: Period, alpha: float, horizon: Period) -> float:
    """The level of one check, for false alarms of probability `alpha` within the horizon.

    Examples
    --------
    >>> from sketchlearn.store.periods import Period
    >>> from sketchlearn.store.watch import level_of
    >>> round(1 / level_of(Period.of("1d"), 0.1, Period.of("1y")))
    3652
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    share = _length(every) / _length(horizon)
    return alpha * min(share, 1.0)


def _length(period: Period) -> float:
    return period.micros or period.months * _MONTH


def check(
    query: Query,
    *,
    at: Any = None,
    every: str | Period | None = None,
    reference: str | Period = "28d",
    alpha: float = 0.1,
    horizon: str | Period = "1y",
    min_distance: float = 0.0,
) -> Check:
    """Compare the latest period of a selection (or the one `at` a moment) with the time before it."""
    own = query.dataset.every
    if own is None:
        raise ValueError("a check needs cells with a time")
    period, window = own if every is None else Period.of(every), Period.of(reference)
    level = level_of(period, alpha, Period.of(horizon))
    if at is None:
        starts = [a for a, _, _ in query.cell_keys() if a is not None]
        if not starts:
            raise ValueError("there are no cells to check")
        at = max(starts)
    start = int(period.floor(moment(at)))
    first = int(window.after(start, -1))
    today = query.between(start, int(period.after(start))).sketch()
    before = query.between(first, start).sketch()
    c = compared(before, today, sampling_noise(pooled([before, today])))
    differs = c.p_value < level and c.distance >= min_distance
    columns: tuple[ColumnChange, ...] = ()
    if differs:
        moved = moved_columns(before, today)
        columns = tuple(k for k in moved if k.p_value * len(moved) < level)
    return Check(
        readable(start), readable(first), readable(start), today.count, before.count, c.distance, c.p_value, level,
        differs, columns,
    )  # fmt: skip


def change_points(sketches: Mapping[str, Sketch], alpha: float = 0.01) -> list[ChangePoint]:
    """When a sequence of sketches changed, in the order of time.

    `sketches`: in the order of time, of rows that are in one of them only. `alpha`: probability of finding any change
    where there is none.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.store.watch import change_points
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=60, scale=1.5, seed=0).with_columns(["a", "b"])
    >>> days = {f"day {i}": sl.sketch(rng.normal(size=(300, 2)) + [0, 0.5 * (i >= 6)], phi) for i in range(10)}
    >>> [(c.period, c.columns[0].column) for c in change_points(days)]
    [('day 6', 'b')]
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    used = {label: s for label, s in sketches.items() if s.effective_count >= 2}
    if len(used) < 2:
        return []
    names, parts = list(used), list(used.values())
    found: list[ChangePoint] = []
    todo = [(0, len(parts))]
    while todo:
        low, high = todo.pop()
        if high - low < 2:
            continue
        noise = sampling_noise(merge(parts[low:high]))
        split = _best_split(parts[low:high])
        before, after = merge(parts[low : low + split]), merge(parts[low + split : high])
        c = compared(before, after, noise)
        p = min(1.0, c.p_value * (len(parts) - 1))
        if p < alpha:
            columns = moved_columns(before, after)
            sure = tuple(k for k in columns if k.p_value * len(columns) < alpha)
            found.append(ChangePoint(names[low + split], p, c.distance, sure))
            todo += [(low, low + split), (low + split, high)]
    return sorted(found, key=lambda point: names.index(point.period))


def _best_split(parts: Sequence[Sketch]) -> int:
    """The place with the largest scan statistic."""
    best, place = -1.0, 1
    left, total = parts[0], merge(parts)
    for i in range(1, len(parts)):
        right = total - left
        factor = 1.0 / left.effective_count + 1.0 / right.effective_count
        value = squared_distance(left, right) / factor
        if value > best:
            best, place = value, i
        left = left + parts[i]
    return place
