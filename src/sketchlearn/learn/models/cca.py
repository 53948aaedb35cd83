"""Canonical correlations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.learn.models.base import Model, register_model
from sketchlearn.learn.models.file import Reader
from sketchlearn.learn.models.table import Column, Table, number

Array = npt.NDArray[np.float64]


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CCAModel(Model):
    """Pairs of linear forms of two groups of columns.

    Attributes
    ----------
    correlations, p_values : ndarray (k,)
        Canonical correlations, and how probable they are by chance.
    x_rotations, y_rotations : ndarray (p, k), (q, k)
        Centred rows times these are the scores.
    y_loadings : ndarray (q, k)
        Covariances of the second group with its scores.
    x_mean, y_mean, x_spread, y_spread : ndarray (p,), (q,)
        Means and standard deviations of the columns.
    x_columns, y_columns : tuple of str
        Names of the two groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import CCAModel
    >>> one = np.ones(1)
    >>> CCAModel(rows=10, columns=("a", "b"), correlations=one, p_values=0 * one, x_rotations=one[:, None],
    ...          y_rotations=one[:, None], y_loadings=one[:, None], x_mean=one, y_mean=one, x_spread=one, y_spread=one,
    ...          x_columns=("a",), y_columns=("b",))
    Model(cca: 1 pair of 1 and 1 columns, 10 rows)
    """

    task: ClassVar[str] = "cca"
    layout: ClassVar[Mapping[str, Any]] = {
        "correlations": ("k",),
        "p_values": ("k",),
        "x_rotations": ("p", "k"),
        "y_rotations": ("q", "k"),
        "y_loadings": ("q", "k"),
        "x_mean": ("p",),
        "y_mean": ("q",),
        "x_spread": ("p",),
        "y_spread": ("q",),
        "x_columns": list,
        "y_columns": list,
    }
    title: ClassVar[str] = "Canonical correlations"
    thing: ClassVar[str] = "pair"
    praise: ClassVar[str] = "These correlations are more than chance"

    correlations: Array
    p_values: Array
    x_rotations: Array
    y_rotations: Array
    y_loadings: Array
    x_mean: Array
    y_mean: Array
    x_spread: Array
    y_spread: Array
    x_columns: tuple[str, ...]
    y_columns: tuple[str, ...]

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        sides = f"{len(self.x_columns)} and {len(self.y_columns)} columns"
        return f"{self.size} pair{'s' * (self.size != 1)} of {sides}, {self.row_count} rows"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The first group."""
        return self.x_columns

    def renamed(self, names: Any) -> Model:
        """Names of the first group; the others are targets."""
        given = tuple(str(name) for name in names)
        if self.named or len(given) != len(self.x_columns):
            return self
        count = len(self.y_columns)
        targets = ("target",) if count == 1 else tuple(f"target {i}" for i in range(count))
        new = dict(zip((*self.x_columns, *self.y_columns), (*given, *targets), strict=True))
        columns = tuple(new.get(name, name) for name in self.columns)
        return replace(self, x_columns=given, y_columns=targets, columns=columns, named=True)

    def own_numbers(self) -> list[tuple[str, str]]:
        """The largest correlation."""
        return [(number(float(self.correlations[0])), "largest correlation")] if self.size else []

    def table(self) -> Table:
        """Correlation, chance and weights of each pair, a column in units of its standard deviation."""
        columns = [
            Column("pair", range(1, self.size + 1), "text"),
            Column("correlation", self.correlations),
            Column("by chance", self.p_values),
        ]
        for names, rotations, spread in (
            (self.x_columns, self.x_rotations, self.x_spread),
            (self.y_columns, self.y_rotations, self.y_spread),
        ):
            weights = rotations * spread[:, None]
            unit = np.maximum(np.abs(weights).max(0, initial=0.0), 1e-300)
            for name, row in zip(names, weights, strict=True):
                columns.append(Column(name, row, "number", 3, row / unit))
        return Table("pairs", "Pairs", tuple(columns), "Weights of the columns in the scores, per standard deviation.")

    def scores(self, rows: Array) -> Array:
        """Scores of the first group, (n, k)."""
        return np.asarray((rows - self.x_mean) @ self.x_rotations)

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """The second group as the scores predict it, (n, q), or (n,) if it has one column."""
        found = self.y_mean + self.scores(rows) @ (self.y_loadings * self.correlations).T
        return np.asarray(found[:, 0] if len(self.y_columns) == 1 else found)

    def answers(self, rows: Array, proba: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Scores of the first group, and what they say about the second."""
        if proba:
            self.probabilities(rows)
        scores, others = self.scores(rows), self.predict_rows(rows).reshape(len(rows), -1)
        found = {f"score {l + 1}": scores[:, l] for l in range(self.size)}
        return found | {f"predicted {name}": others[:, j] for j, name in enumerate(self.y_columns)}

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """There is a name for each column, and correlations are correlations."""
        sides = ((found["x_columns"], "p"), (found["y_columns"], "q"))
        if any(len(names) != reader.lengths[letter] for names, letter in sides):
            raise reader.fail("there should be a name for each of the columns of both groups")
        if (np.abs(found["correlations"]) > 1.0).any():
            raise reader.fail("correlations are between -1 and 1")

    @classmethod
    def width(cls, reader: Reader) -> int:
        """Columns of the sketch: at least those of both groups."""
        both = reader.lengths["p"] + reader.lengths["q"]
        columns = reader.facts.get("n_columns", both)
        if isinstance(columns, bool) or not isinstance(columns, int) or not both <= columns < 10**6:
            raise reader.fail(f"the field 'n_columns' is {columns!r}, with {both} columns in two groups")
        return columns
