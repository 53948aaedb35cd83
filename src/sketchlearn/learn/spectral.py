"""Spectral clustering: a graph becomes rows, the rows a sketch, the sketch centres."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import validate_data

from sketchlearn.accepts import NOTHING, choice, whole
from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders.profile import with_profile
from sketchlearn.decoders.solution import Code
from sketchlearn.exceptions import DataWarning
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.clustering import CompressiveKMeans
from sketchlearn.learn.graphs import checked_graph, modularity, neighbour_graph, spectral_embedding
from sketchlearn.learn.parameters import DeclaredParameters, estimator, parameter
from sketchlearn.learn.rows import as_random_state
from sketchlearn.learn.signals import PURE, Signals, filtered_signals
from sketchlearn.models.base import Model
from sketchlearn.models.kmeans import ClusterModel
from sketchlearn.models.spectral import SpectralModel
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_GAP = 1.1  # ratio of eigenvalues from which on the graph says how many clusters there are
_STARTS = 3  # of k-means on the embedded nodes


@estimator
class CompressiveSpectralClustering(ClusterMixin, DeclaredParameters):  # type: ignore[misc]
    """Spectral clustering of a sparse graph, or of rows through the graph of their nearest neighbours.

    The nodes are embedded by the first eigenvectors of the graph Laplacian and streamed into a sketch, and compressive
    k-means finds the clusters. The whole graph must be in memory. Only a sketch of the embedded nodes is kept. It can
    be clustered again with another number of clusters, without the nodes.

    For many clusters of a large graph, use ``method="signals", decoder="rows"``: filtered random signals take the place
    of eigenvectors, and the embedded nodes are clustered without a sketch.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    affinity : {"nearest_neighbors", "precomputed"}
        Whether `fit` is given rows, or a symmetric sparse matrix of weights of edges.
    n_neighbors : int
        Number of nearest rows that each row is joined to.
    method : {"eigenvectors", "signals"}
        Coordinates of the nodes: eigenvectors, or random signals that pass a low-pass filter of the graph
        (:func:`~sketchlearn.learn.signals.filtered_signals`).
    n_components : int, optional
        Eigenvectors, by default as many as clusters; or signals, by default ``8 log(n_clusters + 1)``.
    features : FeatureMap, optional
        The map to sketch embedded nodes with; by default one is designed from 2000 of them.
    sketch_size : int, optional
        Number of features; by default ``10 * n_clusters * n_components``, at least 100.
    decoder : str
        A decoder of k-means, see :func:`sketchlearn.decode`. Or ``"rows"``: k-means on the embedded nodes (three starts
        of scikit-learn's), without a sketch.
    n_jobs : int, optional
        Threads of the pass and processes of the search for neighbours; all cores by default.

    Attributes
    ----------
    labels_ : ndarray (n_samples,)
        Cluster of each node.
    embedding_ : ndarray (n_samples, n_components)
        The embedded nodes, of unit length.
    eigenvalues_ : ndarray (n_components + 1,)
        Smallest eigenvalues of the normalised Laplacian; with ``method="eigenvectors"``.
    modularity_ : float
        Share of the edges within clusters, less what is expected of the degrees alone
        (:func:`~sketchlearn.learn.graphs.modularity`).
    cluster_centers_, weights_ : ndarray (n_clusters, n_components), (n_clusters,)
        Centres among the embedded nodes, and estimated shares.
    sketch_ : Sketch
        Of the embedded nodes; not with ``decoder="rows"``.
    solution_ : ClusterModel
        What the decoder of k-means knows.
    reliable_, verdict_ : bool, str
        Whether the eigenvalues of the graph have a gap after this number of clusters, as a yes or no and in words.
        Signals estimate the number of eigenvalues before a gap and never certify it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(500, noise=0.05, random_state=0)
    >>> found = sl.CompressiveSpectralClustering(n_clusters=2, random_state=0).fit(X)
    >>> bool(max(np.mean(found.labels_ == y), np.mean(found.labels_ != y)) > 0.99)
    True
    """

    n_clusters: int = parameter(default=8, accepts=whole(), kw_only=False)
    affinity: str = parameter(default="nearest_neighbors", accepts=choice("nearest_neighbors", "precomputed"))
    n_neighbors: int = parameter(default=10, accepts=whole())
    method: str = parameter(default="eigenvectors", accepts=choice("eigenvectors", "signals"))
    n_components: int | None = parameter(default=None, accepts=whole() | NOTHING)
    features: FeatureMap | None = parameter(default=None)
    sketch_size: int | None = parameter(default=None)
    decoder: str = parameter(default="auto")
    n_jobs: int | None = parameter(default=None)
    random_state: Any = parameter(default=None)

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the nodes of a graph, sketch them and cluster the sketch.

        Parameters
        ----------
        X : array (n_samples, n_features), or sparse matrix (n_samples, n_samples)
            Rows, or the weights of a graph if ``affinity="precomputed"``.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        self.check_parameters()
        if self.decoder == "rows" and (self.features is not None or self.sketch_size is not None):
            raise ValueError("decoder='rows' makes no sketch: leave out features and sketch_size")
        rows = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        if self.affinity == "precomputed":
            graph = checked_graph(rows)
        else:
            if rows.shape[0] < self.n_clusters:
                raise ValueError(f"n_samples={rows.shape[0]} should be >= n_clusters={self.n_clusters}")
            graph = neighbour_graph(rows, int(self.n_neighbors), self.n_jobs)
        random = as_random_state(self.random_state)
        seeds = [int(random.randint(2**31 - 1)) for _ in range(2)]
        self._forget()
        signals = None
        if self.method == "signals":
            signals = filtered_signals(graph, int(self.n_clusters), self.n_components, seeds[0])
            embedding: AnyArray = signals.embedding
        else:
            columns = min(self.n_clusters if self.n_components is None else self.n_components, graph.shape[0])
            embedding, self.eigenvalues_ = spectral_embedding(graph, columns, seeds[0])
        self.embedding_ = embedding
        if self.decoder == "rows":
            self._set_rows(embedding, seeds[1])
        else:
            with warnings.catch_warnings():  # all signals have the same units, whatever their variances
                warnings.filterwarnings("ignore", ".* of the variance", DataWarning)
                self._set_means(self._k_means(seeds[1]).fit(embedding))
        self.labels_ = self.predict_embedding(embedding)
        self.modularity_ = modularity(graph, self.labels_)
        parts = int(connected_components(graph, directed=False)[0])
        k, known = int(self.n_clusters), self._known()
        if signals is None:
            self.reliable_, self.verdict_ = _verdict(k, self.eigenvalues_, parts, known)
        else:
            self.reliable_, self.verdict_ = False, _signal_verdict(k, signals, parts, known)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> npt.NDArray[np.int32]:
        """Cluster the nodes, and the cluster of each.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        ndarray (n_samples,)
        """
        return self.fit(X).labels_

    def fit_sketch(self, sketch: Sketch) -> Self:
        """Cluster a sketch of embedded nodes, which may be a sum of sketches of parts of one graph's nodes.

        Parameters
        ----------
        sketch : Sketch
            Of rows of one :func:`~sketchlearn.learn.graphs.spectral_embedding`.

        Returns
        -------
        self
            With centres and no labels: :meth:`predict_embedding` gives those.
        """
        self.check_parameters()
        if self.decoder == "rows":
            raise ValueError("decoder='rows' clusters embedded nodes, a sketch has none: choose another decoder")
        self._forget()
        random = as_random_state(self.random_state)
        seeds = [int(random.randint(2**31 - 1)) for _ in range(2)]
        means = self._k_means(seeds[1]).fit_sketch(sketch)
        self._set_means(means)
        self.reliable_, self.verdict_ = means.reliable_, means.verdict_
        return self

    def predict_embedding(self, embedding: Any) -> npt.NDArray[np.int32]:
        """The cluster of embedded nodes.

        Parameters
        ----------
        embedding : array (n, n_components)
            Rows of the embedding that was sketched.

        Returns
        -------
        ndarray (n,)
        """
        self._check_learned()
        return np.asarray(self.solution_.predict(embedding), np.int32)

    def to_model(self) -> Model:
        """Centres among the embedded nodes and eigenvalues, as a model that can be saved, loaded and drawn."""
        self._check_learned()
        found = with_profile(self.solution_, self.sketch_) if "sketch_" in self.__dict__ else self.solution_
        learned = {field.name: getattr(found, field.name) for field in fields(found) if field.name != "task"}
        model = SpectralModel(**learned)
        if not model.named:
            column = "signal" if self.method == "signals" else "eigenvector"
            names = tuple(f"{column} {i + 1}" for i in range(len(model.columns)))
            model = replace(model, columns=names, named=True)
        if "labels_" not in self.__dict__:
            return model
        code = Code.RELIABLE if self.reliable_ else Code.UNCERTIFIED
        values = self.__dict__.get("eigenvalues_")
        return replace(model, eigenvalues=values, verdict=self.verdict_, code=code, ratio=float("nan"))

    # -- pieces --------------------------------------------------------------------------------

    def _k_means(self, seed: int) -> CompressiveKMeans:
        return CompressiveKMeans(
            self.n_clusters,
            features=self.features,
            sketch_size=self.sketch_size,
            decoder=self.decoder,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    def _set_rows(self, rows: AnyArray, seed: int) -> None:
        """k-means on embedded nodes that are all there."""
        means = KMeans(int(self.n_clusters), n_init=_STARTS, random_state=seed).fit(rows)
        shares = np.bincount(means.labels_, minlength=int(self.n_clusters)) / len(rows)
        column = "signal" if self.method == "signals" else "eigenvector"
        columns = tuple(f"{column} {i + 1}" for i in range(rows.shape[1]))
        centers = np.asarray(means.cluster_centers_, np.float64)
        self.solution_ = ClusterModel(
            rows=len(rows), columns=columns, centers=centers, weights=shares, inertia=float(means.inertia_) / len(rows)
        )
        self.cluster_centers_, self.weights_ = centers, shares

    def _forget(self) -> None:
        for name in ("labels_", "embedding_", "eigenvalues_", "modularity_", "sketch_"):
            self.__dict__.pop(name, None)

    def _check_learned(self) -> None:
        if "solution_" not in self.__dict__:
            raise ValueError("this CompressiveSpectralClustering has learned nothing yet: call fit or fit_sketch")

    def _known(self) -> str:
        """Cost and modularity, in words."""
        cost = f"The cost of k-means is {self.solution_.inertia:.3g} per embedded node."
        return f"{cost} The modularity is {self.modularity_:.3g}."

    def _set_means(self, means: CompressiveKMeans) -> None:
        self.cluster_centers_, self.weights_ = means.cluster_centers_, means.weights_
        self.sketch_, self.solution_ = means.sketch_, means.solution_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


def _verdict(k: int, values: Array, parts: int, known: str) -> tuple[bool, str]:
    """Whether the graph says that there are k clusters: a gap of eigenvalues after the k-th one."""
    if parts > k:
        return False, f"Not certified. {_too_many_parts(k, parts)} {known}"
    if len(values) <= k:
        return False, (
            f"Not certified. {len(values)} eigenvalues don't show whether there is a gap after number {k}. {known}"
        )
    if parts == k:
        return True, f"Reliable. The graph has as many connected parts as clusters. {known}"
    gap = float(values[k] / max(values[k - 1], 1e-12))
    text = f"eigenvalue {k + 1} is {gap:.3g} times eigenvalue {k}"
    if gap >= _GAP:
        return True, f"Reliable. The eigenvalues of the graph have a gap after number {k}: {text}. {known}"
    return False, f"Not certified. The eigenvalues of the graph have no gap after number {k}: {text}. {known}"


def _signal_verdict(k: int, signals: Signals, parts: int, known: str) -> str:
    """What signals say about the gap: an estimate, which certifies no number."""
    if parts > k:
        return f"Not certified. {_too_many_parts(k, parts)} {known}"
    near = f"{signals.count:.3g} ± {signals.count_std:.2g} eigenvalues"
    if signals.partial <= PURE * k:
        return f"Not certified. The graph has a gap after {near}, an estimate by random signals. {known}"
    return f"Not certified. Random signals see no gap near {k}: {near} pass a filter without a sharp end. {known}"


def _too_many_parts(k: int, parts: int) -> str:
    return f"The graph has {parts} connected parts, more than {counted(k, 'cluster')}."
