"""The maximum mean discrepancy from sketches: unbiased, with error bars that cover, and the kernel behind it."""

import numpy as np
import pytest

import sketchlearn as sl


def truth(phi, shift, spread):
    """Squared MMD of N(0, I) and N(shift, spread**2 I) under the kernel of the map."""
    w = phi.frequencies
    lengths = (w**2).sum(1)
    other = np.exp(-0.5 * spread**2 * lengths + 1j * (w @ np.full(phi.dim, shift)))
    return float(np.mean(np.abs(np.exp(-0.5 * lengths) - other) ** 2))


LAWS = [(0.0, 1.0, "gaussian"), (0.3, 1.0, "laplace"), (0.1, 1.3, "gaussian")]


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "spread", "radial"), LAWS)
def test_estimates_are_unbiased_and_intervals_cover(shift, spread, radial):
    rng = np.random.default_rng(5)
    phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.5, radial=radial, seed=1)
    true, found = truth(phi, shift, spread), []
    for _ in range(60):
        a, b = rng.normal(size=(500, 2)), shift + spread * rng.normal(size=(800, 2))
        found.append(sl.mmd(sl.sketch(a, phi), sl.sketch(b, phi)))
    squared, errors = np.array([(f.squared, f.error) for f in found]).T
    assert abs(squared.mean() - true) < 4 * squared.std() / np.sqrt(60)
    assert 0.7 < errors.mean() / squared.std() < 1.4  # 60 runs give a deviation to a tenth
    inside = np.mean([low <= np.sqrt(true) <= high for low, high in (f.interval(0.9) for f in found)])
    assert inside > 0.9 - 3.5 * np.sqrt(0.9 * 0.1 / 60)


def test_it_is_the_average_of_the_kernel_over_pairs():
    rng = np.random.default_rng(2)
    phi = sl.FourierFeatures.draw(dim=3, size=300, scale=2.0, radial="matern", seed=0)
    X, Y = rng.normal(size=(300, 3)), rng.normal(size=(200, 3)) + 0.4
    own = [(phi.kernel(Z).sum() - len(Z)) / (len(Z) * (len(Z) - 1)) for Z in (X, Y)]
    pairs = own[0] + own[1] - 2 * phi.kernel(X, Y).mean()
    assert sl.mmd(sl.sketch(X, phi), sl.sketch(Y, phi)).squared == pytest.approx(pairs, abs=1e-5)


def test_noise_of_a_release_is_in_the_error():
    rng = np.random.default_rng(3)
    phi = sl.design(bounds=([-5.0, -5.0], [5.0, 5.0]), n_components=3, size=60)
    a, b = (sl.sketch(rng.normal(size=(3000, 2)), phi) for _ in range(2))
    plain, noisy = sl.mmd(a, b), sl.mmd(sl.privatize(a, epsilon=0.3, delta=1e-6, public_map=True), b)
    assert noisy.error > 2 * plain.error
    assert abs(noisy.squared) < 4 * noisy.error


def test_what_can_not_be_compared_is_refused():
    phi, other = (sl.FourierFeatures.draw(dim=1, size=20, scale=s) for s in (1.0, 2.0))
    a = sl.sketch(np.zeros((5, 1)), phi)
    with pytest.raises(sl.IncompatibleSketchError):
        sl.mmd(a, sl.sketch(np.zeros((5, 1)), other))
    with pytest.raises(ValueError, match="at least two rows"):
        sl.mmd(a, sl.sketch(np.zeros((1, 1)), phi))
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        sl.mmd(a, sl.sketch(np.ones((5, 1)), phi)).interval(1.0)
    with pytest.raises(ValueError, match="finite rows with 1 columns"):
        phi.kernel(np.zeros((3, 2)))
