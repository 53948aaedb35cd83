"""Spectral clustering: a graph becomes rows, the rows a sketch, the sketch centres."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components
from sklearn.base import ClusterMixin
from sklearn.utils.validation import validate_data

from sketchlearn.accepts import NOTHING, choice, whole
from sketchlearn.arrays import Array
from sketchlearn.decoders.profile import with_profile
from sketchlearn.decoders.solution import Code
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.clustering import CompressiveKMeans
from sketchlearn.learn.graphs import checked_graph, neighbour_graph, spectral_embedding
from sketchlearn.learn.parameters import DeclaredParameters, estimator, parameter
from sketchlearn.learn.rows import as_random_state
from sketchlearn.models.base import Model
from sketchlearn.models.spectral import SpectralModel
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_GAP = 1.1  # ratio of eigenvalues from which on the graph says how many clusters there are


@estimator
class CompressiveSpectralClustering(ClusterMixin, DeclaredParameters):  # type: ignore[misc]
    """Spectral clustering of a sparse graph, or of rows through the graph of their nearest neighbours.

    The nodes are embedded by the first eigenvectors of the graph Laplacian and streamed into a sketch, and compressive
    k-means finds the clusters. The whole graph must be in memory. Only a sketch of the embedded nodes is kept. It can
    be clustered again with another number of clusters, without the nodes.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    affinity : {"nearest_neighbors", "precomputed"}
        Whether `fit` is given rows, or a symmetric sparse matrix of weights of edges.
    n_neighbors : int
        Number of nearest rows that each row is joined to.
    n_components : int, optional
        Eigenvectors; by default as many as clusters.
    features : FeatureMap, optional
        The map to sketch embedded nodes with; by default one is designed from 2000 of them.
    sketch_size : int, optional
        Number of features; by default ``10 * n_clusters * n_components``, at least 100.
    decoder : str
        A decoder of k-means, see :func:`sketchlearn.decode`.
    n_jobs : int, optional
        Threads of the pass and processes of the search for neighbours; all cores by default.

    Attributes
    ----------
    labels_ : ndarray (n_samples,)
        Cluster of each node.
    embedding_ : ndarray (n_samples, n_components)
        The embedded nodes, of unit length.
    eigenvalues_ : ndarray (n_components + 1,)
        Smallest eigenvalues of the normalised Laplacian.
    cluster_centers_, weights_ : ndarray (n_clusters, n_components), (n_clusters,)
        Centres among the embedded nodes, and estimated shares.
    sketch_ : Sketch
        Of the embedded nodes.
    solution_ : ClusterModel
        What the decoder of k-means knows.
    reliable_, verdict_ : bool, str
        Whether the eigenvalues of the graph have a gap after this number of clusters, as a yes or no and in words.

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
        rows = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        if self.affinity == "precomputed":
            graph = checked_graph(rows)
        else:
            if rows.shape[0] < self.n_clusters:
                raise ValueError(f"n_samples={rows.shape[0]} should be >= n_clusters={self.n_clusters}")
            graph = neighbour_graph(rows, int(self.n_neighbors), self.n_jobs)
        random = as_random_state(self.random_state)
        seeds = [int(random.randint(2**31 - 1)) for _ in range(2)]
        columns = min(self.n_clusters if self.n_components is None else self.n_components, graph.shape[0])
        embedding, values = spectral_embedding(graph, columns, seeds[0])
        means = self._k_means(seeds[1]).fit(embedding)
        self.embedding_, self.eigenvalues_ = embedding, values
        self._set_means(means)
        self.labels_ = means.predict(embedding)
        parts = int(connected_components(graph, directed=False)[0])
        self.reliable_, self.verdict_ = _verdict(int(self.n_clusters), values, parts, means)
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
        for name in ("labels_", "embedding_", "eigenvalues_"):
            self.__dict__.pop(name, None)
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
        if "kmeans_" not in self.__dict__:
            raise ValueError("this CompressiveSpectralClustering has learned nothing yet: call fit or fit_sketch")
        return self.kmeans_.predict(embedding)

    def to_model(self) -> Model:
        """Centres among the embedded nodes and eigenvalues, as a model that can be saved, loaded and drawn."""
        if "kmeans_" not in self.__dict__:
            raise ValueError("this CompressiveSpectralClustering has learned nothing yet: call fit or fit_sketch")
        found = with_profile(self.solution_, self.sketch_)
        learned = {field.name: getattr(found, field.name) for field in fields(found) if field.name != "task"}
        model = SpectralModel(**learned)
        if not model.named:
            names = tuple(f"eigenvector {i + 1}" for i in range(len(model.columns)))
            model = replace(model, columns=names, named=True)
        if "eigenvalues_" not in self.__dict__:
            return model
        code = Code.RELIABLE if self.reliable_ else Code.UNCERTIFIED
        return replace(model, eigenvalues=self.eigenvalues_, verdict=self.verdict_, code=code, ratio=float("nan"))

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

    def _set_means(self, means: CompressiveKMeans) -> None:
        self.kmeans_ = means
        self.cluster_centers_, self.weights_ = means.cluster_centers_, means.weights_
        self.sketch_, self.solution_ = means.sketch_, means.solution_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


def _verdict(k: int, values: Array, parts: int, means: CompressiveKMeans) -> tuple[bool, str]:
    """Whether the graph says that there are k clusters: a gap of eigenvalues after the k-th one."""
    cost = f"The cost of k-means is {means.inertia_ / float(means.sketch_.count):.3g} per embedded node."
    if parts > k:
        return False, f"Not certified. The graph has {parts} connected parts, more than {counted(k, 'cluster')}. {cost}"
    if len(values) <= k:
        return False, (
            f"Not certified. {len(values)} eigenvalues don't show whether there is a gap after number {k}. {cost}"
        )
    if parts == k:
        return True, f"Reliable. The graph has as many connected parts as clusters. {cost}"
    gap = float(values[k] / max(values[k - 1], 1e-12))
    text = f"eigenvalue {k + 1} is {gap:.3g} times eigenvalue {k}"
    if gap >= _GAP:
        return True, f"Reliable. The eigenvalues of the graph have a gap after number {k}: {text}. {cost}"
    return False, f"Not certified. The eigenvalues of the graph have no gap after number {k}: {text}. {cost}"
