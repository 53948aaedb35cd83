"""One noise model: what is added to a sketch counts in weights, floors, certificates, profiles and comparisons."""

from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.comparison.two_sample import compared, sampling_noise
from sketchlearn.decoders import noise
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.profile import residual_profile
from sketchlearn.designs.gmm import design_gmm

CENTERS = np.array([[0.0, 0.0], [8.0, 2.0], [-3.0, 9.0]])


class Noisy(sl.Sketch):
    """A sketch whose averages have independent noise of known variance besides that of sampling."""

    added = 0.0

    @cached_property
    def variances(self):
        return super().variances + self.added


def with_noise(sketch, variance, seed, told=True):
    rng = np.random.default_rng(seed)
    unit = float(sketch.weight) * 2.0**22
    noise_ = rng.normal(size=sketch.sums.shape) * np.sqrt(np.asarray(variance) / 2) * unit
    values = {f.name: getattr(sketch, f.name) for f in fields(sl.Sketch)}
    values["sums"] = sketch.sums + np.rint(noise_).astype(np.int64)
    out = Noisy(**values)
    out.__dict__["added"] = np.asarray(variance) if told else 0.0
    return out


def rows(n, seed, d=2):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(3, size=n), :d] + rng.normal(size=(n, d))


def test_plain_sketches_have_nothing_added():
    s = sl.sketch(rows(500, 0), sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0))
    assert not noise.added_variance(s).any()
    q = sl.sketch(rows(500, 0), sl.QuadraticFeatures.draw(dim=2, size=3, radius=20.0))
    assert not noise.added_variance(q).any()


@pytest.mark.parametrize("decoder", ["clompr", "clomp", "splitting", "cl-amp", "sketch-and-shift"])
def test_published_decoders_call_nothing_reliable_that_noise_hides(decoder):
    """Their misfit is near the floor for wrong centres too: there is no certificate that would tell."""
    X = rows(5000, 1)
    s = sl.sketch(X, sl.design(X[:1000], n_components=3, size=60, seed=0))
    solution = sl.decode(with_noise(s, 0.03, 0), 3, decoder=decoder, random_state=0)
    assert solution.ratio < 3.0
    assert not solution.reliable
    assert "most of the noise in the sketch was added" in solution.verdict


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("times", [1.0, 30.0])
def test_the_right_model_is_certified_with_a_ratio_near_one(times, uneven):
    """Noise as large as that of sampling, and thirty times larger; even, or very different between frequencies."""
    n, m = 20_000, 600
    X = rows(n, 1)
    s = sl.sketch(X, sl.design(X[:1000], n_components=3, size=m, seed=0))
    share = np.random.default_rng(9).exponential(size=m) if uneven else np.ones(m)
    ratios = []
    for seed in range(4):
        noisy = with_noise(s, times / n * share, seed)
        solution = sl.decode(noisy, 3, random_state=0)
        assert solution.reliable, solution.verdict
        ratios.append(solution.ratio)
        order = np.argsort(solution.centers[:, 0])
        np.testing.assert_allclose(solution.centers[order], CENTERS[[2, 0, 1]], atol=0.2)
    # of independent noise at 600 frequencies the misfit varies by 1/sqrt(600); sampling noise is correlated, and more
    assert abs(np.mean(ratios) - 1) < 0.1 + 0.3 / times


def test_noise_that_is_not_told_is_not_explained():
    n = 20_000
    s = sl.sketch(rows(n, 1), sl.design(rows(1000, 2), n_components=3, seed=0))
    solution = sl.decode(with_noise(s, 30.0 / n, 0, told=False), 3, random_state=0)
    assert solution.ratio > 10.0  # thirty times the noise of a feature, of which the low ones have less
    assert not solution.reliable


