"""Decoders of the literature, each on problems where it should succeed, and where it must say that it failed."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from clusters import gaussian_clusters, mean_cost

import sketchlearn as sl
from sketchlearn.decoders import Code
from sketchlearn.decoders.kmeans import default
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import Found
from sketchlearn.decoders.steps.messages import Passing

DECODERS = ["cl-amp", "sketch-and-shift", "sliding-frank-wolfe", "adcg", "thresholding", "particle-flow"]


def _apart(k, d, seed, distance=12.0, n=4000):
    """Unit clusters at least so far from each other, and their centres."""
    rng = np.random.default_rng([seed, k, d])
    centers = np.zeros((0, d))
    while len(centers) < k:
        new = rng.uniform(-4, 4, d) * distance
        if not len(centers) or np.linalg.norm(centers - new, axis=1).min() > distance:
            centers = np.vstack([centers, new])
    return centers[rng.integers(k, size=n)] + rng.normal(size=(n, d)), centers


@pytest.fixture(scope="module")
def easy():
    X, centers = _apart(4, 3, 0)
    return X, centers, sl.sketch(X, sl.design(X[::4], n_components=4, size=240, seed=0))


@pytest.mark.parametrize("decoder", DECODERS)
def test_finds_clusters_that_are_apart(easy, decoder):
    X, centers, s = easy
    solution = sl.decode(s, 4, decoder=decoder, random_state=0)
    assert mean_cost(X, solution.centers) < 1.02 * mean_cost(X, centers)
    assert solution.reliable
    assert solution.weights.sum() == pytest.approx(1.0)
    assert solution.inertia == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("decoder", DECODERS)
def test_plain_distances_and_repeatable(easy, decoder):
    _, _, s = easy
    a, b = (sl.decode(s, 4, task="kmedians", decoder=decoder, random_state=1) for _ in range(2))
    assert a.task == "kmedians"
    assert (a.centers == b.centers).all()


@pytest.mark.parametrize("decoder", DECODERS)
def test_too_few_components_end_with_a_verdict(easy, decoder):
    _, _, s = easy
    solution = sl.decode(s, 2, decoder=decoder, random_state=0)
    assert solution.code is Code.MISFIT
    assert "times the noise floor" in solution.verdict
    assert np.isfinite(solution.centers).all()


@pytest.mark.parametrize("decoder", DECODERS[1:])
def test_points_of_no_width(decoder):
    centers = np.array([[0.0, 0.0], [5.0, 1.0], [-2.0, 6.0]])
    phi = sl.FourierFeatures.draw(dim=2, size=60, scale=3.0, seed=1)
    s = sl.sketch(np.repeat(centers, [500, 300, 200], axis=0), phi)
    solution = sl.decode(s, 3, decoder=decoder, width=0.0, random_state=0)
    assert np.sort(solution.weights) == pytest.approx([0.2, 0.3, 0.5], abs=0.01)
    distances = np.linalg.norm(solution.centers[:, None] - centers, axis=2)
    assert distances.min(0).max() < 0.05


@pytest.mark.parametrize("decoder", DECODERS[1:])
def test_bad_options_say_what_is_wrong(easy, decoder):
    _, _, s = easy
    with pytest.raises(ValueError, match="width"):
        sl.decode(s, 2, decoder=decoder, width=-1.0)
    with pytest.raises(ValueError, match="criterion"):
        sl.decode(s, 2, decoder=decoder, criterion="modes")


def test_options_of_message_passing(easy):
    _, _, s = easy
    for bad in ({"restarts": 0}, {"rounds": 0}, {"damping": 0.0}, {"damping": 1.5}, {"prior": "wide"}):
        with pytest.raises(ValueError, match="must be"):
            sl.decode(s, 2, decoder="cl-amp", **bad)
    solution = sl.decode(s, 4, decoder="cl-amp", restarts=1, polish=False, trace=True, random_state=0)
    assert solution.trace[0]["stage"] == "CL-AMP (1 run)"
    assert solution.iterations > 20


@pytest.mark.parametrize("form", [{}, {"prior": "flat", "restarts": 1, "polish": False}])
def test_message_passing_in_the_published_setting(form):
    """k = d = 10, separation 2.5, adapted radii at the recommended scale, twice as many features as parameters."""
    rng = np.random.default_rng(0)
    spread = 2.5 * 10**0.1
    centers = rng.normal(size=(10, 10)) * spread
    X = centers[rng.integers(10, size=10_000)] + rng.normal(size=(10_000, 10))
    s = sl.sketch(X, sl.FourierFeatures.draw(dim=10, size=200, scale=2.077 * spread, seed=0))
    solution = sl.decode(s, 10, decoder="cl-amp", random_state=0, **form)
    assert mean_cost(X, solution.centers) < 1.05 * mean_cost(X, centers)
    assert form or solution.reliable


def test_messages_end_when_a_descent_explains_the_sketch(easy):
    _, _, s = easy
    solution = sl.decode(s, 4, decoder="cl-amp", random_state=0)
    alone = sl.decode(s, 4, decoder="cl-amp", random_state=0, restarts=1, polish=False)
    assert solution.reliable
    assert solution.iterations < alone.iterations


def test_rounds_with_a_rising_misfit_are_damped_more(easy, monkeypatch):
    _, _, s = easy
    passing = Passing(Problem.from_sketch(s), 4, np.random.default_rng(0), damping=0.4)
    state = passing.somewhere()
    passing.run(state, 1)
    falling, rising = count(), count()
    monkeypatch.setattr(passing, "_misfit", lambda _: (0.5 ** next(falling), 0.0))
    before = state.damping
    passing.run(state, 3)
    assert state.damping == before
    monkeypatch.setattr(passing, "_misfit", lambda _: (2.0 ** next(rising), 0.0))
    passing.run(state, 2)
    assert 0.1 <= state.damping < 0.6 * before


def test_the_default_takes_over_what_messages_find(easy):
    X, centers, s = easy
    problem = Problem.from_sketch(s)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 3))
    state = State.shared(np.full(4, 0.25), means, 0.01)
    run = default.Decoding(problem, 4, rng, None, None)
    run.found = Found(replace(state, value=problem.misfit(state)), 1e-9, 0.1, 1)
    default.message_passing(run)
    assert run.found.explained
    assert mean_cost(X, problem.points(run.found.state.means)) < 1.02 * mean_cost(X, centers)
    run.found = better = replace(run.found, state=replace(run.found.state, value=0.0))
    assert default.message_passing(run) is None
    assert run.found is better


def test_message_passing_with_structured_sketches():
    X, centers, _ = gaussian_clusters(4, 16, 100, n=8000, seed=3)
    phi = sl.design(X[::8], n_components=4, size=256, structure="hadamard", seed=0)
    solution = sl.decode(sl.sketch(X, phi), 4, decoder="cl-amp", random_state=0)
    assert mean_cost(X, solution.centers) < 1.05 * mean_cost(X, centers)


def test_expected_misfit_has_the_gradient_it_says(easy):
    _, _, s = easy
    passing = Passing(Problem.from_sketch(s), 4, np.random.default_rng(0))
    state = passing.somewhere()
    passing._iterate(state, 5)
    passing.cosine *= np.float32(0.9)  # any values will do
    lost = 1.0 - passing.cosine**2 - passing.sine**2
    weights, widths = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.02, 0.05, 0.1, 0.2])
    _, by_width, _, by_weight, _ = passing._expected(weights, widths, lost)

    def slope(move, h=1e-3):
        up, down = (passing._expected(*move(sign * h), lost)[0] for sign in (1, -1))
        return (up - down) / (2 * h)

    for l in range(4):
        e = np.eye(4)[l]
        assert by_weight[l] == pytest.approx(slope(lambda h, e=e: (weights + h * e, widths)), rel=0.02, abs=1e-4)
        assert by_width[l] == pytest.approx(slope(lambda h, e=e: (weights, widths + h * e)), rel=0.02, abs=1e-4)


def test_message_passing_never_overflows_where_nothing_can_be_found():
    rng = np.random.default_rng(0)
    with np.errstate(all="raise", under="ignore"):
        for factor in (0.25, 4.0):
            centers = rng.normal(size=(12, 3)) * 4
            X = centers[rng.integers(12, size=2000)] + rng.normal(size=(2000, 3))
            s = sl.sketch(X, sl.FourierFeatures.draw(dim=3, size=36, scale=factor * 4.0, seed=0))
            solution = sl.decode(s, 12, decoder="cl-amp", random_state=0, restarts=1)
            assert np.isfinite(solution.centers).all()
            assert solution.verdict


@pytest.mark.parametrize("k", [1, 3, 5])
def test_sliding_frank_wolfe_counts_clusters(k):
    X, _ = _apart(k, 2, 1)
    s = sl.sketch(X, sl.design(X[::4], n_components=8, size=160, seed=0))
    solution = sl.decode(s, 12, decoder="sliding-frank-wolfe", own_count=True, random_state=0)
    assert len(solution.centers) == k
    assert f"{k} clusters counted" in solution.decoder


def test_known_noise_is_not_taken_for_structure():
    X, centers = _apart(4, 3, 2)
    s = sl.sketch(X, sl.design(X[::4], n_components=4, size=240, seed=0))
    variance = 0.01 * float(np.mean(np.abs(s.mean) ** 2))
    noise = np.random.default_rng(0).normal(size=s.sums.shape) * np.sqrt(variance / 2) * s.weight * 2.0**22
    noisy = replace(s, sums=s.sums + np.rint(noise).astype(np.int64))
    told = noisy.with_noise(variance)
    assert sl.decode(noisy, 4, random_state=0).ratio > 10
    for decoder in ("auto", "cl-amp"):
        solution = sl.decode(told, 4, decoder=decoder, random_state=0)
        assert solution.ratio < 1.5
        assert mean_cost(X, solution.centers) < 1.1 * mean_cost(X, centers)
