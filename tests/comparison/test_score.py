"""Scores against true averages over the rows, and distances that noise does not enlarge."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

import sketchlearn as sl
from sketchlearn.decoders.description import describe


def cost(X, centers):
    return ((X[:, None] - centers) ** 2).sum(2).min(1).mean()


def test_costs_of_many_sets_of_centres_on_real_rows():
    X = load_breast_cancer().data[:, :6]
    X = (X - X.mean(0)) / X.std(0)
    s = sl.sketch(X, sl.design(X, n_components=4, seed=0))
    described = describe(s)
    rng = np.random.default_rng(0)
    sets = [X[rng.choice(len(X), 4, replace=False)] for _ in range(12)]
    found = [sl.score(s, c, mixture=described) for c in sets]
    true = np.array([cost(X, c) for c in sets])
    values = np.array([f.value for f in found])
    assert np.corrcoef(values, true)[0, 1] > 0.99
    # 12 intervals of 90 %: fewer than 8 that cover have a probability below 0.005
    assert sum(low < t < high for (low, high), t in zip((f.interval() for f in found), true, strict=True)) >= 8


def test_log_likelihoods_and_subspaces():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) * [3.0, 1.0, 0.5]
    s = sl.sketch(X, sl.FourierFeatures.draw(dim=3, size=200, scale=2.0, seed=0))
    law = sl.Mixture(np.ones(1), np.zeros((1, 3)), np.diag([9.0, 1.0, 0.25])[None])
    found = sl.score(s, law)
    assert found.what == "log-likelihood"
    assert found.value == pytest.approx(law.log_density(X).mean(), abs=4 * found.error)
    assert found.risk < 1.5
    pca = PCA(1).fit(X)
    rest = ((X - pca.mean_) ** 2).sum(1) - (((X - pca.mean_) @ pca.components_.T) ** 2).sum(1)
    plane = sl.score(s, pca)
    assert plane.value == pytest.approx(rest.mean(), abs=4 * plane.error)
    assert np.isnan(plane.risk)


def test_wrong_centres_are_named():
    s = sl.sketch(
        np.random.default_rng(0).normal(size=(100, 2)), sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
    )
    with pytest.raises(ValueError, match=r"shape \(k, 2\)"):
        sl.score(s, [[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="at least two rows"):
        sl.score(sl.sketch([[1.0, 2.0]], s.features), [[0.0, 0.0]])


def test_squared_distances_are_unbiased_whatever_the_number_of_rows():
    rng = np.random.default_rng(0)
    phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    groups = [sl.sketch(rng.normal(size=(int(n), 2)), phi) for n in rng.integers(5, 200, 60)]
    squares = sl.distances(groups, squared=True)[np.triu_indices(60, 1)]
    raw = sl.distances(groups, corrected=False)[np.triu_indices(60, 1)] ** 2
    # pairs share sketches: the mean has about the noise of 60 independent values
    assert abs(squares.mean()) < 4 * squares.std() / np.sqrt(60)
    assert raw.mean() > 10 * abs(squares.mean())


def test_a_kernel_of_new_groups_fits_the_one_of_the_old():
    rng = np.random.default_rng(0)
    phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    groups = {i: sl.sketch(rng.normal(size=(50, 2)) * (1 + i % 2), phi) for i in range(12)}
    whole = sl.mean_kernel(groups, gamma=2.0)
    first, rest = list(groups.values())[:8], list(groups.values())[8:]
    assert np.allclose(sl.mean_kernel(rest, first, gamma=2.0), whole[8:, :8])
    assert np.allclose(np.diag(whole), 1.0)
