"""Anomaly scores by distance in feature space, from one sketch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OutlierMixin

from sketchlearn.accepts import FLAG, NOTHING, choice, real
from sketchlearn.arrays import Array
from sketchlearn.decoders import decode
from sketchlearn.decoders.anomaly import embedding_means
from sketchlearn.designs.pca import ALL_PRODUCTS
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.rows import Rows
from sketchlearn.learn.using import Predicts, ScoresRows
from sketchlearn.models.anomaly import AnomalyModel
from sketchlearn.models.base import Model

_COMPONENTS, _DRAWS, _FEWEST = 3, 20_000, 50  # of a rough model of the rows; rows that are too few for one


@estimator
class CompressiveAnomalyDetector(OutlierMixin, Predicts, ScoresRows):  # type: ignore[misc]
    """Anomalies by their distance from usual rows in feature space, learned from one sketch.

    The sketch holds the exact mean and covariance of a few hundred Fourier features. The score of a row is the
    Mahalanobis distance of its features, as in kernel principal components with all of them. Nothing is decoded:
    learning takes one eigendecomposition. Sketches of usual rows can be added, and rows that turn out to be unusual can
    be subtracted.

    Parameters
    ----------
    method : {"features", "columns"}
        Distances in feature space, for usual rows of any shape, or of the columns themselves, for usual rows that are
        nearly normal.
    contamination : float
        Share of new usual rows that may be called anomalies. (Rows that were sketched have slightly smaller scores than
        new rows.)
    standardize : bool, optional
        Measure every column in units of its own spread; by default if one column is more than thirty times as wide as
        another.
    features : FeatureMap, optional
        The map to sketch with: an :class:`EmbeddedFeatures`, or exact :class:`QuadraticFeatures`.
    sketch_size : int, optional
        Number of cosines and sines (600 by default). The sketch has half of its square as integers.

    Attributes
    ----------
    offset_ : float
        Rows with a score below this are called anomalies. After `fit`, it is the `contamination` quantile of the scores
        of the pilot rows, corrected because these rows are in the sketch. From a sketch alone, it is estimated for
        normal features, and raised if draws from a rough mixture decoded from the sketch require it.
    solution_ : AnomalyModel
        The distance.
    reliable_, verdict_ : bool, str
        Whether there are rows enough for so many features.

    See Also
    --------
    sketchlearn.CompressiveGaussianMixture : scores by the density of a mixture.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> turn = rng.uniform(0, 2 * np.pi, 2000)
    >>> ring = np.c_[np.cos(turn), np.sin(turn)] + 0.05 * rng.normal(size=(2000, 2))
    >>> found = sl.CompressiveAnomalyDetector(contamination=0.01, sketch_size=100, random_state=0).fit(ring)
    >>> found.predict([[1.0, 0.0], [0.0, 0.0]])  # the middle of the ring is no usual place
    array([ 1, -1])
    """

    task: ClassVar[str] = "anomaly"
    projects: ClassVar[bool] = True
    model: ClassVar[type[Model]] = AnomalyModel
    renamed: ClassVar[Mapping[str, str]] = {**SketchEstimator.renamed, "false_alarms": "contamination"}
    method: str = parameter(default="features", accepts=choice("features", "columns"), kw_only=False)
    contamination: float = parameter(default=0.05, accepts=real(0.0, 1.0))
    standardize: bool | None = parameter(default=None, accepts=FLAG | NOTHING)
    decoder: ClassVar[str] = "auto"  # type: ignore[misc]
    offset_: float = learned()

    # -- learning ------------------------------------------------------------------------------

    def design_request(self) -> dict[str, Any]:
        """Features as wide as the data, or all products of columns for distances between rows."""
        if self.method == "columns":
            return {**ALL_PRODUCTS, "standardize": None}
        return {"task": self.task, "n_components": 1}

    def decode_sketch(self, seed: int) -> Model:
        """The distance, and a threshold: rows of the pilot, where there are any, know more than a law does."""
        found: AnomalyModel = self._decoded(1, seed)
        pilot: tuple[Array, Array | None] | None = self.__dict__.get("_pilot")
        if pilot is None:
            return replace(found, offset=-found.threshold(float(self.contamination), self._draws()))
        scores = found.unseen(found.distance(pilot[0]))
        order = np.argsort(scores)
        weights = np.ones(len(scores)) if pilot[1] is None else pilot[1]
        mass = np.cumsum(weights[order])
        at = int(np.searchsorted(mass, (1.0 - float(self.contamination)) * mass[-1]))
        return replace(found, offset=-float(scores[order[min(at, len(order) - 1)]]))

    def _draws(self) -> Array | None:
        """Rows of a rough mixture, decoded from the means of the features that the sketch holds."""
        means = embedding_means(self.sketch_)
        if means is None or means.effective_count < _FEWEST:
            return None
        rough = decode(means, _COMPONENTS, task="gmm", decoder="auto", covariance_type="diag", random_state=self._seed)
        rows: Array = rough.sample(_DRAWS, self._seed)[0]
        return rows

    def _map(self, rows: Rows, seed: int, whole: bool) -> FeatureMap:
        found = super()._map(rows, seed, whole)
        self.__dict__.pop("_pilot", None)
        if rows.sample is not None or isinstance(rows.data, np.ndarray):
            pilot, weights, _ = rows.pilot(seed)
            few = pilot if found.projection is None else found.projection(pilot)
            self._pilot = np.array(few, np.float64), weights
        return found

    def _take(self, sketch: Any, seed: int, scale: float) -> None:
        super()._take(sketch, seed, scale)
        if self.__dict__.get("_pilot") is not None and self._pilot[0].shape[1] != sketch.features.dim:
            del self._pilot

    def fit_sketch(self, sketch: Any) -> Any:
        """Learn from a sketch made elsewhere.

        Parameters
        ----------
        sketch : Sketch
            Of an embedding, or of exact quadratic features.

        Returns
        -------
        self
        """
        self.__dict__.pop("_pilot", None)
        return super().fit_sketch(sketch)

    # -- using it --------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Scores less the threshold: negative for anomalies.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)
        """
        return self.score_samples(X) - self.offset_

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if "offset_" in state:  # settled: a model doesn't carry rows
            state = {k: v for k, v in state.items() if k != "_pilot"}
        return state
