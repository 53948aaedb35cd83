import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.comparison.squares import SumOfSquares
from sketchlearn.comparison.two_sample import noise_of_rows
from sketchlearn.decoders.description import describe, location
from sketchlearn.decoders.mixtures.default import decode_gmm

PHI = sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=0)
CENTRES = np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 5.0]])
SLANT = np.array([[1.0, 0.0, 0.0], [0.8, 0.3, 0.0], [-0.5, 0.5, 0.4]])

LAWS = {
    "normal": lambda g, n: g.normal(size=(n, 3)),
    "correlated": lambda g, n: g.normal(size=(n, 3)) @ SLANT.T,
    "clusters": lambda g, n: CENTRES[g.integers(3, size=n)][:, [0, 1, 0]] + 0.7 * g.normal(size=(n, 3)),
    "uniform": lambda g, n: g.uniform(size=(n, 3)),
    "skewed": lambda g, n: g.exponential(size=(n, 3)),
    "heavy tails": lambda g, n: g.standard_t(3, size=(n, 3)),
    "whole numbers": lambda g, n: g.poisson(2.0, size=(n, 3)).astype(float),
    "binary": lambda g, n: (g.random((n, 3)) < 0.3).astype(float),
    "constant column": lambda g, n: np.column_stack([g.normal(size=(n, 2)), np.full(n, 7.0)]),
}


def _clusters(rng, n):
    return CENTRES[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) * [1.0, 0.5]


def _features(X, phi):
    z = phi(X)
    return np.concatenate([z.real, z.imag], 1)


def _within_chance(rejected, pairs, alpha):
    """A count that a binomial law leaves on either side with probability 1e-4."""
    law = stats.binom(pairs, alpha)
    return law.ppf(1e-4) <= rejected <= law.isf(1e-4)


@pytest.mark.slow
def test_with_the_true_covariance_p_values_are_right():
    rng = np.random.default_rng(0)
    pairs, n = 1000, 200
    truth = SumOfSquares.of(np.cov(_features(rng.exponential(size=(30_000, 2)), PHI).T, bias=True))
    p = []
    for _ in range(pairs):
        a, b = (_features(rng.exponential(size=(n, 2)), PHI).mean(0) for _ in range(2))
        p.append(truth.tail(n / 2 * np.sum((a - b) ** 2)))
    for alpha in (0.05, 0.01):
        assert _within_chance(np.sum(np.array(p) < alpha), pairs, alpha)


@pytest.mark.parametrize("designed", [True, False])
@pytest.mark.parametrize("name", LAWS)
def test_the_noise_of_any_law_has_the_right_spread(name, designed):
    # relative standard deviation of the statistic; 15 % turn a false-alarm rate of 1 % into 0.5 or 2 %
    draw, rng = LAWS[name], np.random.default_rng(0)
    pilot = draw(rng, 1000)
    if designed:
        phi = sl.design(pilot, n_components=5, size=60, seed=0)
    else:
        phi = sl.FourierFeatures.draw(dim=3, size=60, scale=2.0 * pilot.std(), seed=0)
    truth = SumOfSquares.of(np.cov(_features(draw(rng, 20_000), phi).T, bias=True))
    s = sl.sketch(draw(rng, 2000), phi)
    found = noise_of_rows(describe(s), phi.operator(dtype=np.float64), s).law
    assert found.mean == pytest.approx(truth.mean, rel=0.1)
    assert found.variance**0.5 / found.mean == pytest.approx(truth.variance**0.5 / truth.mean, rel=0.12)


def test_p_values_are_uniform_under_one_distribution():
    draw, rng = LAWS["uniform"], np.random.default_rng(0)
    phi = sl.design(draw(rng, 1000), n_components=3, size=60, seed=0)
    p = [sl.compare(*(sl.sketch(draw(rng, 500), phi, workers=1) for _ in range(2))).p_value for _ in range(20)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_a_mixture_that_misses_most_does_not_cause_alarms():
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(5, 10))
    phi = sl.FourierFeatures.draw(dim=10, size=100, scale=0.4, seed=0)

    def draw(n):
        return centres[rng.integers(5, size=n)] + 0.05 * rng.normal(size=(n, 10))

    truth = SumOfSquares.of(np.cov(_features(draw(20_000), phi).T, bias=True))
    s = sl.sketch(draw(2000), phi)
    wrong = sl.Mixture(np.ones(1), np.zeros((1, 10)), np.full(1, 16.0))
    found = noise_of_rows(wrong, phi.operator(dtype=np.float64), s).law
    assert found.variance**0.5 / found.mean == pytest.approx(truth.variance**0.5 / truth.mean, rel=0.3)


