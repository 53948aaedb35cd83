"""Linear regressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import register_model, shown
from sketchlearn.models.file import Reader, is_known
from sketchlearn.models.joint import JointModel
from sketchlearn.models.table import Column, Table, number


@register_model
class RegressionModel(JointModel):
    """Coefficients of one target, or of several in one more axis; a file holds those of one.

    Attributes
    ----------
    coefficients : ndarray (p,) or (t, p)
        One per predictor.
    intercept : float or ndarray (t,)
        The constant.
    predictors, targets : tuple of str
        Names of the columns that are predicted from, and of those that are predicted.
    r2, new_r2, residual_variance : float or ndarray (t,)
        Share of the variance of a target that is explained in these rows, and in new rows from the same distribution
        (generalised cross-validation); variance of the noise.
    standard_errors, intercept_error : ndarray, shaped like the coefficients, float or ndarray (t,)
        Standard errors; NaN from compressed sketches.
    predictor_spread : ndarray (p,) or None
        Standard deviations of the predictors, from an exact sketch.
    rank : int
        Number of directions of the predictors that could be used.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import RegressionModel
    >>> model = RegressionModel(rows=10, columns=("x", "y"), coefficients=np.array([2.0]), intercept=1.0,
    ...                         predictors=("x",), targets=("y",))
    >>> model, model.predict([[3.0]])
    (Model(regression: y from 1 column, 10 rows), array([7.]))
    """

    task: str = "regression"
    layout: ClassVar[Mapping[str, Any]] = {
        "coefficients": ("p",),
        "intercept": (),
        "predictors": list,
        "target": str,
        "r2": (),
        "new_r2": (),
        "standard_errors": ("p",),
        "predictor_spread": ("p",),
    }
    title: ClassVar[str] = "Linear regression"
    thing: ClassVar[str] = "predictor"
    praise: ClassVar[str] = "The sketch is good enough for this"

    attributes: ClassVar[Mapping[str, str]] = shown(
        "intercept",
        "standard_errors",
        "r2",
        "new_r2",
        "residual_variance",
        "rank",
        coef="coefficients",
        intercept_standard_error="intercept_error",
        n_samples="rows",
    )

    coefficients: Array
    intercept: Any
    predictors: tuple[str, ...]
    targets: tuple[str, ...]
    r2: Any = float("nan")
    new_r2: Any = float("nan")
    residual_variance: Any = float("nan")
    standard_errors: Array | None = None
    intercept_error: Any = float("nan")
    predictor_spread: Array | None = None
    rank: int = 0

    @property
    def target(self) -> str:
        """The column that is predicted, of one target."""
        return self.targets[0]

    def of_one(self) -> Self:
        """The model of the first target alone, with vectors and numbers instead of arrays by target."""
        names = ("coefficients", "intercept", "standard_errors", "intercept_error", "r2", "new_r2", "residual_variance")
        given = {name: getattr(self, name) for name in names}
        first: dict[str, Any] = {
            name: value[0] if np.ndim(value) > 1 else float(value[0]) for name, value in given.items()
        }
        return replace(self, targets=self.targets[:1], **first)

    def own_numbers(self) -> list[tuple[str, str]]:
        """How much is explained."""
        known = ((self.r2, "R²"), (self.new_r2, "R² in new rows (cross-validation)"))
        return [(f"{value:.4f}", what) for value, what in known if np.ndim(value) == 0 and np.isfinite(value)]

    def table(self) -> Table:
        """Coefficients, with standard errors where they are known."""
        columns = [Column("column", self.predictors, "text"), Column("coefficient", self.coefficients)]
        errors = self._errors
        if errors is not None:
            ratios = [c / e if e > 0 else None for c, e in zip(self.coefficients, errors, strict=True)]
            columns += [Column("standard error", errors), Column("t", ratios)]
        return Table("table", "Coefficients", tuple(columns), f"Intercept: {number(self.intercept)}")

    @property
    def _errors(self) -> Array | None:
        return self.standard_errors if is_known(self.standard_errors) else None

    def pictures(self) -> dict[str, Any]:
        """Effects with their errors."""
        spread, errors = self.predictor_spread, self._errors
        unit = np.ones(self.size) if spread is None else spread
        return {
            "regression": {
                "axis": f"change of {self.target} per {'unit' if spread is None else 'standard deviation'}",
                "names": list(self.predictors),
                "coefficients": self.coefficients,
                "effects": self.coefficients * unit,
                "errors": np.zeros(self.size) if errors is None else errors * unit,
            }
        }

    def predict_rows(self, rows: Array) -> AnyArray:
        """The target, (n,), or targets, (n, t)."""
        return np.asarray(rows @ self.coefficients.T + self.intercept)

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """The target, by its name."""
        return {self.target: self.predict_rows(rows)}

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """A file names its one target."""
        needed = ("coefficients", "intercept", "predictors", "target")
        found = {k: reader.value(k, kind) for k, kind in cls.layout.items() if k in needed or reader.has(k)}
        cls.check(reader, found)
        return found | {"targets": (found.pop("target"),)}

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """There is a predictor for each coefficient."""
        if len(found["predictors"]) != len(found["coefficients"]):
            raise reader.fail("a regression has as many predictors as coefficients, and a target")
