import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.learn.graphs import modularity, neighbour_graph, scaled_graph, spectral_embedding
from sketchlearn.learn.signals import _chebyshev, _moments, _step, filtered_signals


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


# -- filtered signals --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    return sl.datasets.planted_partition(3000, 20, seed=0)


def test_modularity_is_that_of_the_definition(planted):
    graph = planted.adjacency[:300, :300].tocsr()
    labels = planted.labels[:300] % 7
    degree = np.asarray(graph.sum(1)).ravel()
    total = degree.sum()
    excess = graph.toarray() / total - np.outer(degree, degree) / total**2
    assert modularity(graph, labels) == pytest.approx(excess[labels[:, None] == labels].sum(), abs=1e-12)
    assert modularity(csr_matrix((3, 3)), [0, 1, 1]) == 0.0
    with pytest.raises(ValueError, match="2 labels for 300 nodes"):
        modularity(graph, [0, 1])


def test_traces_and_steps_are_those_of_the_polynomials(planted):
    graph = planted.adjacency[:300, :300].tocsr()
    scaled = scaled_graph(graph, np.asarray(graph.sum(1)).ravel())
    values = np.linalg.eigvalsh(scaled.toarray())
    orders = np.arange(65)
    true = np.cos(orders[:, None] * np.arccos(np.clip(values, -1, 1))).sum(1)
    all_signals = np.sqrt(300) * np.eye(300)  # which measure traces without error
    np.testing.assert_allclose(next(_moments(scaled, all_signals)), true, atol=1e-8)
    step = _step(np.array([0.5]), 64)[0]
    x = np.linspace(-1, 1, 1001)
    curve = np.polynomial.chebyshev.chebval(x, step)
    assert curve.min() > -1e-12
    assert curve.max() < 1 + 1e-12
    assert curve[x < 0.4].max() < 0.05
    assert curve[x > 0.6].min() > 0.95
    terms = [term for _, term in zip(step, _chebyshev(scaled, np.eye(300)), strict=False)]
    filtered = sum(weight * term for weight, term in zip(step, terms, strict=True))
    np.testing.assert_allclose(
        np.linalg.eigvalsh(filtered), np.sort(np.polynomial.chebyshev.chebval(values, step)), atol=1e-8
    )


def test_signals_find_the_gap_and_the_groups(planted):
    values = spectral_embedding(planted.adjacency.tocsr(), 20, 0)[1]
    found = filtered_signals(planted.adjacency, 20, random_state=0)
    assert values[19] < found.cut < values[20]
    assert abs(found.count - 20) < 3 * found.count_std
    np.testing.assert_allclose(np.linalg.norm(found.embedding, axis=1), 1.0, rtol=1e-5)
    ours = sl.CompressiveSpectralClustering(
        20, affinity="precomputed", method="signals", decoder="rows", random_state=0
    ).fit(planted.adjacency)
    assert ours.modularity_ == pytest.approx(modularity(planted.adjacency, ours.labels_))
    assert ours.modularity_ > 0.99 * modularity(planted.adjacency, planted.labels)
    assert adjusted_rand_score(planted.labels, ours.labels_) > 0.98
    assert "gap after" in ours.verdict_
    assert not ours.reliable_


def test_signals_through_a_sketch_and_models(tmp_path):
    X, y = make_moons(500, noise=0.05, random_state=0)
    for decoder in ("auto", "rows"):
        found = sl.CompressiveSpectralClustering(2, method="signals", decoder=decoder, random_state=0).fit(X)
        assert adjusted_rand_score(y, found.labels_) > 0.95
        assert hasattr(found, "sketch_") == (decoder == "auto")
        assert not hasattr(found, "eigenvalues_")
        model = found.to_model()
        assert model.columns[0] == "signal 1"
        model.save(tmp_path / "m.json")
        np.testing.assert_array_equal(sl.Model.load(tmp_path / "m.json").predict(found.embedding_), found.labels_)
    with pytest.raises(ValueError, match="decoder='rows'"):
        found.fit_sketch(sl.sketch(X))


@pytest.mark.parametrize("options", [{"sketch_size": 100}, {"features": sl.FourierFeatures.draw(dim=2, size=50)}])
def test_no_sketch_has_no_features(options):
    estimator = sl.CompressiveSpectralClustering(2, decoder="rows", **options)
    with pytest.raises(ValueError, match="leave out features and sketch_size"):
        estimator.fit(np.random.default_rng(0).normal(size=(30, 2)))


def test_modularity_needs_a_label_for_each_node():
    graph = csr_matrix(np.kron(np.eye(2), 1 - np.eye(2)))
    for labels in ([0, 1], [[0, 0], [1, 1]], 3):
        with pytest.raises(ValueError, match="one for each node"):
            modularity(graph, labels)


def test_signals_of_nodes_without_edges_and_loose_parts():
    loose = csr_matrix(np.kron(np.eye(3), 1 - np.eye(2)))
    loose.resize((7, 7))
    embedding = filtered_signals(loose, 3, 40, random_state=0).embedding
    assert not embedding[6].any()
    np.testing.assert_allclose(np.abs((embedding[0::2] * embedding[0::2]).sum(1))[:3], 1.0, rtol=1e-5)
    np.testing.assert_allclose((embedding[0:6:2] * embedding[1:6:2]).sum(1), 1.0, rtol=1e-2)
    for bad in ({"k": 0}, {"k": 2, "n_signals": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            filtered_signals(loose, **bad)
