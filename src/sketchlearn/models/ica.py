"""Independent components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import Model, register_model, shown, stored
from sketchlearn.models.table import Column, Table, loadings, number


@register_model
class ICAModel(Model):
    """Independent sources and how the rows are mixed from them.

    Attributes
    ----------
    components : ndarray (k, d)
        Unmixing: centred rows times its transpose are the sources.
    mixing : ndarray (d, k)
        What each source adds to the rows.
    mean : ndarray (d,)
        Mean of the rows.
    kurtosis, kurtosis_std : ndarray (k,)
        Excess kurtosis of the sources, and standard errors.
    leakage : float
        Expected root mean square share of another source in an estimated one; NaN if it is not known.
    n_sources : int
        Sources that are not normal, as far as the sketch can tell; a file leaves it out.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import ICAModel
    >>> model = ICAModel(rows=10, columns=("x", "y"), components=np.eye(2), mixing=np.eye(2), mean=np.ones(2),
    ...                  kurtosis=np.array([-1.2, 3.0]), kurtosis_std=np.full(2, 0.1))
    >>> model, model.predict([[1.0, 3.0]])
    (Model(ica: 2 sources of 10 rows, 2 columns), array([[0., 2.]]))
    """

    task: str = "ica"
    title: ClassVar[str] = "Independent components"
    thing: ClassVar[str] = "source"
    praise: ClassVar[str] = "The sources are separated"

    attributes: ClassVar[Mapping[str, str]] = shown("n_sources", n_components="size")

    components: Array = stored("k", "d", shown=True)
    mixing: Array = stored("d", "k", shown=True)
    mean: Array = stored("d", shown=True)
    kurtosis: Array = stored("k", shown=True)
    kurtosis_std: Array = stored("k", shown=True)
    leakage: float = stored(default=float("nan"), shown=True)
    n_sources: int = 0

    def of_first(self, k: int) -> Self:
        """The first k sources alone."""
        return replace(
            self, components=self.components[:k], mixing=self.mixing[:, :k], kurtosis=self.kurtosis[:k],
            kurtosis_std=self.kurtosis_std[:k],
        )  # fmt: skip

    def own_numbers(self) -> list[tuple[str, str]]:
        """How well they are separated."""
        return [(number(self.leakage), "of other sources in each, about")] if np.isfinite(self.leakage) else []

    def table(self) -> Table:
        """Kurtosis and mixing of each source."""
        columns = [
            Column("source", range(1, self.size + 1), "text"),
            Column("kurtosis", self.kurtosis),
            Column("±", self.kurtosis_std),
            *loadings(self.columns, self.mixing),
        ]
        return Table(
            "mixing", "Mixing", tuple(columns), "What a standard deviation of each source adds to each column."
        )

    def predict_rows(self, rows: Array) -> AnyArray:
        """Sources, (n, k)."""
        return self.transform_rows(rows)

    def transform_rows(self, rows: AnyArray) -> Array:
        """Sources, (n, k)."""
        return np.asarray((rows - self.mean) @ self.components.T)

    def inverse_rows(self, sources: Array) -> Array:
        """Rows that are mixed from sources, (n, d)."""
        return np.asarray(sources @ self.mixing.T + self.mean)

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Sources, one column each."""
        return {f"source {l + 1}": source for l, source in enumerate(self.transform_rows(rows).T)}
