"""Mixtures as values, against scipy's normal laws and by simulation."""

import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl

RNG = np.random.default_rng(0)
ROOTS = RNG.normal(size=(3, 3, 3))
WEIGHTS, MEANS = np.array([0.5, 0.3, 0.2]), RNG.normal(size=(3, 3)) * 3
COVARIANCES = {
    "spherical": np.array([1.0, 0.5, 2.0]),
    "diag": RNG.uniform(0.5, 2.0, size=(3, 3)),
    "full": ROOTS @ np.swapaxes(ROOTS, 1, 2) + 0.1 * np.eye(3),
}


@pytest.fixture(params=COVARIANCES)
def mixture(request):
    return sl.Mixture(WEIGHTS, MEANS, COVARIANCES[request.param])


def _density(mixture, X):
    parts = zip(mixture.weights, mixture.means, mixture.full_covariances(), strict=True)
    return sum(a * stats.multivariate_normal(m, s).pdf(X) for a, m, s in parts)


def test_densities_are_those_of_scipy(mixture):
    X = RNG.normal(size=(20, 3)) * 3
    np.testing.assert_allclose(np.exp(mixture.log_density(X)), _density(mixture, X), rtol=1e-10)
    np.testing.assert_allclose(np.exp(mixture.log_densities(X)).sum(1), _density(mixture, X), rtol=1e-10)


def test_marginals_are_mixtures_of_marginal_normals(mixture):
    X = RNG.normal(size=(20, 2)) * 3
    parts = zip(WEIGHTS, MEANS, mixture.full_covariances(), strict=True)
    at = [2, 0]
    expected = sum(a * stats.multivariate_normal(m[at], s[np.ix_(at, at)]).pdf(X) for a, m, s in parts)
    np.testing.assert_allclose(np.exp(mixture.marginal(at).log_density(X)), expected, rtol=1e-10)


def test_a_conditional_is_joint_over_marginal(mixture):
    rest = RNG.normal(size=(20, 2)) * 3
    given = mixture.conditional([1], [0.7])
    joint = mixture.log_density(np.column_stack([rest[:, 0], np.full(20, 0.7), rest[:, 1]]))
    np.testing.assert_allclose(given.log_density(rest), joint - mixture.marginal([1]).log_density([[0.7]]), rtol=1e-9)
    assert given.weights.sum() == pytest.approx(1.0)


def test_samples_follow_the_mixture(mixture):
    """Standard errors: of means sd/sqrt(n), of variances about 2 sd^2/sqrt(n); five of them are allowed."""
    n = 50_000
    X, owner = mixture.sample(n, random_state=1)
    assert X.shape == (n, 3)
    widest = float(np.linalg.eigvalsh(mixture.covariance)[-1])
    np.testing.assert_allclose(X.mean(0), mixture.mean, atol=5 * np.sqrt(widest / n))
    np.testing.assert_allclose(np.cov(X.T), mixture.covariance, atol=5 * 2 * widest / np.sqrt(n))
    np.testing.assert_allclose(np.bincount(owner) / n, WEIGHTS, atol=5 / np.sqrt(n))
    np.testing.assert_array_equal(X, mixture.sample(n, random_state=np.random.default_rng(1))[0])
    assert np.trace(mixture.covariance) == pytest.approx(mixture.total_variance)


def test_other_units(mixture):
    X, A = RNG.normal(size=(10, 3)), RNG.normal(size=(3, 3))
    spread = np.array([2.0, 0.5, 10.0])
    log = mixture.log_density(X)
    np.testing.assert_allclose(mixture.stretched(spread).log_density(X * spread), log - np.log(spread).sum())
    np.testing.assert_allclose(mixture.scaled(3.0, spread).log_density(3 * X + spread), log - 3 * np.log(3.0))
    np.testing.assert_allclose(mixture.mapped(A).log_density(X @ A.T), log - np.log(abs(np.linalg.det(A))))


def test_what_is_no_part_is_refused(mixture):
    for columns in ([], [0, 0], [3], [-1]):
        with pytest.raises(ValueError, match="columns"):
            mixture.marginal(columns)
    with pytest.raises(ValueError, match="values"):
        mixture.conditional([0], [1.0, 2.0])
    with pytest.raises(ValueError, match="nothing is left"):
        mixture.conditional([0, 1, 2], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="at least one"):
        mixture.sample(0)
    with pytest.raises(ValueError, match="3 columns"):
        mixture.log_density([[1.0]])
