"""k-means and k-medians in scikit-learn's shape, learned from a sketch."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin_min
from sklearn.utils.validation import check_is_fitted

from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.characteristic import characteristic
from sketchlearn.kernels.nearest import nearest
from sketchlearn.learn.labels import LabelledRows
from sketchlearn.learn.models.base import Model
from sketchlearn.learn.models.kmeans import KMeansModel
from sketchlearn.learn.rows import checked_weights
from sketchlearn.sources import Selection, open_source

Array = npt.NDArray[np.float64]


class SketchedClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, LabelledRows):  # type: ignore[misc]
    """What k-means and k-medians share."""

    model: ClassVar[type[Model]] = KMeansModel
    learned: ClassVar[tuple[str, ...]] = (
        "cluster_centers_",
        "weights_",
        "centers_std_",
        "weights_std_",
        "inertia_",
        "labels_",
    )
    counted: ClassVar[str] = "n_clusters"
    projects: ClassVar[bool] = True
    cluster_centers_: Array
    weights_: Array
    centers_std_: Array | None
    weights_std_: Array | None
    inertia_: float

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        standardize: bool = False,
        projection: int | None = None,
        features: FeatureMap | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        n_decodes: int | None = None,
        on_invalid: str = "raise",
        workers: int | None = None,
        progress: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.standardize = standardize
        self.projection = projection
        self.features = features
        self.sketch_size = sketch_size
        self.decoder = decoder
        self.n_decodes = n_decodes
        self.on_invalid = on_invalid
        self.workers = workers
        self.progress = progress
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Sketch the rows in one pass and learn the centres from the sketch.

        Parameters
        ----------
        X : array, frame, or anything that :func:`sketchlearn.sketch` reads
            Rows: ``fit(array)``, ``fit(frame)``, ``fit("data/*.parquet")``, ``fit(batches)``.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows of an array or frame; whole numbers are exactly repetition.  Weights too small for
            the grid of sketches are multiplied by a power of two first.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight)

    def decode_options(self) -> dict[str, Any]:
        """How many fits are pooled."""
        return {} if self.n_decodes is None else {"n_decodes": self.n_decodes}

    def set_learned(self, solution: ClusterSolution) -> None:
        """Centres, shares and cost."""
        self.cluster_centers_, self.weights_ = solution.centers, solution.weights
        self.centers_std_, self.weights_std_ = solution.centers_std, solution.weights_std
        self.inertia_ = solution.inertia * float(self.sketch_.count) / self._weight_scale

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    # -- using it --------------------------------------------------------------------------------

    def _nearest(self, X: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        labels, distances = pairwise_distances_argmin_min(*self._in_metric(X))
        return labels.astype(np.int32), distances

    def _in_metric(self, X: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Rows and centres in the units in which distances are meant."""
        rows, centers = self._new_rows(X), self.cluster_centers_
        spread = characteristic(self.sketch_.features, "clustering").spread
        if spread is not None:
            rows, centers = rows / spread.astype(rows.dtype), centers / spread
        return rows, centers.astype(rows.dtype)

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Index of the nearest centre of each row.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)
        """
        return self._nearest(X)[0]

    def cluster_means(self, X: Any) -> Array:
        """Mean row of each cluster, in the columns of the rows, by one pass over them.

        The centres of a sketch of projected rows are projections: this finds what they are projections of.

        Parameters
        ----------
        X : array, frame, or anything that :func:`sketchlearn.sketch` reads
            Rows; those that hold NaN or infinity are left out.

        Returns
        -------
        ndarray (n_clusters, n_features)
            NaN for a cluster that no row belongs to.
        """
        check_is_fitted(self)
        features = self.sketch_.features
        sums, counts = np.zeros((len(self.cluster_centers_), features.inputs)), np.zeros(len(self.cluster_centers_))
        for block in open_source(X, Selection.for_map(features)):
            rows = np.asarray(block, np.float64)
            rows = rows[np.isfinite(rows).all(1)]
            few = rows if features.projection is None else features.projection(rows)
            labels = nearest(few, self.cluster_centers_, characteristic(features, "clustering").spread)
            counts += np.bincount(labels, minlength=len(counts))
            np.add.at(sums, labels, rows)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts[:, None])

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Distances of the rows to the centres.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_clusters)
        """
        return pairwise_distances(*self._in_metric(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the total cost of the rows: larger is better.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
        """
        distances = self._nearest(X)[1].astype(np.float64)
        cost = distances if self.task == "kmedians" else distances**2
        weights = checked_weights(sample_weight, len(cost))
        return -float(cost.sum() if weights is None else cost @ weights)


class CompressiveKMeans(SketchedClustering):
    """k-means from a sketch: one pass over the rows, nothing to tune.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of centres; ``"auto"`` tries up to 20 and takes what :func:`sketchlearn.sweep` recommends
        (``sweep_`` has the table).
    standardize : bool
        Distances count every column in units of its own spread, which is taken from a pilot sample and kept in the
        feature map; centres come back in the units of the rows.  A map given as `features` has units of its own.
    projection : int, optional
        For hundreds of columns: cluster so many random projections of the rows, which become part of the feature map.
        Centres are then those of projected rows; :meth:`cluster_means` finds them in the columns by one more pass.
    features : FeatureMap, optional
        The map to sketch with; by default one is designed from up to 2000 of the rows.
    sketch_size : int, optional
        Number of features; by default ``10 * n_clusters * n_features``, at least 100.
    decoder : str
        Name of a decoder of this task, see :func:`sketchlearn.decode`.
    n_decodes : int, optional
        Fits that the tuning-free decoder pools on data whose clusters are not round Gaussians (3 by default;
        more is a little better and slower).
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
    workers : int, optional
        Threads of the pass, and of fits that are pooled; all cores by default.
    progress : bool or callable, optional
        Of the pass, as for :func:`sketchlearn.sketch`.
    random_state : int, Generator, RandomState or None
        For repeatable results.

    Attributes
    ----------
    cluster_centers_ : ndarray (n_clusters, n_features)
        Centres; of projected rows, if there is a `projection`.
    weights_ : ndarray (n_clusters,)
        Estimated share of each cluster.
    centers_std_, weights_std_ : ndarray (n_clusters, n_features), (n_clusters,), or None
        Standard errors of both: None where round clusters don't explain the data, so that errors are not those of
        sampling.
    inertia_ : float
        Estimated sum of squared distances, from the sketch alone.
    labels_ : ndarray (n_samples,)
        Labels of the rows given to `fit`, by a second pass when first asked for.
    sketch_ : Sketch
        The sketch: save it, merge it, decode it with another number of clusters.
    solution_ : Solution
        What the decoder knows, with the certificate and its verdict in words.
    reliable_, verdict_ : bool, str
        The certificate, as a yes or no and in words.
    n_features_in_, feature_names_in_
        Number of columns, and their names if they have any.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) + 10])
    >>> km = sl.CompressiveKMeans(n_clusters=2, random_state=0).fit(X)
    >>> np.sort(km.cluster_centers_[:, 0]).round(0)
    array([-0., 10.])
    >>> km.reliable_
    True
    """

    task: ClassVar[str] = "kmeans"


class CompressiveKMedians(SketchedClustering):
    """k-medians (sum of distances, not of their squares) from a sketch.

    Takes the same parameters and has the same attributes as :class:`CompressiveKMeans`; ``inertia_`` and
    ``score`` are sums of distances.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) + 10])
    >>> km = sl.CompressiveKMedians(n_clusters=2, random_state=0).fit(X)
    >>> np.sort(km.cluster_centers_[:, 0]).round(0)
    array([-0., 10.])
    """

    task: ClassVar[str] = "kmedians"
