"""Distances from usual rows in feature space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.anomaly import Distance
from sketchlearn.decoders.classifier.rules import embedded
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.models.base import Model, register_model
from sketchlearn.learn.models.file import Reader

Array = npt.NDArray[np.float64]


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AnomalyModel(Model):
    """A distance in feature space and a threshold.

    Attributes
    ----------
    directions, variances : ndarray (q, f), (q,)
        Principal directions of the features, and variances along them.
    mean, units : ndarray (f,)
        Mean and units of the features.
    ridge, offset : float
        Variance that every direction has at least; score below which a row is an anomaly.
    recipe : dict
        Of the feature map.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = sl.Model.of(sl.CompressiveAnomalyDetector(sketch_size=40, random_state=0).fit(X))
    >>> model, model.predict([[0.0, 0.0], [9.0, 9.0]])
    (Model(anomaly: distance from 500 rows, 2 columns), array([ 1, -1]))
    """

    task: ClassVar[str] = "anomaly"
    layout: ClassVar[Mapping[str, Any]] = {
        "directions": ("q", "f"),
        "variances": ("q",),
        "mean": ("f",),
        "units": ("f",),
        "ridge": (),
        "offset": (),
        "recipe": None,  # of a feature map
    }
    title: ClassVar[str] = "Anomalies"
    thing: ClassVar[str] = "direction"
    praise: ClassVar[str] = "There are rows enough for so many features"

    directions: Array
    variances: Array
    mean: Array
    units: Array
    ridge: float
    offset: float
    recipe: Mapping[str, Any]

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        columns = f"{len(self.columns)} column" + "s" * (len(self.columns) != 1)
        return f"distance from {self.row_count} rows, {columns}"

    @cached_property
    def distance(self) -> Distance:
        """The score."""
        features = FeatureMap.from_recipe(dict(self.recipe))
        return Distance(features, self.mean, self.units, self.directions, self.variances, self.ridge)

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """-1 for anomalies, 1 for usual rows."""
        return np.where(-self.distance(rows) < self.offset, -1, 1)

    def answers(self, rows: Array, proba: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Score and verdict of each row."""
        if proba:
            self.probabilities(rows)
        scores = -self.distance(rows)
        return {"score": scores, "anomaly": scores < self.offset}

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """The recipe must be one of a map with as many features."""
        found = {k: reader.value(k, what) for k, what in cls.layout.items() if what is not None}
        given = reader.facts.get("recipe")
        try:
            phi = FeatureMap.from_recipe(given)  # type: ignore[arg-type]
            width = embedded(phi, np.zeros((1, phi.dim))).shape[1]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise reader.fail(f"the recipe of its features: {error}") from None
        if width != reader.lengths["f"]:
            raise reader.fail(f"{reader.lengths['f']} means for {width} features")
        if not found["ridge"] > 0 or (found["variances"] < 0).any() or not (found["units"] > 0).all():
            raise reader.fail("variances must not be negative, units and ridge positive")
        reader.lengths["d"] = phi.dim
        found["recipe"] = given
        return found
