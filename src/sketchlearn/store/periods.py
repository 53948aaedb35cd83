"""Periods of time (``"1h"``, ``"7d"``, ``"1mo"``) and the buckets that they cut time into, in microseconds UTC."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

_SECOND = 1_000_000  # microseconds
_UNITS = {"s": _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND, "w": 7 * 86400 * _SECOND}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_MONDAY = 4 * 86400 * _SECOND  # 1970-01-05, the first Monday: weeks begin there
_FORM = re.compile(r"([1-9][0-9]{0,5})\s*(s|min|h|d|w|mo|q|y)")


@dataclass(frozen=True)
class Period:
    """A length of time: a number of microseconds, or of calendar months.

    `text`: as it was written. `micros`, `months`: the length; one of them is 0.

    Examples
    --------
    >>> from sketchlearn.store.periods import Period, moment, readable
    >>> day = Period.of("1d")
    >>> readable(int(day.floor(moment("2024-02-29 13:00"))))
    '2024-02-29'
    >>> readable(int(Period.of("1mo").after(moment("2024-02-01"))))
    '2024-03-01'
    """

    text: str
    micros: int
    months: int

    @classmethod
    def of(cls, text: str | Period) -> Period:
        """The period that a text says."""
        if isinstance(text, Period):
            return text
        found = _FORM.fullmatch(str(text).strip())
        if found is None:
            raise ValueError(
                f"{text!r} is not a period: write a whole number and one of {', '.join([*_UNITS, *_MONTHS])}, "
                "for example 1h, 7d or 1mo"
            )
        number, unit = int(found[1]), found[2]
        if unit in _UNITS:
            return cls(f"{number}{unit}", number * _UNITS[unit], 0)
        return cls(f"{number}{unit}", 0, number * _MONTHS[unit])

    def floor(self, times: npt.ArrayLike) -> Times:
        """The beginning of the bucket that each moment is in."""
        times = np.asarray(times, np.int64)
        if self.micros:
            origin = _MONDAY if self.text.endswith("w") else 0
            return times - (times - origin) % self.micros
        month = times.astype("M8[us]").astype("M8[M]").astype(np.int64)
        return _of_months(month - month % self.months)

    def after(self, starts: npt.ArrayLike, steps: int = 1) -> Times:
        """The moments that are so many periods later (earlier, if `steps` is negative)."""
        starts = np.asarray(starts, np.int64)
        if self.micros:
            return starts + steps * self.micros
        month = starts.astype("M8[us]").astype("M8[M]")
        rest = starts - month.astype("M8[us]").astype(np.int64)
        return _of_months(month.astype(np.int64) + steps * self.months) + rest

    def divides(self, other: Period) -> bool:
        """Whether every bucket of the other period is made of whole buckets of this one."""
        if self.months or other.months:
            if self.months and other.months:
                return other.months % self.months == 0
            return bool(self.micros) and _UNITS["d"] % self.micros == 0
        weeks = self.text.endswith("w"), other.text.endswith("w")
        whole_days = _UNITS["d"] % self.micros == 0
        return other.micros % self.micros == 0 and (weeks[0] == weeks[1] or whole_days)


def _of_months(months: Any) -> Times:
    return np.asarray(months, np.int64).astype("M8[M]").astype("M8[us]").astype(np.int64)


def moment(value: Any) -> int:
    """A date, a time, a text of ISO 8601 or microseconds as microseconds since 1970 in UTC; no zone means UTC."""
    if isinstance(value, bool):
        raise TypeError("a moment can't be a boolean")
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a time: write it as 2024-05-01 or 2024-05-01T13:00") from None
    if isinstance(value, np.datetime64):
        return int(value.astype("M8[us]").astype(np.int64))
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return moment(dt.datetime(value.year, value.month, value.day))
    raise TypeError(f"a moment is a date, a time or a text, got {type(value).__name__}")


def readable(micros: int | None) -> str:
    """A moment for people and files: ``2024-05-01`` or ``2024-05-01T13:00:00``."""
    if micros is None:
        return "all time"
    when = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(micros))
    return when.date().isoformat() if when.time() == dt.time() else when.isoformat()
