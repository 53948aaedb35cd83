import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.sketch.compare import Mixture, fit_mixture, tail

PHI = sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=0)
CENTRES = np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 5.0]])


def _clusters(rng, n):
    return CENTRES[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) * [1.0, 0.5]


def _skewed(rng, n):
    return rng.exponential(size=(n, 2))


@pytest.mark.parametrize("draw", [_clusters, _skewed])
def test_p_values_are_uniform_under_one_distribution(draw):
    rng = np.random.default_rng(0)
    p = [sl.compare(*(sl.sketch(draw(rng, 500), PHI, workers=1) for _ in range(2))).p_value for _ in range(40)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert np.mean(np.array(p) < 0.01) < 0.11


def test_a_given_mixture_is_used():
    rng = np.random.default_rng(0)
    a, b = (sl.sketch(rng.normal(size=(1000, 2)), PHI) for _ in range(2))
    given = sl.compare(a, b, (np.ones(1), np.zeros((1, 2)), np.ones((1, 2))))
    full = sl.compare(a, b, Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None]))
    assert given.p_value == pytest.approx(full.p_value)
    assert given.p_value == pytest.approx(sl.compare(a, b).p_value, abs=0.05)
    with pytest.raises(ValueError, match="a mixture is"):
        sl.compare(a, b, (np.ones(1), np.zeros((1, 3)), np.ones((1, 3))))


def test_small_shifts_in_one_of_ten_columns_are_found():
    phi = sl.FourierFeatures.draw(dim=10, size=200, scale=3.0, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        X, Y = rng.normal(size=(100_000, 10)), rng.normal(size=(100_000, 10))
        Y[:, 4] += 0.1
        found = sl.compare(sl.sketch(X, phi), sl.sketch(Y, phi))
        assert found.differs(alpha=1e-6)
        assert found.distance > 0


def test_the_mixture_has_the_covariance_of_the_features():
    rng = np.random.default_rng(0)
    mixture = Mixture(np.full(3, 1 / 3), CENTRES, np.tile([1.0, 0.25], (3, 1)))
    X = _clusters(rng, 50_000)
    w = PHI.frequencies[:6]
    difference, total = mixture.pairs(w)
    for j in range(6):
        assert np.allclose(difference[j], np.exp(1j * X @ (w[j] - w).T).mean(0), atol=0.02)
        assert np.allclose(total[j], np.exp(1j * X @ (w[j] + w).T).mean(0), atol=0.02)
    found = fit_mixture(PHI.frequencies, sl.sketch(X, PHI).mean, 5e4, X.min(0), X.max(0))
    assert np.allclose(found.characteristic(w), mixture.characteristic(w), atol=0.03)


def test_tails_of_weighted_squares():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(20, 20)) * np.geomspace(1, 0.01, 20)
    covariance = root.T @ root
    draws = ((rng.normal(size=(200_000, 20)) @ root) ** 2).sum(1)
    for q in (0.5, 0.9, 0.99, 0.999):
        assert tail(float(np.quantile(draws, q)), covariance) == pytest.approx(1 - q, rel=0.15)
    assert tail(1.0, np.zeros((2, 2))) == 0.0


def test_what_can_not_be_compared():
    a = sl.sketch(np.zeros((5, 2)), PHI)
    other = sl.sketch(np.zeros((5, 2)), sl.FourierFeatures.draw(dim=2, size=60, scale=2.0, seed=0))
    with pytest.raises(sl.IncompatibleSketchError, match="scale"):
        sl.compare(a, other)
    with pytest.raises(ValueError, match="two rows"):
        sl.compare(a, sl.sketch([[0.0, 0.0]], PHI))
    with pytest.raises(ValueError, match="fractional"):
        sl.compare(a, sl.sketch([[0.0, 0.0]] * 3, PHI, sample_weight=[0.5, 1, 1]))
