"""Linear regressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.learn.models.base import Model, register_model
from sketchlearn.learn.models.file import Reader
from sketchlearn.learn.models.table import Column, Table, number
from sketchlearn.limits import LimitError, check

Array = npt.NDArray[np.float64]


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RegressionModel(Model):
    """Coefficients of one target.

    Attributes
    ----------
    coefficients : ndarray (p,)
        One a predictor.
    intercept : float
        The constant.
    predictors : tuple of str
        Names of the columns that are predicted from.
    target : str
        Name of the column that is predicted.
    r2 : float or None
        Part of its variance that is explained.
    standard_errors, predictor_spread : ndarray (p,) or None
        Of the coefficients; standard deviations of the predictors.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import RegressionModel
    >>> model = RegressionModel(rows=10, columns=("x", "y"), coefficients=np.array([2.0]), intercept=1.0,
    ...                         predictors=("x",), target="y")
    >>> model, model.predict([[3.0]])
    (Model(regression: y from 1 column, 10 rows), array([7.]))
    """

    task: ClassVar[str] = "regression"
    layout: ClassVar[Mapping[str, Any]] = {
        "coefficients": ("p",),
        "intercept": (),
        "predictors": list,
        "target": str,
        "r2": (),
        "standard_errors": ("p",),
        "predictor_spread": ("p",),
    }
    title: ClassVar[str] = "Linear regression"
    thing: ClassVar[str] = "predictor"
    praise: ClassVar[str] = "The sketch is good enough for this"

    coefficients: Array
    intercept: float
    predictors: tuple[str, ...]
    target: str
    r2: float | None = None
    standard_errors: Array | None = None
    predictor_spread: Array | None = None

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        return f"{self.target} from {self.size} column{'s' * (self.size != 1)}, {self.row_count} rows"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The predictors."""
        return self.predictors

    def renamed(self, names: Any) -> Model:
        """Names of the predictors; what they predict is the target."""
        given = tuple(str(name) for name in names)
        if self.named or len(given) != self.size:
            return self
        return replace(self, predictors=given, target="target", columns=(*given, "target"), named=True)

    def own_numbers(self) -> list[tuple[str, str]]:
        """How much is explained."""
        return [] if self.r2 is None else [(f"{self.r2:.4f}", "R²")]

    def table(self) -> Table:
        """Coefficients, with standard errors where they are known."""
        columns = [Column("column", self.predictors, "text"), Column("coefficient", self.coefficients)]
        errors = self.standard_errors
        if errors is not None:
            ratios = [c / e if e > 0 else None for c, e in zip(self.coefficients, errors, strict=True)]
            columns += [Column("standard error", errors), Column("t", ratios)]
        return Table("table", "Coefficients", tuple(columns), f"Intercept: {number(self.intercept)}")

    def pictures(self) -> dict[str, Any]:
        """Effects with their errors."""
        spread, errors = self.predictor_spread, self.standard_errors
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

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """The target."""
        return np.asarray(rows @ self.coefficients + self.intercept)

    def answers(self, rows: Array, proba: bool = False) -> dict[str, npt.NDArray[Any]]:
        """The target, by its name."""
        if proba:
            self.probabilities(rows)
        return {self.target: self.predict_rows(rows)}

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """There is a predictor for each coefficient."""
        if len(found["predictors"]) != len(found["coefficients"]):
            raise reader.fail("a regression has as many predictors as coefficients, and a target")

    @classmethod
    def width(cls, reader: Reader) -> int:
        """Columns of the sketch: more than predictors."""
        p = reader.lengths["p"]
        columns = reader.facts.get("n_columns", p + 1)
        if isinstance(columns, bool) or not isinstance(columns, int) or columns <= p:
            raise reader.fail(f"the field 'n_columns' is {columns!r}, with {p} predictors")
        try:
            check(4096 * columns, f"the names of {columns:,} columns")
        except LimitError as error:
            raise reader.fail(str(error)) from None
        return columns
