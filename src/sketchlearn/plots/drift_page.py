"""A page about drift: which sketches of a sequence differ, in which columns, and whether that is much."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from typing import Any

import sketchlearn
from sketchlearn.comparison import Alarm
from sketchlearn.models import Column, Table
from sketchlearn.plots.axes import COLORS
from sketchlearn.plots.report import footer, header, page_of, table_of, tiles_of
from sketchlearn.words import counted

_REFERENCE = {"previous": "the one before", "rest": "all others"}
_GUIDE = (
    "Significant is not the same as important. The p-value says whether noise could explain a change; with many rows "
    "it is tiny for changes that don't matter. The effect says how large the change is: the shift, in standard "
    "deviations (sd) of a column, that would move the rows as far. Below 0.3 it is small, above 0.5 large. For one "
    "column, PSI is the population stability index: below 0.1 small, above 0.25 large."
)


def drift_report(
    alarms: Sequence[Alarm],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    alpha: float = 0.01,
) -> str:
    """Write a report about drift: one HTML file that needs no network and no other file.

    Parameters
    ----------
    alarms : list of Alarm
        What :func:`sketchlearn.drift` returned.
    path : path, optional
        Where to write the page; without it the page is only returned.
    title : str, optional
        Heading; by default how many sketches differ.
    alpha : float
        The accepted rate of false alarms.

    Returns
    -------
    str
        The page.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> days = {f"day {i}": rng.normal(size=(2000, 2)) + [0.0, 0.5 * (i == 2)] for i in range(4)}
    >>> phi = sl.design(days["day 0"], n_components=3, task="monitoring").with_columns(["age", "income"])
    >>> page = sl.plots.drift_report(sl.drift({day: sl.sketch(rows, phi) for day, rows in days.items()}))
    >>> "1 of 3 differ from day 0" in page, "<h2>day 2" in page
    (True, True)
    """
    if not alarms:
        raise ValueError("there is nothing to report: give the comparisons that sketchlearn.drift returns")
    differ = [alarm for alarm in alarms if alarm.differs]
    first = alarms[0].change
    reference = _REFERENCE.get(first.against, first.reference)
    heading = title or f"{len(differ)} of {len(alarms)} differ from {reference}"
    level = alpha / max(1, len(alarms) - len(differ))
    library = sketchlearn.__version__
    data: dict[str, Any] = {
        "colors": list(COLORS),
        "drift": [
            {"label": a.change.label, "distance": a.change.distance, "edge": a.change.limit(level),
             "differs": a.differs, "words": a.verdict}
            for a in alarms
        ],
    }  # fmt: skip
    parts = [
        header(heading, "Compared from sketches; no row was looked at again or is in this page."),
        _verdict(alarms, differ, reference),
        tiles_of(_tiles(alarms, differ, alpha)),
        "<section><h2>Distances</h2><div class='picture' id='drift'></div></section>",
        table_of(_comparisons(alarms)),
        f"<section><h2>How to read this</h2><p>{escape(_GUIDE)}</p></section>",
        *(table_of(_columns(alarm, i)) for i, alarm in enumerate(differ) if alarm.columns),
        footer(library),
    ]
    return page_of(heading, parts, data, library, path)


def _verdict(alarms: Sequence[Alarm], differ: list[Alarm], reference: str) -> str:
    """What to do, in a sentence or two."""
    if not differ:
        said = f"Nothing to do: no sketch differs from {reference} by more than noise."
        return f"<section class='verdict good'><h2>No drift</h2><p>{escape(said)}</p></section>"
    worst = max(differ, key=lambda alarm: alarm.change.effect if alarm.change.effect == alarm.change.effect else 0.0)
    said = f"Look at {worst.change.label} first: its change is {worst.change.size}"
    said += f" (effect {worst.change.effect:.2f} sd)." if worst.change.effect == worst.change.effect else "."
    moved = [(change, alarm) for alarm in differ for change in alarm.columns]
    if moved:
        change, alarm = max(moved, key=lambda pair: abs(pair[0].shift) if pair[0].tells_shift else 0.0)
        said += f" The column that moved most is {change} on {alarm.change.label}."
    else:
        said += " No column moved by itself: the columns depend on each other in another way."
    return f"<section class='verdict'><h2>Drift</h2><p>{escape(said)}</p></section>"


def _tiles(alarms: Sequence[Alarm], differ: list[Alarm], alpha: float) -> list[tuple[str, str]]:
    rows = sum(alarm.change.rows for alarm in alarms)
    large = sum(alarm.change.size == "large" for alarm in differ)
    return [
        (f"{len(alarms):,}", "comparisons"),
        (f"{len(differ):,}", "differ"),
        (f"{large:,}", "of them by a large effect"),
        (f"{rows:,.0f}", "rows"),
        (f"{alpha:g}", "accepted rate of false alarms"),
    ]


def _comparisons(alarms: Sequence[Alarm]) -> Table:
    references = [a.change.reference for a in alarms]
    known = [a.change.effect if a.change.effect == a.change.effect else None for a in alarms]
    return Table(
        "comparisons", "All comparisons",
        (
            Column("sketch", [a.change.label for a in alarms], "text"),
            *([Column("against", references, "text")] if len(set(references)) > 1 else []),
            Column("rows", [a.change.rows for a in alarms], "count"),
            Column("distance", [a.change.distance for a in alarms]),
            Column("effect (sd)", known, decimals=2),
            Column("size", [a.change.size if a.differs else "" for a in alarms], "text"),
            Column("p-value", [a.adjusted for a in alarms]),
            Column("columns that moved", [_names(a) for a in alarms], "text"),
        ),
    )  # fmt: skip


def _names(alarm: Alarm) -> str:
    if not alarm.differs:
        return ""
    names = [change.column for change in alarm.columns]
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") or "none by itself"


def _columns(alarm: Alarm, number: int) -> Table:
    """The columns that moved, of one alarm."""
    changes = alarm.columns

    def told(values: list[float], known: list[bool]) -> list[float | None]:
        return [value if ok and value == value else None for value, ok in zip(values, known, strict=True)]

    shifts, spreads = [c.tells_shift for c in changes], [c.tells_spread for c in changes]
    return Table(
        f"moved-{number}",
        f"{alarm.change.label}: {counted(len(changes), 'column')} moved",
        (
            Column("column", [c.column for c in changes], "text"),
            Column("mean before", [c.means[0] for c in changes]),
            Column("mean after", [c.means[1] for c in changes]),
            Column("shift (sd)", told([c.shift for c in changes], shifts), decimals=2),
            Column("error", told([c.shift_error for c in changes], shifts), decimals=2),
            Column("spread (%)", told([100.0 * c.spread for c in changes], spreads), decimals=0),
            Column("PSI", told([min(c.psi, 99.0) for c in changes], shifts), decimals=2),
            Column("size", [c.size for c in changes], "text"),
            Column("p-value", [c.p_value for c in changes]),
        ),
        ""
        if all(shifts + spreads)
        else "Where a cell is empty the sketches can't tell. Maps designed for monitoring can.",
    )
