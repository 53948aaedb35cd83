import numpy as np
import pytest
from clusters import gaussian_clusters
from scipy.optimize import nnls

import sketchlearn as sl
from sketchlearn.decoders.families import Known
from sketchlearn.decoders.kmeans.partition import partition
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.steps import weights
from sketchlearn.decoders.steps.greedy import search
from sketchlearn.decoders.steps.weights import prune_indices, solve_weights


def test_search_reaches_the_noise_floor():
    X, _, _ = gaussian_clusters(10, 10, 100, seed=4)
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X[:1000], n_components=10, seed=0)))
    found = search(problem, 10, np.random.default_rng(0))
    assert found.explained
    assert found.ratio < 1.5


def test_certificate_flags_a_missing_cluster():
    X, _, _ = gaussian_clusters(10, 10, 100, seed=4)
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X[:1000], n_components=10, seed=0)))
    assert search(problem, 9, np.random.default_rng(0)).ratio > 100


def test_weights_from_a_gram_matrix_are_nnls():
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(50, 6)), rng.normal(size=50)
    np.testing.assert_allclose(solve_weights(A.T @ A, A.T @ y), nnls(A, y)[0], atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_weights_of_many_correlated_atoms_are_nnls(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(60, 40)) @ rng.normal(size=(40, 40)) + 2.0 * rng.random()
    y = A @ (rng.exponential(size=40) * (rng.random(40) < 0.5)) + rng.normal(size=60)
    gram = A.T @ A
    ridge = np.sqrt(1e-6 * np.trace(gram) / 40) * np.eye(40)  # NNLS of rows that have the same ridge
    expected = nnls(np.vstack([A, ridge]), np.append(y, np.zeros(40)))[0]
    np.testing.assert_allclose(solve_weights(gram, A.T @ y), expected, atol=1e-6 * expected.max())


def test_pruning_removes_one_after_the_other():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(50, 12))
    gram, b = A.T @ A, A.T @ (A @ rng.exponential(size=12) + rng.normal(size=50))
    keep = np.flatnonzero(solve_weights(gram, b) > 0)
    while len(keep) > 4:  # what each costs, from the definition
        costs = []
        for left in (np.delete(keep, i) for i in range(len(keep))):
            a = np.linalg.solve(gram[np.ix_(left, left)], b[left])
            costs.append(-a @ b[left])
        a = np.linalg.solve(gram[np.ix_(keep, keep)], b[keep])
        keep = np.delete(keep, np.argmin(np.where(a > 0, costs, -np.inf)))
    found, weights = prune_indices(gram, b, 4)
    np.testing.assert_array_equal(found, keep)
    np.testing.assert_allclose(weights, np.linalg.solve(gram[np.ix_(keep, keep)], b[keep]), rtol=1e-4)


def test_pruning_keeps_the_components_that_matter():
    gram = np.eye(4) + 0.01
    keep, weights = prune_indices(gram, gram @ np.array([5.0, 0.1, 3.0, 0.2]), 2)
    assert keep.tolist() == [0, 2]
    assert (weights > 2.9).all()


@pytest.mark.parametrize("criterion", ["means", "medians"])
def test_partition_of_a_mixture(criterion):
    mixture = sl.Mixture(np.array([0.7, 0.3]), np.array([[0.0, 0.0], [9.0, 0.0]]), np.array([1.0, 2.0]))
    centers, weights, cost = partition(mixture, 2, np.random.default_rng(0), criterion=criterion)
    order = np.argsort(centers[:, 0])
    np.testing.assert_allclose(centers[order], mixture.means, atol=0.1)
    np.testing.assert_allclose(weights[order], mixture.weights, atol=0.01)
    expected = 2 * (0.7 * 1 + 0.3 * 2) if criterion == "means" else np.sqrt(np.pi / 2) * (0.7 + 0.3 * np.sqrt(2))
    assert cost == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("width", [0.0, 1e-320, 1e-30])
@pytest.mark.parametrize("place", [0.0, 1.0])
def test_medians_of_points_without_width(width, place):
    means = place * np.array([[0.0, 0.0], [9.0, 1.0]])
    mixture = sl.Mixture(np.array([0.7, 0.3]), means, np.full(2, width))
    centers, _, cost = partition(mixture, 2, np.random.default_rng(0), start=means, criterion="medians")
    np.testing.assert_allclose(centers, means, atol=1e-12)
    assert cost == pytest.approx(0.0, abs=1e-6)


def test_samples_have_the_moments_of_the_mixture():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 2, 2))
    mixture = sl.Mixture(np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 2)), root @ np.swapaxes(root, 1, 2))
    x, w, owner = mixture.weighted_points(200_000, rng)
    assert w.sum() == pytest.approx(1.0)
    assert set(owner) == {0, 1, 2}
    np.testing.assert_allclose(w @ x, mixture.mean, atol=1e-12)  # antithetic pairs
    spread = w @ ((x - mixture.mean) ** 2).sum(1)
    assert spread == pytest.approx(mixture.total_variance, rel=0.02)


def test_no_weights_are_left_where_no_atom_helps(monkeypatch):
    real = weights.cho_factor
    monkeypatch.setattr(weights, "cho_factor", lambda matrix: real(matrix) if matrix.size else pytest.fail("empty"))
    np.testing.assert_array_equal(solve_weights(np.eye(3) + 0.5, -np.ones(3)), 0.0)


# -- a rule for stopping -----------------------------------------------------------------------


@pytest.mark.parametrize("separation", [4.0, 1.8])
@pytest.mark.parametrize("decoder", ["clompr", "splitting", "known"])
def test_greedy_searches_stop_at_as_few_components_as_explain_the_sketch(decoder, separation):
    rng = np.random.default_rng(0)
    means = rng.normal(size=(5, 4)) * separation
    X = means[rng.integers(5, size=20_000)] + rng.normal(size=(20_000, 4))
    s = sl.sketch(X, sl.design(X[:2000], n_components=10, task="gmm", covariance_type="diag"))
    if decoder == "known":
        found = sl.decode(s, 10, task="family", family=Known(1.0), stop=True, random_state=0)
    else:
        found = sl.decode(s, 10, task="gmm", decoder=decoder, covariance_type="diag", stop=True, random_state=0)
    assert len(found.weights) == 5
    assert found.reliable
    apart = np.linalg.norm(found.means[:, None] - means, axis=2).min(0)
    assert apart.max() < 0.1  # ten standard errors of a mean of 4000 rows


def test_the_largest_number_is_kept_where_it_does_not_explain_the_sketch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3))[rng.integers(6, size=20_000)] * 6 + rng.normal(size=(20_000, 3))
    s = sl.sketch(X, sl.design(X[:2000], n_components=6, task="gmm", covariance_type="diag"))
    found = sl.decode(s, 3, task="gmm", decoder="clompr", covariance_type="diag", stop=True, random_state=0)
    assert len(found.weights) == 3
    assert not found.reliable
