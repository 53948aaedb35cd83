"""Alarms over a sequence of sketches: many tests, a least distance that matters, and which columns moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.comparison.columns import ColumnChange, moved_columns
from sketchlearn.comparison.sequence import Change, compared_pairs
from sketchlearn.sketches import Sketch, SketchTable
from sketchlearn.words import html_table

_NAMED = 5  # columns in a line of text
CORRECTIONS = ("holm", "fdr", "none")


@dataclass(frozen=True)
class Alarm:
    """One sketch of a sequence, and whether it differs.

    Attributes
    ----------
    change : Change
        Distance and p-value.
    adjusted : float
        The p-value corrected for the number of comparisons.
    differs : bool
        Whether the adjusted p-value is below the level, and the distance and the effect are large enough.
    columns : tuple of ColumnChange
        Columns that changed, the most significant first; empty if the sketch doesn't differ.
    significant : bool
        Whether the adjusted p-value is below the level, however small the change.
    """

    change: Change
    adjusted: float
    differs: bool
    columns: tuple[ColumnChange, ...] = ()
    significant: bool = False

    def facts(self) -> dict[str, Any]:
        """Everything by name, as values of JSON: what ``compare --json`` and ``drift --json`` print."""
        told = {"adjusted": self.adjusted, "significant": self.significant, "differs": self.differs}
        return {**self.change.facts(), **told, "columns": [c.facts() for c in self.columns]}

    def __str__(self) -> str:
        return f"{self.change.label}: {self.verdict}"

    def __repr__(self) -> str:
        return f"Alarm({self})"

    def _repr_html_(self) -> str:
        facts = {"verdict": self.verdict, "distance (MMD)": f"{self.change.distance:.4g}"}
        facts |= {"effect": f"{self.change.effect:.2f} sd", "p-value": f"{self.adjusted:.3g}"}
        return html_table(f"{self.change.label} against {self.change.reference}", facts.items())

    @property
    def verdict(self) -> str:
        """What to make of it, in a few words."""
        if not self.differs:
            return "a change too small for an alarm" if self.significant else "no change beyond noise"
        if not self.columns:
            return "differs, but no single column changed: the columns depend on each other in another way"
        named = ", ".join(map(str, self.columns[:_NAMED])) + (", ..." if len(self.columns) > _NAMED else "")
        return f"differs: {named}"


def drift(
    sketches: Mapping[Any, Sketch] | SketchTable | Iterable[Sketch],
    *,
    against: str = "first",
    alpha: float = 0.01,
    correction: str = "holm",
    min_distance: float = 0.0,
    min_effect: float = 0.0,
) -> list[Alarm]:
    """Compare each sketch of a sequence with its reference, and say which ones differ and in which columns.

    Parameters
    ----------
    sketches : mapping, SketchTable or iterable of Sketch
        The sketches in their order. They have the same feature map, and no row is in two of them. Sketches with fewer
        than two rows are left out, with a warning.
    against : {"first", "previous", "rest"}
        What each sketch is compared with.
    alpha : float
        The rate of false alarms. With ``"holm"`` the probability of any false alarm in the sequence, with ``"fdr"`` the
        expected share of false ones among the alarms (Benjamini and Hochberg), with ``"none"`` that of each comparison.
    correction : {"holm", "fdr", "none"}
        The correction for the number of comparisons.
    min_distance : float
        Smaller distances raise no alarm, even if they are significant. With very many rows, every difference is
        significant.
    min_effect : float
        Smaller effects (:attr:`Change.effect`, in standard deviations) raise no alarm: 0.3 leaves out small changes,
        0.5 all but large ones.

    Returns
    -------
    list of Alarm
        One for each comparison.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> days = {f"day {i}": rng.normal(size=(2000, 2)) + [0.0, 0.5 * (i == 2)] for i in range(4)}
    >>> phi = sl.design(days["day 0"], n_components=3).with_columns(["a", "b"])
    >>> alarms = sl.drift({day: sl.sketch(rows, phi) for day, rows in days.items()})
    >>> [(alarm.change.label, alarm.columns[0].column) for alarm in alarms if alarm.differs]
    [('day 2', 'b')]
    """
    if correction not in CORRECTIONS:
        raise ValueError(f"correction={correction!r}: choose one of {', '.join(CORRECTIONS)}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    if not min_distance >= 0:
        raise ValueError(f"min_distance must not be negative, got {min_distance}")
    if not min_effect >= 0:
        raise ValueError(f"min_effect must not be negative, got {min_effect}")
    pairs = list(compared_pairs(sketches, against=against))
    levels = adjusted([pair.change.p_value for pair in pairs], correction)
    out = []
    for pair, level in zip(pairs, levels, strict=True):
        significant = level < alpha
        differs = significant and pair.change.distance >= min_distance and pair.change.effect >= min_effect
        columns: tuple[ColumnChange, ...] = ()
        if differs:
            found = moved_columns(pair.reference, pair.sketch)
            sure = adjusted([c.p_value for c in found], "holm")
            columns = tuple(c for c, p in zip(found, sure, strict=True) if p < alpha)
        out.append(Alarm(pair.change, level, differs, columns, significant))
    return out


def adjusted(p_values: list[float], correction: str) -> list[float]:
    """P-values corrected for their number: Holm's, Benjamini and Hochberg's, or as they are.

    Examples
    --------
    >>> from sketchlearn.comparison.drift import adjusted
    >>> adjusted([0.01, 0.04, 0.03], "holm"), adjusted([0.01, 0.04, 0.03], "fdr")
    ([0.03, 0.06, 0.06], [0.03, 0.04, 0.04])
    """
    p = np.asarray(p_values, np.float64)
    n = len(p)
    if correction == "none" or n == 0:
        return p.tolist()
    order = np.argsort(p, kind="stable")
    if correction == "holm":
        sorted_ = np.maximum.accumulate(p[order] * (n - np.arange(n)))
    else:
        sorted_ = np.minimum.accumulate((p[order] * n / np.arange(1, n + 1))[::-1])[::-1]
    out = np.empty(n)
    out[order] = np.minimum(sorted_, 1.0)
    return [float(v) for v in out]