@pytest.mark.parametrize("kind", ["spherical", "diag", "full", "tied"])
def test_mixtures_are_certified_too(kind):
    n = 20_000
    X = rows(n, 3)
    s = sl.sketch(X, design_gmm(X[:1000], 3, kind, seed=0))
    noisy = with_noise(s, 10.0 / n, 0)
    solution = sl.decode(noisy, 3, task="gmm", covariance_type=kind, random_state=0)
    assert solution.reliable, solution.verdict
    assert 0.8 < solution.ratio < 1.2
    # told that there is no such noise, the same sketch is not what a mixture of three leaves
    plain = with_noise(s, 10.0 / n, 0, told=False)
    untold = sl.decode(plain, 3, task="gmm", covariance_type=kind, random_state=0)
    assert untold.ratio > 3.0
    assert not untold.reliable


@pytest.mark.parametrize("decoder", ["clompr", "splitting"])
def test_published_decoders_know_the_noise(decoder):
    n = 20_000
    X = rows(n, 3)
    s = with_noise(sl.sketch(X, design_gmm(X[:1000], 3, "diag", seed=0)), 10.0 / n, 0)
    solution = sl.decode(s, 3, task="gmm", decoder=decoder, covariance_type="diag", random_state=0)
    assert 0.8 < solution.ratio < 1.3


def test_second_moments_know_the_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2)) @ rng.normal(size=(2, 20))
    phi = sl.QuadraticFeatures.draw(dim=20, size=300, variant="sphere", radius=30.0, seed=0)
    s = sl.sketch(X, phi)
    # a noise of five times the sampling error, put in by hand
    sampling = phi.feature_variances(s.sums, float(s.weight)) / s.effective_count
    variance = 25 * float(sampling.mean())
    unit = float(np.abs(s.sums[:300]).max() / np.abs(s.mean).max())
    sums = s.sums.copy()
    sums[:300] += np.rint(np.sqrt(variance) * rng.normal(size=300) * unit).astype(np.int64)
    noisy = replace(s, sums=sums)
    plain = sl.decode(noisy, 4, task="pca", random_state=0)
    told = sl.decode(noisy.with_noise(variance), 4, task="pca", random_state=0)
    assert told.noise_floor > 3 * plain.noise_floor
    assert told.ratio < plain.ratio / 3


def test_weights_go_down_where_noise_was_added():
    s = sl.sketch(rows(5000, 0), sl.FourierFeatures.draw(dim=2, size=200, scale=1.0, seed=0))
    variance = np.where(np.arange(200) < 100, 0.0, 20.0 / 5000)
    u = Problem.from_sketch(with_noise(s, variance, 0)).u
    assert u[:100].min() > 5 * u[100:].max()


def test_sketches_of_noise_alone_are_refused():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    s = sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=50, scale=1e-4, seed=0))
    with pytest.raises(ValueError, match="no information"):
        sl.decode(with_noise(s, 100.0 / 5000, 0), 2)
    # noise of which nothing was told looks like a signal
    Problem.from_sketch(with_noise(s, 100.0 / 5000, 0, told=False))


def test_the_profile_has_its_floor_at_the_noise():
    n = 20_000
    mixture = sl.Mixture(np.full(3, 1 / 3), CENTERS, np.ones(3))
    s = sl.sketch(rows(n, 5), sl.FourierFeatures.draw(dim=2, size=1000, scale=1.0, seed=0))
    p = residual_profile(with_noise(s, 10.0 / n, 0), mixture, "spherical")
    assert np.average(p.misfit, weights=p.size) == pytest.approx(np.average(p.floor, weights=p.size), rel=0.15)
    assert p.sampling.min() > 9.9 / n


@pytest.mark.parametrize("times", [1.0, 20.0])
def test_p_values_are_right_with_added_noise(times):
    """Kolmogorov's distance of 60 p-values from uniform is above 0.25 with probability 1e-3."""
    phi = sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=0)
    mixture = sl.Mixture(np.full(3, 1 / 3), CENTERS, np.ones(3))
    n, p = 400, []
    for seed in range(60):
        a, b = (with_noise(sl.sketch(rows(n, 1000 + 2 * seed + i), phi), times / n, 2 * seed + i) for i in range(2))
        total = with_noise(sl.sketch(rows(n, 5000 + seed), phi), 0.0, 0)
        p.append(compared(a, b, sampling_noise(total, mixture)).p_value)
    p = np.sort(p)
    assert np.abs(p - (np.arange(60) + 0.5) / 60).max() < 0.25
