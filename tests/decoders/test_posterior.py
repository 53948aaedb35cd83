"""Centres that added noise hides: what is pooled, when, and that it costs less."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.kmeans import default, posterior
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.models.mixture import Mixture

K, D = 6, 6


def noisy(seed, share):
    """Round clusters of width 1, and a sketch with noise of a known share of its power."""
    rng = np.random.default_rng([11, seed])
    centers = 5.0 * rng.normal(size=(K, D))
    X = centers[rng.integers(K, size=4000)] + rng.normal(size=(4000, D))
    s = sl.sketch(X, sl.FourierFeatures.draw(dim=D, size=4 * K * D, scale=6.0, seed=seed), progress=False)
    variance = share * float(np.mean(np.abs(s.mean) ** 2))
    error = rng.normal(size=s.sums.shape) * np.sqrt(variance / 2) * s.weight * 2.0**22
    return X, centers, replace(s, sums=s.sums + np.rint(error).astype(np.int64)).with_noise(variance)


def cost(X, centers):
    return float(((X[:, None] - centers) ** 2).sum(2).min(1).mean())


def test_every_fit_of_a_pool_weighs_the_same():
    one = State(SPHERICAL, np.array([1.0, 3.0]), np.zeros((2, 3)), np.ones(2))
    two = State(SPHERICAL, np.array([0.2]), np.ones((1, 3)), np.full(1, 2.0))
    pool = posterior.pooled([one, two])
    assert np.allclose(pool.weights, [0.125, 0.375, 0.5])
    assert pool.means.shape == (3, 3)
    assert list(pool.covariances) == [1.0, 1.0, 2.0]


def test_a_run_that_explains_less_is_left_out(monkeypatch):
    _, centers, s = noisy(0, 0.1)
    problem = Problem.from_sketch(s)
    fit = Mixture(np.full(K, 1.0 / K), problem.normalised(centers), np.full(K, problem.scale**-2))
    stray = State(SPHERICAL, np.full(K, 1.0 / K), np.zeros((K, D)), np.ones(K), 1.0)
    monkeypatch.setattr(posterior, "best_of_runs", lambda passing, runs: (stray, runs))
    pool = posterior.believed(problem, fit, np.random.default_rng(0))
    assert pool.n_components == K
    assert np.abs(pool.means - fit.means).max() < 1.0  # (messages stay where they begin)


@pytest.mark.parametrize(("decoder", "seed"), [("auto", 1), ("cl-amp", 1), ("cl-amp", 2), ("cl-amp", 3)])
def test_centres_that_noise_hides_are_still_near(decoder, seed):
    """A fifth of the power is noise, which costs half as much again; one centre for all costs twenty times more."""
    X, centers, s = noisy(seed, 0.2)
    assert cost(X, sl.decode(s, K, decoder=decoder, random_state=seed).centers) < 2.5 * cost(X, centers)


def test_the_width_of_the_rows_is_known_in_noise():
    """Averages whose modulus exceeds 1 must not make it zero."""
    for seed in range(3):
        X, _, s = noisy(seed, 0.3)
        assert 0.6 < Problem.from_sketch(s).scale / X.std(0).mean() < 1.6


def test_only_what_added_noise_leaves_undetermined_is_pooled():
    def outcome(determined):
        return SimpleNamespace(certified=SimpleNamespace(examination=SimpleNamespace(determined=determined)))

    X, _, s = noisy(0, 0.1)
    assert default.hidden(Problem.from_sketch(s), outcome(False))
    assert not default.hidden(Problem.from_sketch(s), outcome(True))
    assert not default.hidden(Problem.from_sketch(s), SimpleNamespace(certified=None))
    clean = Problem.from_sketch(sl.sketch(X, s.features, progress=False))
    assert not default.hidden(clean, outcome(False))
