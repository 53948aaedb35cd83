"""The certificate: what it accepts, what it refuses and why, what it mends, and what it says could have been seen."""

import numpy as np
import pytest
from clusters import gaussian_clusters, mean_cost

import sketchlearn as sl
from sketchlearn.decoders import Code
from sketchlearn.decoders.certificate import Certifier
from sketchlearn.decoders.certificate.examine import examine
from sketchlearn.decoders.certificate.scores import SPLIT, least_limit, split_test
from sketchlearn.decoders.certificate.tangent import Tangent
from sketchlearn.decoders.certificate.whitened import Whitened
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State


def _sketch(X, k, seed=0, size=None):
    return sl.sketch(X, sl.design(X[:1000], n_components=k, seed=seed, size=size), progress=False)


def _certifier(sketch):
    return Certifier(Problem.from_sketch(sketch), np.random.default_rng(0))


def _true(problem, centers, width, shares=None):
    k = len(centers)
    weights = np.full(k, 1 / k) if shares is None else shares
    return State.shared(weights, problem.normalised(centers), (width / problem.scale) ** 2)


@pytest.mark.parametrize(("k", "d"), [(4, 2), (8, 10), (4, 40)])
def test_the_truth_passes_and_is_within_its_errors(k, d):
    X, centers, width = gaussian_clusters(k, d, 100, seed=1)
    certifier = _certifier(_sketch(X, k))
    found = certifier.certify(_true(certifier.problem, centers, width), mend=False)
    assert found.passed
    off = (found.state.means - certifier.problem.normalised(centers)) / found.examination.means_std
    assert np.abs(off).max() < 5.0
    assert found.examination.smallest < 0.01
    assert 0.3 < found.examination.closest.max() < 5.0


def _in_one_column(k, apart, rows):
    X = np.random.default_rng(k).normal(size=(rows, 1)) + apart * (np.arange(rows) % k)[:, None]
    return sl.CompressiveKMeans(k, random_state=0).fit(X)


@pytest.mark.parametrize(("k", "apart"), [(1, 0), (2, 4), (2, 6)])
@pytest.mark.parametrize("rows", [600, 6000])
def test_clusters_of_one_column_are_certified(k, apart, rows):
    """Of so few rows none is four widths from the clusters at the ends: no place was far enough from them."""
    found = _in_one_column(k, apart, rows)
    assert found.reliable_, found.verdict_


def test_more_rows_are_asked_for_where_a_cluster_could_hide():
    found = _in_one_column(3, 5, 600)
    assert found.solution_.code == Code.UNDETERMINED
    assert "take more rows" in found.verdict_
    assert _in_one_column(3, 5, 6000).reliable_


@pytest.mark.parametrize("d", [2, 10])
def test_a_missing_cluster_is_named_and_put_back(d):
    X, centers, width = gaussian_clusters(5, d, 100, seed=3)
    certifier = _certifier(_sketch(X, 5))
    state = _true(certifier.problem, centers[:4], width)
    alone = certifier.certify(state, mend=False).examination
    assert not alone.explained
    assert alone["missing"].score > least_limit(d)
    # with five asked for, one of them on top of another: mended
    twice = np.vstack([centers[:4], centers[3] + 0.01 * width])
    mended = certifier.certify(_true(certifier.problem, twice, width))
    assert mended.passed
    distances = np.sqrt(((certifier.problem.points(mended.state.means)[:, None] - centers) ** 2).sum(2))
    assert (distances.min(0) < width).all()


@pytest.mark.slow
def test_two_clusters_taken_as_one_are_noticed_at_the_stated_distance():
    rng = np.random.default_rng(0)
    noticed = []
    for seed in range(6):
        centers = rng.normal(size=(3, 10)) * 12
        X = centers[rng.integers(3, size=20_000)] + rng.normal(size=(20_000, 10))
        certifier = _certifier(_sketch(X, 3, seed))
        stated = certifier.certify(_true(certifier.problem, centers, 1.0), mend=False).examination.closest[0]
        step = rng.normal(size=10)
        step *= 1.3 * stated / np.linalg.norm(step)
        labels = rng.integers(3, size=20_000)
        X = centers[labels] + rng.normal(size=(20_000, 10))
        X[labels == 0] += np.where(rng.uniform(size=(labels == 0).sum()) < 0.5, 0.5, -0.5)[:, None] * step
        certifier = _certifier(sl.sketch(X, _sketch(X, 3, seed).features, progress=False))
        noticed.append(not certifier.certify(_true(certifier.problem, centers, 1.0), mend=False).examination.explained)
    assert sum(noticed) >= 5


def test_a_rare_cluster_costs_the_certificate_or_is_found():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100_000, 3))
    X[:500] += [8.0, 0.0, 0.0]
    s = _sketch(X[rng.permutation(len(X))], 2)
    one = sl.decode(s, 1, random_state=0)
    assert one.code is Code.GOOD  # the mean is the best centre
    assert "is missing near" in one.verdict
    two = sl.decode(s, 2, random_state=0)
    assert two.reliable
    assert sorted(two.mixture.weights)[0] == pytest.approx(0.005, rel=0.2)


