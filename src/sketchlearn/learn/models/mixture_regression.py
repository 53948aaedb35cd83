"""Regressions that are conditional laws of a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.conditional import ConditionalMixture
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.learn.models.base import Model, register_model
from sketchlearn.learn.models.components import ComponentModel
from sketchlearn.learn.models.file import Reader

Array = npt.NDArray[np.float64]


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MixtureRegressionModel(ComponentModel):
    """A Gaussian mixture of predictors and targets together.

    Attributes
    ----------
    weights, means, covariances : ndarray (k,), (k, d), (k, d, d)
        The mixture of all columns.
    predictors, targets : tuple of str
        Names of the columns that are predicted from, and of those that are predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import MixtureRegressionModel
    >>> model = MixtureRegressionModel(
    ...     rows=10, columns=("x", "y"), weights=np.ones(1), means=np.zeros((1, 2)),
    ...     covariances=np.array([[[1.0, 0.5], [0.5, 1.0]]]), predictors=("x",), targets=("y",))
    >>> model, model.predict([[2.0]])
    (Model(mixture-regression: y from 1 column, 10 rows), array([1.]))
    """

    task: ClassVar[str] = "mixture-regression"
    layout: ClassVar[Mapping[str, Any]] = {
        "weights": ("k",),
        "means": ("k", "d"),
        "covariances": ("k", "d", "d"),
        "predictors": list,
        "targets": list,
    }
    title: ClassVar[str] = "Regression by a mixture"
    thing: ClassVar[str] = "Gaussian component"

    means: Array
    covariances: Array
    predictors: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def mixture(self) -> Mixture:  # type: ignore[override]
        """The law of all columns."""
        return Mixture(self.weights, self.means, self.covariances)

    def parts(self) -> Mixture:
        """The components."""
        return self.mixture

    @property
    def conditional(self) -> ConditionalMixture:
        """The law of the targets given the predictors."""
        at = [np.array([self.columns.index(name) for name in names]) for names in (self.predictors, self.targets)]
        return ConditionalMixture(self.mixture, at[0], at[1], float(self.rows))

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        columns = f"{len(self.predictors)} column" + "s" * (len(self.predictors) != 1)
        return f"{', '.join(self.targets)} from {columns}, {self.row_count} rows"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The predictors."""
        return self.predictors

    def renamed(self, names: Any) -> Model:
        """Names of the predictors; what they predict are targets."""
        given = tuple(str(name) for name in names)
        if self.named or len(given) != len(self.predictors):
            return self
        count = len(self.targets)
        targets = ("target",) if count == 1 else tuple(f"target {i}" for i in range(count))
        new = dict(zip((*self.predictors, *self.targets), (*given, *targets), strict=True))
        columns = tuple(new.get(name, name) for name in self.columns)
        return replace(self, predictors=given, targets=targets, columns=columns, named=True)

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """Expected targets; NaN inputs are taken out of the condition."""
        found = self.conditional.mean(rows)
        return found[:, 0] if len(self.targets) == 1 else found

    def answers(self, rows: Array, proba: bool = False) -> dict[str, npt.NDArray[Any]]:
        """The targets, by their names."""
        if proba:
            self.probabilities(rows)
        found = self.predict_rows(rows).reshape(len(rows), -1)
        return {name: found[:, j] for j, name in enumerate(self.targets)}

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Predictors and targets are different columns of the mixture."""
        super().check(reader, found)
        reader.check_covariances("covariances", found["covariances"], matrices=True)
        names = (*found["predictors"], *found["targets"])
        d = reader.lengths["d"]
        columns = reader.columns(d) or tuple(f"column {i}" for i in range(d))
        if not found["predictors"] or not found["targets"] or len(set(names)) != len(names):
            raise reader.fail("predictors and targets should be different columns")
        strange = [name for name in names if name not in columns]
        if strange:
            raise reader.fail(f"there is no column {strange[0]!r}")
