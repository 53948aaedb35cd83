"""k-means and k-medians in scikit-learn's shape, learned from a sketch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin_min
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sketchlearn.decoders import check_components, decode
from sketchlearn.decoders.solution import Solution
from sketchlearn.designs import design
from sketchlearn.designs.kmeans import multiscale_map, rounded_moments
from sketchlearn.engines import sketch as make_sketch
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches.value import WEIGHT_BITS, Sketch

_PILOT = 1000


class _CompressiveClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """What k-means and k-medians share."""

    _criterion = "means"
    sketch_: Sketch

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        features: FeatureMap | None = None,
        sketch_size: int | None = None,
        decoder: str = "auto",
        n_decodes: int | None = None,
        workers: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.features = features
        self.sketch_size = sketch_size
        self.decoder = decoder
        self.n_decodes = n_decodes
        self.workers = workers
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Sketch the rows in one pass and learn the centres from the sketch.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows; whole numbers are exactly repetition.

        Returns
        -------
        self
        """
        rows, weights = self._validate(X, sample_weight, reset=True)
        if len(rows) < self.n_clusters:
            raise ValueError(f"n_samples={len(rows)} should be >= n_clusters={self.n_clusters}.")
        rng = check_random_state(self.random_state)
        phi = self._design(rows, weights, rng)
        self._decode(make_sketch(rows, phi, sample_weight=weights, workers=self.workers), rng)
        self._rows = rows
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Add rows to the sketch; the centres are decoded when they are next asked for.

        The first batch designs the feature map (unless `features` is given), so it should be typical.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Rows to add.
        y : ignored
            For pipelines.
        sample_weight : array (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self
        """
        first = not hasattr(self, "sketch_")
        rows, weights = self._validate(X, sample_weight, reset=first)
        phi = self._design(rows, weights, check_random_state(self.random_state)) if first else self.sketch_.features
        part = make_sketch(rows, phi, sample_weight=weights, workers=self.workers)
        self.sketch_ = part if first else self.sketch_ + part
        self._forget()
        return self

    def fit_sketch(self, sketch: Sketch) -> Any:
        """Learn the centres from a sketch made elsewhere.

        Parameters
        ----------
        sketch : Sketch
            Of Fourier features.

        Returns
        -------
        self
        """
        if not isinstance(sketch, Sketch):
            raise TypeError(f"fit_sketch takes a Sketch, got {type(sketch).__name__}; for rows use fit")
        self.n_features_in_ = sketch.features.dim
        self._decode(sketch, check_random_state(self.random_state))
        return self

    def _validate(self, X: Any, sample_weight: Any, reset: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        if (
            isinstance(self.n_clusters, bool)
            or not isinstance(self.n_clusters, int | np.integer)
            or self.n_clusters < 1
        ):
            raise ValueError(f"n_clusters must be a positive integer, got {self.n_clusters!r}")
        rows = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], accept_large_sparse=False)
        if sample_weight is None:
            return rows, None
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("all sample weights are zero: nothing to learn from")
        return rows, _on_grid(weights)

    def _design(self, rows: npt.NDArray[Any], weights: npt.NDArray[Any] | None, rng: Any) -> FeatureMap:
        if self.features is not None:
            if self.features.dim != rows.shape[1]:
                raise ValueError(f"features are for {self.features.dim} columns, X has {rows.shape[1]}")
            return self.features
        seed = int(rng.randint(2**31 - 1))
        # everything here depends on the weighted empirical measure alone, so that weights are repetition
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        total = len(rows) if weights is None else weights.sum()
        if total <= _PILOT or len(rows) <= _PILOT:
            pilot, shares = rows, weights
        else:
            p = None if weights is None else weights / weights.sum()
            pilot, shares = rows[np.sort(rng.choice(len(rows), _PILOT, replace=False, p=p))], None
        k, d = int(self.n_clusters), rows.shape[1]
        center, spread = rounded_moments(np.asarray(pilot, np.float64), shares)
        size = design(np.zeros((1, d)), n_components=k).size if self.sketch_size is None else self.sketch_size
        return multiscale_map(center=center, spread=spread, k=k, size=size, seed=seed)

    def _decode(self, sketch: Sketch, rng: Any) -> None:
        self.sketch_ = sketch
        self._forget()
        self._seed = int(rng.randint(2**31 - 1))
        self._solve()

    def _forget(self) -> None:
        for name in ("_solution", "_rows", "_labels"):
            self.__dict__.pop(name, None)

    def _solve(self) -> Solution:
        if "_solution" not in self.__dict__:
            check_components(self.sketch_, self.n_clusters)
            seed = self.__dict__.get("_seed")
            if seed is None:
                seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            options: dict[str, Any] = {} if self.n_decodes is None else {"n_decodes": self.n_decodes}
            self._solution = decode(
                self.sketch_,
                self.n_clusters,
                decoder=self.decoder,
                criterion=self._criterion,
                random_state=seed,
                **options,
            )
        return self._solution

    # -- what was learned ------------------------------------------------------------------------

    def _fitted(self) -> Solution:
        check_is_fitted(self, "sketch_")
        return self._solve()

    @property
    def solution_(self) -> Solution:
        """All that the decoder knows: mixture, misfit, noise floor, certificate, verdict."""
        return self._fitted_or_missing("solution_")

    @property
    def cluster_centers_(self) -> npt.NDArray[np.float64]:
        """Centres, (n_clusters, n_features)."""
        return self._fitted_or_missing("cluster_centers_").centers

    @property
    def weights_(self) -> npt.NDArray[np.float64]:
        """Estimated share of the rows in each cluster."""
        return self._fitted_or_missing("weights_").weights

    @property
    def inertia_(self) -> float:
        """Estimated sum of the costs of all rows (squared distances for k-means), from the sketch alone."""
        return self._fitted_or_missing("inertia_").inertia * float(self.sketch_.count)

    @property
    def reliable_(self) -> bool:
        """The certificate of the decoder."""
        return self._fitted_or_missing("reliable_").reliable

    @property
    def labels_(self) -> npt.NDArray[np.int32]:
        """Labels of the rows given to `fit`; computed when first asked for, by a second pass."""
        if "_labels" not in self.__dict__:
            if "_rows" not in self.__dict__:
                raise AttributeError("labels_ needs the rows: they are known after fit(X) only; use predict(X)")
            self._labels = self.predict(self._rows)
        return self._labels

    def _fitted_or_missing(self, name: str) -> Solution:
        if "sketch_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name} yet: call fit, partial_fit or fit_sketch first")
        return self._solve()

    @property
    def _n_features_out(self) -> int:
        return len(self._fitted().centers)

    # -- using it --------------------------------------------------------------------------------

    def _nearest(self, X: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        labels, distances = pairwise_distances_argmin_min(*self._in_metric(X))
        return labels.astype(np.int32), distances

    def _in_metric(self, X: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Rows and centres in the units in which distances are meant."""
        centers = self._fitted().centers
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        spread = getattr(self.sketch_.features, "spread", None)
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

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> npt.NDArray[np.int32]:
        """Learn from the rows, then label them (a second pass).

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
        ndarray (n_samples,)
        """
        return self.fit(X, sample_weight=sample_weight).labels_

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
        cost = distances**2 if self._criterion == "means" else distances
        if sample_weight is not None:
            cost = cost * _check_sample_weight(sample_weight, X, dtype=np.float64)
        return -float(cost.sum())

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_rows"}  # a model doesn't carry the data

    def __sklearn_is_fitted__(self) -> bool:
        return "sketch_" in self.__dict__


class CompressiveKMeans(_CompressiveClustering):
    """k-means from a sketch: one pass over the rows, nothing to tune.

    Parameters
    ----------
    n_clusters : int
        Number of centres.
    features : FeatureMap, optional
        The map to sketch with; by default one is designed from up to 1000 of the rows.
    sketch_size : int, optional
        Number of features; by default ``10 * n_clusters * n_features``, at least 100.
    decoder : str
        See :func:`sketchlearn.decode`.
    n_decodes : int, optional
        Fits that the tuning-free decoder pools on data whose clusters are not round Gaussians (3 by default;
        more is a little better and slower).
    workers : int, optional
        Threads of the pass.
    random_state : int, RandomState or None
        For repeatable results.

    Attributes
    ----------
    cluster_centers_ : ndarray (n_clusters, n_features)
        Centres.
    weights_ : ndarray (n_clusters,)
        Estimated share of each cluster.
    inertia_ : float
        Estimated sum of squared distances, from the sketch alone.
    labels_ : ndarray (n_samples,)
        Labels of the rows given to `fit`, by a second pass when first asked for.
    sketch_ : Sketch
        The sketch: save it, merge it, decode it with another number of clusters.
    solution_ : Solution
        What the decoder knows, with the certificate and its verdict in words.
    reliable_ : bool
        The certificate.
    n_features_in_ : int
        Number of columns.

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


class CompressiveKMedians(_CompressiveClustering):
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

    _criterion = "medians"


def _on_grid(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale weights by a power of two where they are too small for the grid of the sketch (only ratios matter)."""
    smallest = float(weights[weights > 0].min())
    if smallest >= 2.0**-8 or np.array_equal(np.rint(weights), weights):
        return weights
    largest = float(weights.max())
    shift = min(np.ceil(-8 - np.log2(smallest)), np.floor(20 - np.log2(largest)))
    scaled = weights * 2.0 ** max(shift, 0.0)
    # weights below the grid beside heavy ones count as the smallest step
    return np.where((scaled > 0) & (scaled < 2.0**-WEIGHT_BITS), 2.0**-WEIGHT_BITS, scaled)