def test_a_given_mixture_is_used():
    rng = np.random.default_rng(0)
    a, b = (sl.sketch(rng.normal(size=(1000, 2)), PHI) for _ in range(2))
    one, zero = np.ones(1), np.zeros((1, 2))
    p = [
        sl.compare(a, b, given).p_value
        for given in (
            sl.Mixture(one, zero, one),
            (one, zero, np.ones((1, 2))),
            [2 * one, zero, np.eye(2)[None]],
        )
    ]
    assert p[1:] == pytest.approx([p[0]] * 2)
    assert p[0] == pytest.approx(sl.compare(a, b).p_value, abs=0.05)
    for kind in ("full", "tied", "diag", "spherical"):
        model = sl.CompressiveGaussianMixture(1, covariance_type=kind, random_state=0).fit_sketch(a + b)
        assert sl.compare(a, b, model).p_value == pytest.approx(p[0], abs=0.05)
        assert sl.compare(a, b, model.solution_).p_value == pytest.approx(p[0], abs=0.05)
    with pytest.raises(ValueError, match="a mixture is"):
        sl.compare(a, b, (one, np.zeros((1, 3)), np.ones((1, 3))))
    with pytest.raises(ValueError, match="negative"):
        sl.compare(a, b, (-one, zero, one))
    with pytest.raises(TypeError, match="mixture must be"):
        sl.compare(a, b, "normal")


def test_small_shifts_in_one_of_ten_columns_are_found():
    phi = sl.FourierFeatures.draw(dim=10, size=200, scale=3.0, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        X, Y = rng.normal(size=(100_000, 10)), rng.normal(size=(100_000, 10))
        Y[:, 4] += 0.1
        found = sl.compare(sl.sketch(X, phi), sl.sketch(Y, phi))
        assert found.differs(alpha=1e-6)
        assert found.distance > 0


def test_rows_are_found_far_from_the_middle_of_their_box():
    phi = sl.FourierFeatures.draw(dim=1, size=100, scale=0.3, seed=0)
    X = np.random.default_rng(0).normal(5.0, 1.0, size=(2000, 1))
    X[0] = 300.0
    s = sl.sketch(X, phi)
    assert abs(location(s)[0] - 5.0) < 2
    assert abs(describe(s).mean[0] - 5.0) < 0.5
    decode_gmm(s, 1, rng=np.random.default_rng(0))  # starts in the middle of the box, where nothing is


def test_constant_rows_and_scales_that_are_far_too_large_or_small():
    rng = np.random.default_rng(0)
    same = sl.sketch(np.full((50, 2), 3.0), PHI)
    assert sl.compare(same, same).p_value == 1.0
    assert sl.compare(same, sl.sketch(np.full((50, 2), 3.5), PHI)).p_value < 1e-6
    for scale in (1e-4, 1e4, 1e6):
        phi = sl.FourierFeatures.draw(dim=2, size=60, scale=scale, seed=0)
        p = [sl.compare(*(sl.sketch(rng.normal(size=(300, 2)), phi) for _ in range(2))).p_value for _ in range(3)]
        assert min(p) > 1e-3


def test_what_can_not_be_compared():
    a = sl.sketch(np.zeros((5, 2)), PHI)
    other = sl.sketch(np.zeros((5, 2)), sl.FourierFeatures.draw(dim=2, size=60, scale=2.0, seed=0))
    with pytest.raises(sl.IncompatibleSketchError, match="scale"):
        sl.compare(a, other)
    with pytest.raises(ValueError, match="two rows"):
        sl.compare(a, sl.sketch([[0.0, 0.0]], PHI))
    quadratic = sl.sketch(np.zeros((5, 2)), sl.design(np.eye(2), task="pca", n_components=1))
    with pytest.raises(ValueError, match="Fourier"):
        sl.compare(quadratic, quadratic)


@pytest.mark.slow
def test_sizes_where_a_row_contributes_to_some_features():
    """Features of one group share their rows, those of two groups don't: 5 % of 400 are 20, give or take 4.4."""
    phi = sl.FourierFeatures.draw(dim=2, size=64, scale=2.0, seed=0, features_per_row=8)
    law = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
    s = [sl.sketch(np.random.default_rng(i).normal(size=(400, 2)), phi, workers=1) for i in range(400)]
    fits = np.array([sl.goodness_of_fit(sketch, law).p_value for sketch in s])
    pairs = np.array([sl.compare(a, b, mixture=law).p_value for a, b in zip(s, s[1:] + s[:1], strict=True)])
    for p in (fits, pairs):
        assert 20 - 3 * 4.4 < (p < 0.05).sum() < 20 + 3 * 4.4
        assert (p < 0.01).sum() <= 4 + 3 * 2.0
    shifted = sl.sketch(np.random.default_rng(0).normal(size=(400, 2)) + 0.5, phi)
    assert sl.goodness_of_fit(shifted, law).differs(1e-6)
    assert sl.compare(shifted, s[1], mixture=law).differs(1e-4)


def test_groups_of_features_without_rows_are_left_out():
    phi = sl.FourierFeatures.draw(dim=1, size=200, scale=1.0, seed=0, features_per_row=2)
    law = sl.Mixture(np.ones(1), np.zeros((1, 1)), np.ones(1))
    a, b = (sl.sketch(np.random.default_rng(i).normal(size=(60, 1)), phi) for i in (0, 1))
    for found in (sl.compare(a, b, mixture=law), sl.goodness_of_fit(a, law)):
        assert 1e-3 < found.p_value < 1.0


def test_what_is_no_sketch_and_what_is_no_level():
    s = sl.sketch(np.eye(2), PHI)
    with pytest.raises(TypeError, match="expected a sketch, got ndarray"):
        sl.compare(s, np.eye(2))
    with pytest.raises(ValueError, match="alpha must be between 0 and 1, got 5"):
        sl.compare(s, s).differs(alpha=5)
