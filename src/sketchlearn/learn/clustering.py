"""k-means and k-medians in scikit-learn's shape, learned from a sketch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sketchlearn.accepts import NOTHING, choice, whole
from sketchlearn.arrays import Array
from sketchlearn.learn.labels import LabelledRows
from sketchlearn.learn.parameters import START, estimator, learned, parameter
from sketchlearn.learn.using import ScoresByCost, Transforms
from sketchlearn.models.base import Model
from sketchlearn.models.kmeans import ClusterModel
from sketchlearn.sources import Selection, open_source


@estimator
class SketchedClustering(Transforms, ScoresByCost, ClusterMixin, LabelledRows):  # type: ignore[misc]
    """What k-means and k-medians share."""

    model: ClassVar[type[Model]] = ClusterModel
    counted: ClassVar[str] = "n_clusters"
    projects: ClassVar[bool] = True
    n_clusters: int | str = parameter(default=8, accepts=whole() | choice("auto"), kw_only=False)
    standardize: bool = parameter(default=False)
    projection: int | None = parameter(default=None)
    n_decodes: int | None = parameter(default=None, accepts=whole() | NOTHING, decode="n_decodes")
    start: Any = parameter(default=None, accepts=START, decode="start")
    cluster_centers_: Array = learned()
    weights_: Array = learned()
    centers_std_: Array | None = learned()
    weights_std_: Array | None = learned()
    inertia_: float = learned()
    excess_cost_: float = learned()
    excess_cost_bound_: float = learned()

    def cluster_means(self, X: Any) -> Array:
        """Mean row of each cluster, in the columns of the rows, by one pass over them.

        The centres from a sketch of projected rows are projections. This computes the centres in the original columns.

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
        model = self.solution_
        sums, counts = np.zeros((model.size, features.inputs)), np.zeros(model.size)
        for block in open_source(X, Selection.for_map(features)):
            rows = np.asarray(block, np.float64)
            rows = rows[np.isfinite(rows).all(1)]
            few = rows if features.projection is None else features.projection(rows)
            labels = model.predict_rows(few)
            counts += np.bincount(labels, minlength=len(counts))
            np.add.at(sums, labels, rows)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts[:, None])


@estimator
class CompressiveKMeans(SketchedClustering):
    """k-means from a sketch: one pass over the rows, nothing to tune.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of centres. ``"auto"`` tries up to 20 and uses the number that :func:`sketchlearn.sweep` recommends
        (``sweep_`` has the table).
    standardize : bool
        Measure every column in units of its own spread. The spread is taken from a pilot sample and kept in the feature
        map. Centres are returned in the units of the rows. A map given as `features` has its own units.
    projection : int, optional
        For hundreds of columns: cluster this many random projections of the rows, which become part of the feature map.
        The centres are then centres of projected rows; :meth:`cluster_means` computes them in the original columns,
        with one more pass.
    sketch_size : int, optional
        Number of features; by default ``10 * n_clusters * n_features``, at least 100.
    n_decodes : int, optional
        Number of fits that the default decoder pools if the clusters are not round Gaussians (3 by default; more is
        slightly better and slower).
    start : model, estimator or array (k, n_features), optional
        An earlier model to start from. Cluster i is then the one nearest to its cluster i; see
        :func:`sketchlearn.decode`.
    n_jobs : int, optional
        Threads of the pass, and of fits that are pooled; all cores by default and for -1.

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
    excess_cost_, excess_cost_bound_ : float
        Estimate of how much more the centres cost than the best ones on all rows (0.01 means 1 %), and a bound that
        held in nine of ten data sets. NaN for private sketches and others without a box.
    labels_ : ndarray (n_samples,)
        Labels of the rows given to `fit`, by a second pass when first asked for.
    sketch_ : Sketch
        The sketch: save it, merge it, decode it with another number of clusters.

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


@estimator
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
