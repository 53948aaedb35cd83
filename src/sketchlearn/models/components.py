"""What models of weighted components share: a table of centres, and which component a row belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import Model
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.rules import softmax
from sketchlearn.models.table import Column, Table, decimals


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ComponentModel(Model):
    """A model of weighted components in the space of the rows.

    Attributes
    ----------
    weights : ndarray (k,)
        Share of the rows in each component.
    """

    weights: Array

    def parts(self) -> Mixture:
        """The components."""
        return super().parts() if self.mixture is None else self.mixture

    def log_densities(self, rows: Array) -> Array:
        """Logarithm of weight times density of each component, (n, k)."""
        return self.density().log_densities(rows)

    def predict_rows(self, rows: Array) -> AnyArray:
        """The most probable component."""
        return self.log_densities(rows).argmax(1)

    def probabilities(self, rows: Array) -> Array:
        """Weighted densities over their sum."""
        return softmax(self.log_densities(rows))

    def row_scores(self, rows: Array) -> Array:
        """Logarithm of the density."""
        return np.asarray(np.logaddexp.reduce(self.log_densities(rows), axis=1))

    def own_columns(self) -> list[Column]:
        """Columns of the table between the shares and the centres."""
        return []

    def table(self) -> Table:
        """Share and centre of each component; colours say how far from the mean of all rows a centre is."""
        found = self.parts()
        everything = self.mixture or found
        mean = everything.mean
        spread = np.sqrt(np.maximum(np.diag(everything.covariance), 1e-300))
        thing = self.thing.split()[-1]
        columns = [
            Column(thing, range(len(found.weights)), "text"),
            Column("share", found.weights, "share"),
            Column("rows (estimated)", found.weights * self.rows, "count"),
            *self.own_columns(),
        ]
        for j, name in enumerate(self.columns):
            away = (found.means[:, j] - mean[j]) / spread[j]
            notes = [f"{value:+.2f} standard deviations" for value in away]
            shades = np.clip(away / 2.5, -1.0, 1.0)
            columns.append(Column(name, found.means[:, j], "number", decimals(float(spread[j])), shades, notes))
        return Table(
            "components",
            f"What makes each {thing} different",
            tuple(columns),
            "Centres in the units of the columns. Blue: above the mean of all rows, red: below; the darker, the more "
            "standard deviations of the column. Click a heading to sort.",
            marked=True,
        )

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Shares must be shares."""
        reader.check_weights(found["weights"])
