import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.comparison.squares import SumOfSquares
from sketchlearn.comparison.two_sample import moments_of_features


@pytest.mark.parametrize("freedom", [1, 2, 3, 20, 300])
@pytest.mark.parametrize("p", [0.999, 0.9, 0.5, 0.1, 1e-3, 1e-5, 1e-12, 1e-100])
def test_equal_weights_are_chi_square(freedom, p):
    q = stats.chi2.isf(p, freedom)
    assert SumOfSquares(np.full(freedom, 2.0)).tail(2.0 * q) == pytest.approx(p, rel=1e-8)
    assert SumOfSquares(np.array([2.0]), np.array([float(freedom)])).tail(2.0 * q) == pytest.approx(p, rel=1e-8)


def test_weights_in_pairs_have_a_closed_form():
    """A sum of exponential variables with different means."""
    w = np.array([1.0, 0.7, 0.3, 0.05])
    law = SumOfSquares(np.repeat(w, 2))
    for q in (0.1, 1.0, 4.0, 20.0, 200.0):
        exact = sum(np.exp(-q / (2 * a)) * np.prod([a / (a - b) for b in w if b != a]) for a in w)
        assert law.tail(q) == pytest.approx(exact, rel=1e-8)


@pytest.mark.slow
def test_tails_are_those_of_draws_down_to_one_in_a_hundred_thousand():
    """Four standard errors of each share of four million draws; four moments give 1.5 times too little at 3e-4."""
    weights = np.array([1.0, 0.15, 0.12, 0.1, 0.08, *np.full(40, 0.03)])
    law, rng = SumOfSquares(weights), np.random.default_rng(0)
    draws = np.concatenate([rng.chisquare(1, (250_000, len(weights))) @ weights for _ in range(16)])
    for alpha in (0.5, 0.05, 1e-2, 1e-3, 3e-4, 1e-4, 1e-5):
        share = float(np.mean(draws > law.limit(alpha)))
        assert abs(share - alpha) < 4.0 * np.sqrt(alpha / len(draws))


def test_a_law_without_weights_and_far_out():
    assert SumOfSquares(np.zeros(0)).tail(1.0) == 0.0
    assert SumOfSquares(np.zeros(0)).tail(0.0) == 1.0
    assert SumOfSquares(np.ones(3)).tail(1e9) == 0.0
    assert SumOfSquares.of(np.zeros((3, 3))).mean == 0.0


def test_steeper_laws_have_the_squares_that_were_asked_for():
    law = SumOfSquares(np.geomspace(1.0, 0.01, 30))
    more = law.steeper(2.0)
    assert more.mean == pytest.approx(law.mean)
    assert more.variance == pytest.approx(law.variance + 4.0, rel=1e-6)
    assert len(law.steeper(1e6).weights) == 1


@pytest.mark.slow
def test_one_bit_features_have_the_size_they_promise():
    """Their harmonics are in both averages: as noise they would leave no alarm at all.  5 % of 300 are 15 +- 3.8."""
    phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.3, seed=0, quantized=True)
    law = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
    s = [sl.sketch(np.random.default_rng(i).normal(size=(400, 2)), phi, workers=1) for i in range(300)]
    fits = np.array([sl.goodness_of_fit(sketch, law).p_value for sketch in s])
    pairs = np.array([sl.compare(a, b, mixture=law).p_value for a, b in zip(s[::2], s[1::2], strict=True)])
    assert 15 - 3 * 3.8 < (fits < 0.05).sum() < 15 + 3 * 3.8
    assert 0 < (pairs < 0.1).sum() < 15 + 3 * 3.7


@pytest.mark.parametrize("scale", [0.5, 2.0, 4.0])
def test_one_bit_features_of_a_normal_law_are_known_with_their_harmonics(scale):
    """Mean and covariance against sums over a fine grid; of ideal features the law would be too narrow."""
    phi = sl.FourierFeatures.draw(dim=1, size=60, scale=scale, seed=0, quantized=True)
    x = np.linspace(-7.0, 7.0, 30_001)[:, None]
    share = np.exp(-0.5 * x[:, 0] ** 2)
    share /= share.sum()
    waves = phi(x)
    normal = sl.Mixture(np.ones(1), np.zeros((1, 1)), np.ones(1))
    mean, covariance, quantised = moments_of_features(phi, normal, phi.operator(dtype=np.float64).frequencies())
    np.testing.assert_allclose(mean, share @ waves, atol=2e-3)
    stacked = np.concatenate([waves.real, waves.imag], 1)
    exact = np.cov(stacked.T, aweights=share, bias=True)
    rest = np.pi**2 / 8 - np.abs(mean) ** 2 - np.maximum(1.0 - np.abs(mean) ** 2, 0.0) - quantised
    assert (rest > -1e-6).all()
    truth = SumOfSquares.of(exact)
    found = SumOfSquares.of(covariance + np.diag(np.tile(np.maximum(rest, 0.0) / 2, 2)))
    assert found.mean == pytest.approx(truth.mean, rel=0.02)
    for alpha in (0.05, 0.01):
        assert truth.tail(found.limit(alpha)) == pytest.approx(alpha, rel=0.5)  # 2.5 to 7.5 % at 5 %
