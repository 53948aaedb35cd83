"""Ranges, units and labels of columns: the choices that are made for a table, and their shares of a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from sketchlearn.arrays import Array
from sketchlearn.exceptions import PUBLIC, InputError
from sketchlearn.privacy import noise, selection
from sketchlearn.privacy.calibration import concentrated_sigma
from sketchlearn.privacy.columns import Table
from sketchlearn.privacy.composition import Spent

_LEAST = 20  # thousandths of the rows below the lower quantile, and above the upper one, at least
_MOST = 250  # and at most: quartiles; with fewer rows than that takes nothing is found
_COUNT = 0.25  # of the budget of a quantile, for counting the rows that have a value
_RARE = 0.01  # of the rows, for labels that are not shown
_SIGMAS = 4.0


@dataclass(frozen=True)
class Column:
    """What is known of a column after preparation.

    Attributes
    ----------
    name : str
        Of the column; a number where columns have no names.
    lower, upper : float
        Nearly all numbers are between; 0 and 1 for labels.
    offset, spread : float
        Centre and unit of the numbers.
    labels : bool
        It holds labels and not numbers.
    values, shares : tuple
        Labels that are shown, and their shares of the rows; none if no label is frequent enough.
    rows : int
        About how many rows have a value.
    remark : str
        What the owner should know.
    """

    name: str
    lower: float = 0.0
    upper: float = 1.0
    offset: float = 0.0
    spread: float = 1.0
    labels: bool = False
    values: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    rows: int = 0
    remark: str = ""

    @property
    def shown(self) -> bool:
        """Whether there is anything of it in a map."""
        return bool(self.values) or not self.labels

    def describe(self) -> str:
        """One line for people."""
        if self.labels and not self.values:
            told = "left out, no label is frequent enough to be shown"
        elif self.labels:
            some = ", ".join(f"{v} {s:.0%}" for v, s in list(zip(self.values, self.shares, strict=True))[:6])
            told = f"{len(self.values)} labels: {some}" + (", ..." if len(self.values) > 6 else "")
        else:
            told = f"{self.lower:.6g} to {self.upper:.6g}, in units of {self.spread:.3g} about {self.offset:.6g}"
        return f"{self.name}: {told}" + (f" ({self.remark})" if self.remark else "")


class Part(NamedTuple):
    """What was bought for a column: noisy numbers of rows, and choices among bins, and what they cost together."""

    column: str
    counts: int
    choices: int
    epsilon: float
    delta: float
    rho: float | None

    def describe(self) -> str:
        """One line for people."""
        bought = [f"{n} {word}{'s' * (n > 1)}" for n, word in ((self.counts, "count"), (self.choices, "choice")) if n]
        cost = f"epsilon = {self.epsilon:.4g}" if self.rho is None else f"rho = {self.rho:.4g}"
        more = f", delta = {self.delta:.3g}" if self.delta else ""
        return f"{self.column}: {' and '.join(bought)}, {cost}{more}"


class Choices:
    """The choices that a table needs, their shares of the budget, and the choices themselves."""

    def __init__(
        self, table: Table, epsilon: float, delta: float, relation: str, people: int, most: int
    ) -> None:  # fmt: skip
        self.table, self.relation, self.people, self.most = table, relation, people, most
        self._parts: dict[str, Part] = {}
        self._rows: dict[str, int] = {}
        bought = [name for name in table.labels if name not in table.public]
        if bought and not delta > 0.0:
            raise ValueError(
                f"which labels {bought[0]!r} has is data: give them as a public list, categories={{...}}, or delta > 0"
            )
        rounds = [1 if name in table.bounds else 2 for name in table.numbers]
        choices = 2 * sum(rounds)
        counts = [_COUNT] * len(table.numbers) + [1.0] * len(table.labels)
        if not choices and not counts:
            raise ValueError("there is no column to prepare")
        self._delta = delta / 2.0 / len(bought) if bought else 0.0
        squares = math.fsum(w * w for w in counts)
        adding = epsilon / (choices + math.fsum(counts))
        left = delta - self._delta * len(bought)
        rho = 0.5 / concentrated_sigma(epsilon, left) ** 2 if left > 0.0 else 0.0
        zero = math.sqrt(rho / (choices / 8.0 + squares / 2.0))
        self.concentrated = zero > adding
        self.unit = (zero if self.concentrated else adding) * (1.0 - 1e-9)
        if self.concentrated:
            self.spent = Spent(epsilon, delta, None if bought else rho, "zero-concentrated")
        else:
            self.spent = Spent(epsilon, delta - left if bought else 0.0, None if bought else 0.5 * epsilon**2, "adding")
        self._rho = rho

    def arithmetic(self) -> str:
        """How the costs of the parts add up."""
        total = f"epsilon = {self.spent.epsilon:.6g}, delta = {self.spent.delta:.3g}"
        shown = math.fsum(part.delta for part in self.parts)
        more = f" + {shown:.3g} for showing labels" if shown else ""
        if not self.concentrated:
            return f"{total}: epsilons add up" + more
        used = math.fsum(part.rho or 0.0 for part in self.parts)
        left = self.spent.delta - shown
        return f"{total}: rhos add up to {used:.3g}, which is that epsilon at delta = {left:.3g}{more}"

    @property
    def parts(self) -> list[Part]:
        """What each column has cost."""
        return list(self._parts.values())

    def _pay(self, name: str, epsilon: float, delta: float = 0.0, choice: bool = False) -> None:
        rho = epsilon**2 / (8.0 if choice else 2.0) if self.concentrated else None
        before = self._parts.get(name, Part(name, 0, 0, 0.0, 0.0, None if rho is None else 0.0))
        self._parts[name] = Part(
            name, before.counts + (not choice), before.choices + choice, before.epsilon + epsilon,
            before.delta + delta, None if rho is None else rho + (before.rho or 0.0),
        )  # fmt: skip

    def of_numbers(self) -> list[Column]:
        """Ranges and units of the columns of numbers: one pass over the rows, or two."""
        table = self.table
        if not table.numbers:
            return []
        grids = {name: _Grid(*table.bounds[name]) for name in table.numbers if name in table.bounds}
        first = self._histograms({name: grids.get(name, _Grid()) for name in table.numbers})
        ranks = self._ranks(first)
        found = {name: self._ends(name, first[name], ranks[name]) for name in table.numbers}
        second = {name: _Grid(*found[name]) for name in table.numbers if name not in grids}
        if second:
            for name, grid in self._histograms(second).items():
                found[name] = self._ends(name, grid, ranks[name])
        return [replace(_column(name, *found[name], ranks[name]), rows=self._rows[name]) for name in table.numbers]

    def _histograms(self, grids: dict[str, _Grid]) -> dict[str, _Grid]:
        """Rows in each bin, of the columns that have a grid."""
        places = [(self.table.numbers.index(name), grid) for name, grid in grids.items()]
        for rows in self.table.of_numbers():
            for place, grid in places:
                grid.add(rows[:, place])
        return grids

    def _ranks(self, grids: Mapping[str, _Grid]) -> dict[str, int]:
        """How far from its ends a column is looked at: as near as its number of values and the budget allow."""
        ranks, few = {}, []
        epsilon = _COUNT * self.unit
        moved = self.people * (2 if self.relation == "replace-one" else 1)
        for name, grid in grids.items():
            scale = moved / epsilon * (1.0 + 1e-12)
            n = int(noise.add_laplace(np.array([grid.total], np.int64), scale)[0]) - _SIGMAS * scale
            self._pay(name, epsilon)
            reach = selection.sensitivity(_LEAST, self.relation, self.people)
            needed = selection.rows_needed(selection.ALL_BINS, self.unit, reach)
            self._rows[name] = max(0, round(n + _SIGMAS * scale))
            ranks[name] = max(_LEAST, math.ceil(selection.OF * needed / max(n, 1.0)))
            if ranks[name] > _MOST:
                few.append(f"{name!r} (it would take about {selection.OF / _MOST * needed + _SIGMAS * scale:,.0f})")
        if few:
            raise InputError(
                f"too few values for this budget in column {', '.join(few[:5])}: give more epsilon, delta above 0 or "
                "fewer columns, or design the map from public ",
                PUBLIC,
                ". The budget for this step is spent",
            )
        return ranks

    def _ends(self, name: str, grid: _Grid, rank: int) -> tuple[float, float]:
        """Two quantiles of a column: the smaller end of one bin and the larger end of another."""
        chosen = []
        for wanted in (rank, selection.OF - rank):
            reach = selection.sensitivity(wanted, self.relation, self.people)
            values = selection.scores(grid.counts, 0, wanted)
            chosen.append(selection.noisy_max(values, reach, self.unit, self.concentrated))
            self._pay(name, self.unit, choice=True)
        low, high = min(chosen), max(chosen)
        return grid.edges(low)[0], grid.edges(high)[1]

    def of_labels(self) -> list[Column]:
        """Labels of the columns of labels, and their shares of the rows."""
        found = []
        for name in self.table.labels:
            counts = self.table.of_labels(name)
            public = self.table.public.get(name)
            if public is not None:
                moved = self.people * (2 if self.relation == "replace-one" else 1)
                listed = np.array([counts.get(label, 0) for label in public], np.int64)
                noisy = noise.add_laplace(listed, moved / self.unit * (1.0 + 1e-12))
                shown = dict(zip(public, noisy.tolist(), strict=True))
                self._pay(name, self.unit)
            else:
                shown, _ = selection.frequent(counts, self.unit, self._delta, self.relation, self.people)
                shown = dict(sorted(shown.items(), key=lambda pair: (-pair[1], pair[0]))[: self.most])
                self._pay(name, self.unit, self._delta)
            values = tuple(sorted(shown)) if public is None else public
            total = max(1.0, math.fsum(max(n, 0) for n in shown.values()))
            shares = tuple(max(shown[label], 0) / total * (1.0 if public else 1.0 - _RARE) for label in values)
            found.append(Column(name, labels=True, values=values, shares=shares, rows=round(total)))
        return found


class _Grid:
    """Rows in the bins of a column: of the grid of all numbers, or of a grid between two of them."""

    def __init__(self, low: float | None = None, high: float | None = None) -> None:
        self.low, self.high = low, high
        self.counts = np.zeros(selection.ALL_BINS if low is None else selection.LINEAR_BINS + 2, np.int64)

    @property
    def total(self) -> int:
        """Rows with a value."""
        return int(self.counts.sum())

    def add(self, values: Array) -> None:
        """Count some values; missing and infinite ones are left out."""
        values = values[np.isfinite(values)]
        if self.low is None or self.high is None:
            bins = selection.bins_of(values)
        else:
            with np.errstate(over="ignore"):
                place = (values - self.low) / (self.high - self.low) * selection.LINEAR_BINS
            bins = np.clip(np.floor(place), -1, selection.LINEAR_BINS).astype(np.int64) + 1
        self.counts += np.bincount(bins, minlength=len(self.counts))

    def edges(self, number: int) -> tuple[float, float]:
        """Smallest and largest value of a bin; of the outermost ones, which hold all beyond, the finite end."""
        if self.low is None or self.high is None:
            return selection.edges_of(number)
        step = (self.high - self.low) / selection.LINEAR_BINS
        at = [min(max(number - 1 + i, 0), selection.LINEAR_BINS) for i in (0, 1)]
        return self.low + at[0] * step, self.low + at[1] * step


def _column(name: str, lower: float, upper: float, rank: int) -> Column:
    """Centre and unit of a column between two of its quantiles: those of a normal law with the same ones."""
    width = upper - lower
    size = max(abs(lower), abs(upper))
    if width <= 1e-12 * size or width < 1e-15:
        unit = max(size, 1.0)
        return Column(
            name, lower, upper, 0.5 * (lower + upper), unit, remark="nearly all values are one: unit is a guess"
        )
    return Column(name, lower, upper, 0.5 * (lower + upper), width / (-2.0 * float(ndtri(rank / selection.OF))))
