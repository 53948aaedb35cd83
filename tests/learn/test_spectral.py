import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.learn.graphs import neighbour_graph, spectral_embedding


# (a quick decoder: what is checked are conventions)
@parametrize_with_checks([sl.CompressiveSpectralClustering(n_clusters=3, sketch_size=60, decoder="clompr")])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X, y, sl.CompressiveSpectralClustering(10, random_state=0).fit(X)


def test_as_good_as_k_means_on_the_same_embedding(digits):
    _, y, found = digits
    peer = KMeans(10, n_init=20, random_state=0).fit(found.embedding_)
    ours = ((found.embedding_ - found.cluster_centers_[found.labels_]) ** 2).sum()
    assert ours < 1.05 * peer.inertia_
    assert adjusted_rand_score(y, found.labels_) > adjusted_rand_score(y, peer.labels_) - 0.01


def test_eigenvectors_are_those_of_the_laplacian():
    X, _ = make_moons(400, noise=0.05, random_state=0)
    graph = neighbour_graph(X, 8)
    embedding, values = spectral_embedding(graph, 3, 0)
    degree = np.asarray(graph.sum(1)).ravel()
    dense = np.eye(400) - graph.toarray() / np.sqrt(np.outer(degree, degree))
    true, vectors = np.linalg.eigh(dense)
    np.testing.assert_allclose(values, true[:4], atol=1e-6)
    rows = vectors[:, :3] / np.linalg.norm(vectors[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(embedding @ embedding.T, rows @ rows.T, atol=1e-3)


def test_a_graph_is_clustered_as_it_is():
    rng = np.random.default_rng(0)
    owner = np.repeat([0, 1, 2], 100)
    edges = rng.random((300, 300)) < np.where(owner[:, None] == owner, 0.2, 0.01)
    graph = csr_matrix(np.triu(edges, 1) | np.triu(edges, 1).T, dtype=float)
    found = sl.CompressiveSpectralClustering(3, affinity="precomputed", random_state=0).fit(graph)
    assert adjusted_rand_score(owner, found.labels_) == 1.0
    assert found.reliable_
    assert "gap" in found.verdict_
    four = sl.CompressiveSpectralClustering(4, affinity="precomputed", random_state=0).fit(graph)
    assert not four.reliable_
    for bad, word in [(graph[:, :5], "square"), (-graph, "negative"), (csr_matrix(np.triu(edges, 1)), "symmetric")]:
        with pytest.raises(ValueError, match=word):
            sl.CompressiveSpectralClustering(3, affinity="precomputed").fit(bad.astype(float))


def test_nodes_without_edges_and_loose_parts():
    loose = csr_matrix(np.kron(np.eye(3), 1 - np.eye(2)))
    loose.resize((7, 7))
    embedding, _ = spectral_embedding(loose, 3)
    assert not embedding[6].any()
    found = sl.CompressiveSpectralClustering(2, affinity="precomputed", random_state=0).fit(loose)
    assert "connected parts" in found.verdict_


def test_sketches_of_parts_of_the_nodes_add_up(digits, tmp_path):
    _, _, found = digits
    phi = found.sketch_.features
    parts = sl.sketch(found.embedding_[:800], phi) + sl.sketch(found.embedding_[800:], phi)
    np.testing.assert_array_equal(parts.sums, found.sketch_.sums)
    again = sl.CompressiveSpectralClustering(10, random_state=0).fit_sketch(parts)
    np.testing.assert_array_equal(again.predict_embedding(found.embedding_), found.labels_)
    assert not hasattr(again, "labels_")
    model = sl.Model.of(again)
    model.save(tmp_path / "m.json")
    np.testing.assert_array_equal(sl.Model.load(tmp_path / "m.json").predict(found.embedding_), found.labels_)
    with pytest.raises(ValueError, match="nothing yet"):
        sl.CompressiveSpectralClustering().to_model()


def test_bad_numbers():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for bad in ({"affinity": "rbf"}, {"n_clusters": 0}, {"n_neighbors": 1.5}, {"n_components": True}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sl.CompressiveSpectralClustering(**bad).fit(X)
