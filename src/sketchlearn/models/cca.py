"""Canonical correlations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import register_model, shown, stored
from sketchlearn.models.file import Reader
from sketchlearn.models.joint import JointModel
from sketchlearn.models.table import Column, Table, loadings, number
from sketchlearn.words import counted


@register_model
class CCAModel(JointModel):
    """Pairs of linear forms of two groups of columns.

    Attributes
    ----------
    correlations, p_values : ndarray (k,)
        Canonical correlations, and how probable they are by chance.
    x_rotations, y_rotations : ndarray (p, k), (q, k)
        Centred rows times these are the scores.
    x_loadings, y_loadings : ndarray (p, k), (q, k)
        Covariances of columns with the scores of their group; a file leaves out those of the first.
    x_mean, y_mean, x_spread, y_spread : ndarray (p,), (q,)
        Means and standard deviations of the columns.
    x_columns, y_columns : tuple of str
        Names of the two groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import CCAModel
    >>> one = np.ones(1)
    >>> CCAModel(rows=10, columns=("a", "b"), correlations=one, p_values=0 * one, x_rotations=one[:, None],
    ...          y_rotations=one[:, None], y_loadings=one[:, None], x_mean=one, y_mean=one, x_spread=one, y_spread=one,
    ...          x_columns=("a",), y_columns=("b",))
    Model(cca: 1 pair of 1 and 1 columns, 10 rows)
    """

    task: str = "cca"
    groups: ClassVar[tuple[str, str]] = ("x_columns", "y_columns")
    title: ClassVar[str] = "Canonical correlations"
    thing: ClassVar[str] = "pair"
    praise: ClassVar[str] = "These correlations are more than chance"

    attributes: ClassVar[Mapping[str, str]] = shown(
        "x_loadings", coef="coefficients", intercept="intercepts", n_components="size"
    )

    correlations: Array = stored("k", shown=True)
    p_values: Array = stored("k", shown=True)
    x_rotations: Array = stored("p", "k", shown=True)
    y_rotations: Array = stored("q", "k", shown=True)
    y_loadings: Array = stored("q", "k", shown=True)
    x_mean: Array = stored("p")
    y_mean: Array = stored("q")
    x_spread: Array = stored("p")
    y_spread: Array = stored("q")
    x_columns: tuple[str, ...] = stored(kind=list)
    y_columns: tuple[str, ...] = stored(kind=list)
    x_loadings: Array | None = None

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        sides = f"{len(self.x_columns)} and {len(self.y_columns)} columns"
        return f"{counted(self.size, 'pair')} of {sides}, {self.row_count} rows"

    def own_numbers(self) -> list[tuple[str, str]]:
        """The largest correlation."""
        return [(number(float(self.correlations[0])), "largest correlation")] if self.size else []

    def table(self) -> Table:
        """Correlation, chance and weights of each pair, a column in units of its standard deviation."""
        columns = [
            Column("pair", range(1, self.size + 1), "text"),
            Column("correlation", self.correlations),
            Column("by chance", self.p_values),
            *loadings(self.x_columns, self.x_rotations * self.x_spread[:, None]),
            *loadings(self.y_columns, self.y_rotations * self.y_spread[:, None]),
        ]
        return Table("pairs", "Pairs", tuple(columns), "Weights of the columns in the scores, per standard deviation.")

    @property
    def coefficients(self) -> Array:
        """Of the regression of the second group on the scores of the first, (q, p)."""
        # the covariance of a target and a score of X is its loading on the paired score times their correlation
        return np.asarray((self.y_loadings * self.correlations) @ self.x_rotations.T)

    @property
    def intercepts(self) -> Array:
        """Constants of that regression, (q,)."""
        return np.asarray(self.y_mean - self.coefficients @ self.x_mean)

    def transform_rows(self, rows: AnyArray) -> Array:
        """Scores of the first group, (n, k)."""
        return np.asarray((rows - self.x_mean) @ self.x_rotations)

    def transform_others(self, rows: AnyArray) -> Array:
        """Scores of the second group, (n, k)."""
        return np.asarray((rows - self.y_mean) @ self.y_rotations)

    def predict_rows(self, rows: Array) -> AnyArray:
        """The second group as the scores predict it, (n, q), or (n,) if it has one column."""
        found = rows @ self.coefficients.T + self.intercepts
        return np.asarray(found[:, 0] if len(self.y_columns) == 1 else found)

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Scores of the first group, and what they say about the second."""
        scores, others = self.transform_rows(rows), self.predict_rows(rows).reshape(len(rows), -1)
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