def test_a_map_that_is_too_coarse_is_refused():
    X, _, _ = gaussian_clusters(4, 3, 100, seed=2)
    reach = 1e5 * np.abs(X).max()
    phi = sl.design(bounds=(np.full(3, -reach), np.full(3, reach)), n_components=4, seed=0)
    solution = sl.decode(sl.sketch(X, phi, progress=False), 4, random_state=0)
    assert not solution.reliable


def test_strays_are_set_aside():
    X, centers, _ = gaussian_clusters(4, 5, 100, seed=4)
    X[0] = X.mean(0) + 4 * (X.max(0) - X.mean(0))
    solution = sl.decode(_sketch(X[1:], 4) + sl.sketch(X[:1], _sketch(X[1:], 4).features), 4, random_state=0)
    assert solution.reliable
    assert mean_cost(X, solution.centers) < 1.1 * mean_cost(X, centers)


def test_intervals_cover_the_truth():
    inside = []
    for seed in range(12):
        X, centers, width = gaussian_clusters(5, 4, 100, seed=seed)
        solution = sl.decode(_sketch(X, 5, seed), 5, random_state=0)
        if solution.centers_std is None:
            continue
        own = ((solution.centers[:, None] - centers) ** 2).sum(2).argmin(1)
        apart = np.sqrt(((centers[:, None] - centers) ** 2).sum(2)) + 1e9 * np.eye(5)
        z = (solution.centers - centers[own]) / solution.centers_std
        inside += (np.abs(z[(apart.min(1) > 8 * width)[own]]) < 1.96).ravel().tolist()
    assert len(inside) > 100
    assert 0.9 < np.mean(inside) < 0.99


def test_the_verdict_says_what_could_have_been_seen():
    X, _, _ = gaussian_clusters(3, 2, 100, seed=5)
    solution = sl.decode(_sketch(X, 3), 3, random_state=0)
    assert solution.reliable
    assert "would have been noticed" in solution.verdict
    assert 0 < solution.smallest < 0.05
    assert solution.closest > 0
    assert solution.centers_std.shape == solution.centers.shape
    assert solution.weights_std.shape == solution.weights.shape


def test_too_many_parameters_have_no_certificate():
    X, _, _ = gaussian_clusters(3, 2, 100, seed=5)
    certifier = _certifier(_sketch(X, 3))
    assert certifier.can(3)
    assert not certifier.can(10_000)
    assert not certifier.can(80)  # more numbers than the sketch has


@pytest.mark.parametrize("factor", [pytest.param(0.0, marks=pytest.mark.slow), 1e-3])
def test_noise_in_wide_bounds_is_not_taken_for_a_cluster(factor):
    """Released sketches: noise in every average, a factor common to all (their count is noisy), public bounds."""
    rng = np.random.default_rng(0)
    means, weights, n = 4.0 * rng.normal(size=(3, 5)), np.array([0.5, 0.3, 0.2]), 1e9
    w = rng.normal(size=(80, 5))
    box = np.full(5, -80.0), np.full(5, 80.0)
    truth = State.shared(weights, means, 1.0)
    place = np.array([[30.0, -30.0, 10.0, 0.0, 20.0]])

    def examined(z):
        noisy = z + 1e-4 * (rng.normal(size=80) + 1j * rng.normal(size=80))
        problem = Whitened(w, noisy * (1 + factor * rng.normal()), n, truth, 1e-8)
        problem.settle()
        return examine(problem, box, rng)

    z = Whitened(w, np.zeros(80, complex), n, truth).atoms(truth) @ weights
    found = [examined(z) for _ in range(5)]
    assert all(each["missing"].passed for each in found)  # once in a thousand times each
    share = 2 * found[0].smallest
    atom = np.exp(-0.5 * (w**2).sum(1) + 1j * (w @ place[0]))
    assert not any(examined((1 - share) * z + share * atom)["missing"].passed for _ in range(2))


@pytest.mark.parametrize("added", [300.0, 30_000.0])
def test_the_split_score_under_added_noise_has_mean_0_and_deviation_1(added):
    """Monte Carlo of residuals with exactly the noise of the metric, most of which was added.

    The score is a weighted sum of squares over its standard deviation: 60 draws of 3 components leave 0.08 in its mean
    and 0.1 in its deviation, and traces by 16 random signs about 0.1 in both.  (Own widths: the trace is not tested.)
    """
    rng = np.random.default_rng(0)
    k, d, m, n = 3, 8, 600, 100_000
    w = rng.normal(size=(m, d)) * np.exp(rng.uniform(-2.0, 2.0, m))[:, None]
    means = rng.normal(size=(k, d)) * 4
    state = State(SPHERICAL, np.array([0.2, 0.3, 0.5]), means, np.full(k, 0.5))
    z = np.exp(-0.25 * (w**2).sum(1)) * (np.exp(1j * w @ means.T) @ state.weights)
    tangent = Tangent(Whitened(w, z, n, state, added / n))
    scores = []
    for _ in range(60):
        tangent.left = tangent.off(rng.standard_normal((2 * m, 1)) / np.sqrt(n))[:, 0]
        scores.append(split_test(tangent)[0])
    assert np.mean(scores) == pytest.approx(0.0, abs=0.4)
    assert np.std(scores) == pytest.approx(1.0, abs=0.4)
    assert np.max(scores) < SPLIT
