"""Distances from usual rows in feature space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.features.base import FeatureMap
from sketchlearn.models.base import Model, register_model
from sketchlearn.models.file import Reader
from sketchlearn.models.rules import embedded
from sketchlearn.words import counted

_ROWS = 4096  # scored at a time
_PARTS = ("mean", "units", "directions", "variances", "ridge")  # of a distance, besides its features


@dataclass(frozen=True, eq=False)
class Distance:
    """The score of rows.

    `features`: what rows become: cosines and sines of an embedding, or columns. `mean`: mean feature, (f,). `units`:
    units of the features, (f,). `directions`, `variances`: principal directions in these units, and variances along
    them, (q, f), (q,). `ridge`: variance that is added in every direction.
    """

    features: FeatureMap
    mean: Array
    units: Array
    directions: Array
    variances: Array
    ridge: float

    def __call__(self, rows: AnyArray) -> Array:
        """Squared distances, (n,)."""
        gains = self.variances / (self.variances + self.ridge)
        out = np.empty(len(rows))
        for i in range(0, len(rows), _ROWS):
            apart = (embedded(self.features, rows[i : i + _ROWS]) - self.mean) / self.units
            along = apart @ self.directions.T
            out[i : i + _ROWS] = ((apart**2).sum(1) - (along**2) @ gains) / self.ridge
        return np.maximum(out, 0.0)


@register_model
class AnomalyModel(Model):
    """A distance in feature space and a threshold.

    Attributes
    ----------
    distance : Distance
        The score.  A file holds its fields and the recipe of its feature map.
    offset : float
        Minus the distance beyond which a row is an anomaly.
    freedom : float
        Mean squared distance of the rows that were sketched: effective number of features.
    effective_rows : float
        How many there were.  A file leaves out these two.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = sl.Model.of(sl.CompressiveAnomalyDetector(sketch_size=40, random_state=0).fit(X))
    >>> model, model.predict([[0.0, 0.0], [9.0, 9.0]])
    (Model(anomaly: distance from 500 rows, 2 columns), array([ 1, -1]))
    """

    task: str = "anomaly"
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

    attributes: ClassVar[Mapping[str, str]] = {"offset_": "offset"}

    distance: Distance
    offset: float = float("nan")
    freedom: float = float("nan")
    effective_rows: float = float("nan")

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        return f"distance from {self.row_count} rows, {counted(len(self.columns), 'column')}"

    # the parts of the distance, as a file holds them
    mean = property(lambda self: self.distance.mean, doc="Mean of the features, (f,).")
    units = property(lambda self: self.distance.units, doc="Units of the features, (f,).")
    directions = property(lambda self: self.distance.directions, doc="Principal directions of the features, (q, f).")
    variances = property(lambda self: self.distance.variances, doc="Variances along them, (q,).")
    ridge = property(lambda self: self.distance.ridge, doc="Variance that every direction has at least.")
    recipe = property(lambda self: self.distance.features.recipe(), doc="Of the feature map.")

    def row_scores(self, rows: AnyArray) -> Array:
        """Minus the squared distance in feature space."""
        return -self.distance(rows)

    def unseen(self, scores: Array) -> Array:
        """Scores that rows of the sketch would have, had they not been sketched."""
        return np.asarray(scores / np.maximum(1.0 - scores / self.effective_rows, 1e-3))

    def threshold(self, share: float, draws: AnyArray | None = None) -> float:
        """The score that a share of new rows exceeds: that of normal features, or more, if draws show that.

        Draws from a model of the rows have larger scores than rows, where the model fills what rows leave empty.  But
        the mean score of rows is known, so that draws only have to tell how far above the mean a score may be.

        Parameters
        ----------
        share : float
            Of false alarms.
        draws : ndarray (n, d), optional
            Rows of a rough model.
        """
        from scipy.special import chdtri  # slow to import

        normal = float(self.unseen(np.array(chdtri(max(self.freedom, 1e-6), share))))
        if draws is None:
            return normal
        scores = self.distance(draws)
        mean = float(self.unseen(np.array(self.freedom)))
        return max(normal, mean * float(np.quantile(scores, 1.0 - share)) / max(float(scores.mean()), 1e-300))

    def predict_rows(self, rows: Array) -> AnyArray:
        """-1 for anomalies, 1 for usual rows."""
        return np.where(self.row_scores(rows) < self.offset, -1, 1)

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Score and verdict of each row."""
        scores = self.row_scores(rows)
        return {"score": scores, "anomaly": scores < self.offset}

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """The recipe must be one of a map with as many features."""
        found = {k: reader.value(k, what) for k, what in cls.layout.items() if what is not None}
        phi = reader.recipe()
        reader.check_features(phi, embedded)
        if not found["ridge"] > 0 or (found["variances"] < 0).any() or not (found["units"] > 0).all():
            raise reader.fail("variances must not be negative, units and ridge positive")
        return {"distance": Distance(phi, **{name: found[name] for name in _PARTS}), "offset": found["offset"]}
