import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.decoders.families import FULL, sample_stable, stable_log_density
from sketchlearn.decoders.mixtures.stable import decode_stable
from sketchlearn.designs.stable import design_stable


@pytest.mark.parametrize("scatter_type", ["diag", "full"])
def test_recovers_stability_location_and_scatter(scatter_type):
    """30 000 rows per component: the standard error of alpha is below 0.01, five of them are allowed."""
    rng = np.random.default_rng(0)
    alphas, locations = [1.2, 1.8], np.array([[0.0, 0.0], [12.0, 5.0]])
    scatters = np.array([[1.0, 2.0], [3.0, 0.5]])
    X = np.concatenate(
        [sample_stable(30_000, a, c, s, rng) for a, c, s in zip(alphas, locations, scatters, strict=True)]
    )
    pilot = X[rng.permutation(len(X))[:2000]]
    s = sl.sketch(X, design_stable(pilot, 2, scatter_type, seed=0), progress=False)
    solution = decode_stable(s, 2, scatter_type, rng=np.random.default_rng(0))
    order = np.argsort(solution.alphas)
    assert solution.reliable, solution.verdict
    np.testing.assert_allclose(solution.alphas[order], alphas, atol=0.05)
    np.testing.assert_allclose(solution.locations[order], locations, atol=0.1)
    found = solution.scatters[order]
    if scatter_type == "full":
        found = np.diagonal(found, axis1=1, axis2=2)
    np.testing.assert_allclose(found, scatters, rtol=0.1)


def test_other_shapes_are_flagged():
    X = np.random.default_rng(0).uniform(size=(50_000, 1))
    s = sl.sketch(X, design_stable(X[:2000], 1, seed=0), progress=False)
    solution = decode_stable(s, 1, rng=np.random.default_rng(0))
    assert not solution.reliable
    assert "Not certified" in solution.verdict


def test_bad_requests_are_refused():
    phi = design_stable(np.zeros((5, 2)), 1)
    with pytest.raises(ValueError, match="n_components"):
        decode_stable(sl.Sketch.empty(phi), 0, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="empty"):
        decode_stable(sl.Sketch.empty(phi), 1, rng=np.random.default_rng(0))


X = np.array([[0.0], [0.3], [2.0], [20.0], [1e4]])


def test_density_of_alpha_one_is_cauchy():
    expected = stats.cauchy(loc=0.1, scale=np.sqrt(2.0)).logpdf(X[:, 0])
    np.testing.assert_allclose(stable_log_density(X, 1.0, [0.1], [4.0]), expected, atol=5e-3)


def test_density_of_alpha_two_is_gaussian():
    x = X[:3] * [[1.0, 2.0]]
    expected = stats.multivariate_normal([0.0, 1.0], [[2.0, 0.3], [0.3, 1.0]]).logpdf(x)
    found = stable_log_density(x, 2.0, [0.0, 1.0], [[2.0, 0.3], [0.3, 1.0]])
    np.testing.assert_allclose(found, expected, atol=2e-2)


@pytest.mark.parametrize("alpha", [0.8, 1.5, 1.9])
def test_density_integrates_to_one(alpha):
    t = np.linspace(-14, 14, 4001)
    x = np.sinh(t)  # reaches a million either way
    density = np.exp(stable_log_density(x[:, None], alpha, [0.0], [1.0]))
    # the tails beyond hold less than a thousandth for these alpha
    assert np.trapezoid(density * np.cosh(t), t) == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("size", [2, 4, 6, 8])
def test_more_parameters_than_numbers_of_the_sketch_are_not_determined(size):
    """Twenty parameters agree with any sixteen numbers."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) + 8])
    X = np.concatenate([X, rng.normal(size=(2000, 2)) * [1, 3] + [0, 12]])
    found = sl.decode(sl.sketch(X, sl.design(X, n_components=2, task="stable", size=size)), 3, task="stable")
    assert not found.reliable
    found = sl.decode(sl.sketch(X, sl.design(X, n_components=2, size=size)), 3, task="family", family=FULL)
    assert not found.reliable
