"""Principal components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.learn.models.base import Model, register_model
from sketchlearn.learn.models.table import Column, Table

Array = npt.NDArray[np.float64]


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PCAModel(Model):
    """Principal directions and the variances along them.

    Attributes
    ----------
    components : ndarray (k, d)
        Directions, orthonormal.
    explained_variance, explained_variance_ratio : ndarray (k,)
        Variances along them, and their parts of the whole.
    mean : ndarray (d,)
        Mean of the rows.
    noise_variance : float or None
        Mean variance of the directions that are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import PCAModel
    >>> PCAModel(rows=10, columns=("x", "y"), components=np.eye(2)[:1], explained_variance=np.ones(1),
    ...          explained_variance_ratio=np.ones(1), mean=np.zeros(2))
    Model(pca: 1 component of 10 rows, 2 columns)
    """

    task: ClassVar[str] = "pca"
    layout: ClassVar[Mapping[str, Any]] = {
        "components": ("k", "d"),
        "explained_variance": ("k",),
        "explained_variance_ratio": ("k",),
        "mean": ("d",),
        "noise_variance": (),
    }
    title: ClassVar[str] = "Principal component analysis"
    praise: ClassVar[str] = "The sketch is good enough for this"

    components: Array
    explained_variance: Array
    explained_variance_ratio: Array
    mean: Array
    noise_variance: float | None = None

    def own_numbers(self) -> list[tuple[str, str]]:
        """How much is explained."""
        return [(f"{self.explained_variance_ratio.sum():.1%}", "of the variance explained")]

    def table(self) -> Table:
        """Variance, share and loadings of each component."""
        unit = np.maximum(np.abs(self.components).max(1), 1e-300)
        columns = [
            Column("component", range(1, self.size + 1), "text"),
            Column("variance", self.explained_variance),
            Column("share", self.explained_variance_ratio, "share"),
        ]
        for j, name in enumerate(self.columns):
            columns.append(Column(name, self.components[:, j], "number", 3, self.components[:, j] / unit))
        return Table("loadings", "Loadings", tuple(columns), "How much each column takes part in each component.")

    def pictures(self) -> dict[str, Any]:
        """Variances and shares."""
        return {"spectrum": {"variances": self.explained_variance, "shares": self.explained_variance_ratio}}

    def answers(self, rows: Array, proba: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Coordinates along the components."""
        if proba:
            self.probabilities(rows)
        scores = (rows - self.mean) @ self.components.T
        return {f"component {l + 1}": scores[:, l] for l in range(self.size)}
