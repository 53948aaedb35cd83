"""Regressions that are conditional laws of a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array, Flags
from sketchlearn.models.base import register_model, shown, stored
from sketchlearn.models.components import ComponentModel
from sketchlearn.models.conditional import ConditionalMixture
from sketchlearn.models.file import Reader
from sketchlearn.models.joint import JointModel
from sketchlearn.models.mixture import Mixture

_DRAWS, _OUTSIDE = 20_000, 1e-4


@register_model
class MixtureRegressionModel(JointModel, ComponentModel):
    """A Gaussian mixture of predictors and targets together.

    Attributes
    ----------
    weights, means, covariances : ndarray (k,), (k, d), (k, d, d)
        The mixture of all columns.
    predictors, targets : tuple of str
        Names of the columns that are predicted from, and of those that are predicted.
    effective_rows : float
        Rows with the same noise as those that were weighted; NaN stands for `rows`, as in a file.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import MixtureRegressionModel
    >>> model = MixtureRegressionModel(
    ...     rows=10, columns=("x", "y"), weights=np.ones(1), means=np.zeros((1, 2)),
    ...     covariances=np.array([[[1.0, 0.5], [0.5, 1.0]]]), predictors=("x",), targets=("y",))
    >>> model, model.predict([[2.0]])
    (Model(mixture-regression: y from 1 column, 10 rows), array([1.]))
    """

    task: str = "mixture-regression"
    title: ClassVar[str] = "Regression by a mixture"
    thing: ClassVar[str] = "Gaussian component"

    fitted_shape: ClassVar[str | None] = "full"
    attributes: ClassVar[Mapping[str, str]] = shown("mixture", n_components="size")

    weights: Array = stored("k")
    means: Array = stored("k", "d", shown=True)
    covariances: Array = stored("k", "d", "d")
    predictors: tuple[str, ...] = stored(kind=list)
    targets: tuple[str, ...] = stored(kind=list)
    effective_rows: float = float("nan")

    @property
    def mixture(self) -> Mixture:  # type: ignore[override]
        """The law of all columns."""
        return Mixture(self.weights, self.means, self.covariances)

    @property
    def conditional(self) -> ConditionalMixture:
        """The law of the targets given the predictors."""
        at = [np.array([self.columns.index(name) for name in names]) for names in (self.predictors, self.targets)]
        rows = self.effective_rows if np.isfinite(self.effective_rows) else float(self.rows)
        return ConditionalMixture(self.mixture, at[0], at[1], rows)

    @cached_property
    def support(self) -> float:
        """Log-density of predictors below which only one in ten thousand of the model's own draws lies."""
        inputs = self.mixture.marginal([self.columns.index(name) for name in self.predictors])
        return float(np.quantile(inputs.log_density(inputs.sample(_DRAWS, 0)[0]), _OUTSIDE))

    def supports(self, rows: Array) -> Flags:
        """Which rows of predictors are where the model has seen some."""
        return np.asarray(self.conditional.log_density(rows) >= self.support)

    def predict_rows(self, rows: Array) -> AnyArray:
        """Expected targets; NaN inputs are taken out of the condition."""
        found = self.conditional.mean(rows)
        return found[:, 0] if len(self.targets) == 1 else found

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Targets by their names."""
        return dict(zip(self.targets, self.conditional.mean(rows).T, strict=True))

    def probabilities(self, rows: Array) -> Array:
        """There are none: targets are numbers."""
        raise TypeError("a mixture-regression model has no probabilities")

    @classmethod
    def width(cls, reader: Reader) -> int:
        """Columns of the mixture."""
        return reader.lengths["d"]

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Predictors and targets are different columns of the mixture."""
        ComponentModel.check(reader, found)
        reader.check_covariances("covariances", found["covariances"], matrices=True)
        names = (*found["predictors"], *found["targets"])
        d = reader.lengths["d"]
        columns = reader.columns(d) or tuple(f"column {i}" for i in range(d))
        if not found["predictors"] or not found["targets"] or len(set(names)) != len(names):
            raise reader.fail("predictors and targets should be different columns")
        strange = [name for name in names if name not in columns]
        if strange:
            raise reader.fail(f"there is no column {strange[0]!r}")
