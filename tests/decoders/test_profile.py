import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.families import GAUSSIANS
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.profile import characteristic, residual_profile
from sketchlearn.decoders.state import State
from sketchlearn.features.operator import DenseOperator
from sketchlearn.models.mixture import Mixture

WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.0, 0.0], [6.0, 1.0], [-1.0, 7.0]])
COVARIANCES = {
    "spherical": np.array([1.0, 0.5, 2.0]),
    "diag": np.array([[1.0, 2.0], [0.5, 0.2], [2.0, 1.0]]),
    "tied": np.repeat([[[1.0, 0.4], [0.4, 2.0]]], 3, 0),
    "full": np.array([[[1.0, 0.4], [0.4, 2.0]], [[0.5, 0.0], [0.0, 0.2]], [[2.0, -0.3], [-0.3, 1.0]]]),
}


def rows(mixture, n, seed):
    rng = np.random.default_rng(seed)
    owner = rng.choice(len(mixture.weights), n, p=mixture.weights)
    roots = np.linalg.cholesky(mixture.full_covariances())
    return mixture.means[owner] + np.einsum("nij,nj->ni", roots[owner], rng.normal(size=(n, 2)))


@pytest.mark.parametrize("kind", COVARIANCES)
def test_moments_of_the_mixture_by_simulation(kind):
    mixture = Mixture(WEIGHTS, MEANS, COVARIANCES[kind])
    X = rows(mixture, 200_000, 0)
    w = np.random.default_rng(1).normal(size=(20, 2))
    # standard errors: 1/sqrt(n) for the features, a few times the variance over sqrt(n) for the covariance
    found = characteristic(mixture, DenseOperator(w))
    np.testing.assert_allclose(found, np.exp(1j * X @ w.T).mean(0), atol=5 / np.sqrt(len(X)))
    np.testing.assert_allclose(mixture.covariance, np.cov(X.T), atol=5 * 20 / np.sqrt(len(X)))


def test_the_true_mixture_leaves_the_sampling_noise():
    mixture = Mixture(WEIGHTS, MEANS, COVARIANCES["full"])
    phi = sl.FourierFeatures.draw(dim=2, size=2000, scale=0.7, seed=3)
    ratios = []
    for seed in range(8):
        p = residual_profile(sl.sketch(rows(mixture, 4000, seed), phi), mixture)
        ratios.append(np.average(p.misfit, weights=p.size) / np.average(p.sampling, weights=p.size))
    # frequencies are correlated: about 30 independent ones in this plane, and eight sketches
    assert abs(np.mean(ratios) - 1) < 4 / np.sqrt(8 * 30)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_the_floor_is_that_of_the_decoders(kind):
    mixture = Mixture(WEIGHTS, MEANS, COVARIANCES[kind])
    X = rows(mixture, 3000, 0)
    s = sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=300, scale=1.0, seed=0))
    problem = Problem.from_sketch(s)
    covariances = COVARIANCES[kind][:1] if kind == "tied" else COVARIANCES[kind]
    means, shapes = (MEANS - problem.center) / problem.scale, covariances / problem.scale**2
    expected = problem.left(State(GAUSSIANS[kind], WEIGHTS, means, shapes)).mean() / 3000
    p = residual_profile(s, mixture, kind)
    assert np.average(p.floor, weights=p.size) == pytest.approx(expected, rel=1e-4)


def test_standardised_maps_have_the_profile_of_standardised_rows():
    rng = np.random.default_rng(0)
    rows_ = 6 * np.eye(2)[rng.integers(2, size=8000)] + rng.normal(size=(8000, 2))
    unit = np.array([0.01, 300.0])
    phi = sl.design(rows_[:1000], n_components=3)
    plain, scaled = (
        sl.Model.of(sl.CompressiveKMeans(2, random_state=0).fit_sketch(sl.sketch(X, f))).profile
        for X, f in ((rows_, phi), (rows_ * unit, phi.standardized([0, 0], unit)))
    )
    np.testing.assert_allclose(scaled.floor, plain.floor, rtol=1e-3)
    np.testing.assert_allclose(scaled.radius, plain.radius, rtol=1e-3)


def test_points_are_judged_by_the_sampling_noise():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    s = sl.sketch(X, sl.design(X[:500], n_components=2))
    p = sl.Model.of(sl.CompressiveKMeans(2, decoder="clompr", random_state=0).fit_sketch(s)).profile
    np.testing.assert_array_equal(p.floor, p.sampling)


def test_bins_are_ordered_and_complete():
    s = sl.sketch(np.random.default_rng(0).normal(size=(500, 2)), sl.FourierFeatures.draw(dim=2, size=100, scale=1.0))
    p = residual_profile(s, Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1)), bins=10)
    assert len(p.radius) == 10
    assert p.size.sum() == 100
    assert (np.diff(p.radius) > 0).all()


def test_what_has_no_profile():
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(TypeError, match="quadratic"):
        residual_profile(sl.sketch(X, sl.QuadraticFeatures.draw(dim=2, size=3)), mixture)
    three = sl.sketch(np.c_[X, X[:, 0]], sl.FourierFeatures.draw(dim=3, size=10, scale=1.0))
    with pytest.raises(ValueError, match="2 columns, the sketch 3"):
        residual_profile(three, mixture)
