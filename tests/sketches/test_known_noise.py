import numpy as np
import pytest

import sketchlearn as sl


@pytest.fixture(scope="module")
def sketches():
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
    X = np.random.default_rng(0).normal(size=(1000, 2))
    return sl.sketch(X[:300], phi), sl.sketch(X[300:], phi)


def test_variances_count_with_it(sketches):
    a, _ = sketches
    noisy = a.with_noise(0.01).with_noise(0.02)
    assert noisy.noise == pytest.approx(0.03)
    np.testing.assert_allclose(noisy.variances, a.variances + 0.03)
    assert noisy != a
    assert noisy == a.with_noise(0.03)
    assert "noise that is known" in noisy.summary()["noise level"]


def test_sums_and_differences_carry_it_on(sketches):
    a, b = sketches
    total = a.with_noise(0.01) + b
    assert total.noise == pytest.approx(0.01 * 0.3**2)
    assert (total - b).noise == pytest.approx(0.01)
    assert (a + b).noise == 0.0
    half = sl.sketch([[0.0, 0.0]], a.features, sample_weight=[0.5])
    assert (half.with_noise(0.1) + b).noise == pytest.approx(0.1 * (0.5 / 700.5) ** 2)


def test_files_keep_it(sketches):
    a, _ = sketches
    noisy = a.with_noise(0.01)
    assert sl.Sketch.from_bytes(noisy.to_bytes()) == noisy
    assert sl.Sketch.from_bytes(a.to_bytes()).noise == 0.0


def test_what_is_refused(sketches):
    a, _ = sketches
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="variance"):
            a.with_noise(bad)


@pytest.mark.parametrize("variance", [-1.0, np.inf, np.nan, np.ones(3)])
def test_noise_is_one_finite_number(variance):
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match="one finite number"):
        sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=5, scale=1.0, seed=0)).with_noise(variance)
