import numpy as np
import pytest
from mixtures import draw, log_likelihood, random_mixture

import sketchlearn as sl
from sketchlearn.decoders.families import GAUSSIANS
from sketchlearn.decoders.metric import View, keeps_shape, unwhiten, whitening_metric
from sketchlearn.decoders.mixtures.default import decode_gmm
from sketchlearn.decoders.mixtures.published.greedy import decode_gaussian_clompr, decode_gaussian_splitting
from sketchlearn.decoders.state import State, reduced
from sketchlearn.decoders.sweep_gmm import sweep_gmm
from sketchlearn.designs.gmm import design_gmm, parameter_count

KINDS = ["spherical", "diag", "full", "tied"]


def _sketched(k, d, separation, kind, seed, n=30_000, stretch=None, designed_for=None):
    rng = np.random.default_rng(seed)
    truth = random_mixture(k, d, separation, kind, rng)
    X, fresh = draw(*truth, n, rng), draw(*truth, 10_000, rng)
    if stretch is not None:
        X, fresh = X @ stretch.T, fresh @ stretch.T
        truth = truth[0], truth[1] @ stretch.T, stretch @ truth[2] @ stretch.T
    phi = design_gmm(X[:2000], designed_for or k, kind, seed=seed)
    return sl.sketch(X, phi, progress=False), truth, fresh


def _gap(solution, truth, fresh):
    found = solution.weights, solution.means, solution.mixture.full_covariances()
    return log_likelihood(fresh, *truth) - log_likelihood(fresh, *found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separation", [10, 100])
def test_as_good_as_maximum_likelihood(kind, separation):
    """An efficient estimator loses p / 2n nats on average; four times that, plus the test rows' noise, is allowed."""
    k, d, n = 4, 3, 30_000
    s, truth, fresh = _sketched(k, d, separation, kind, seed=3, n=n)
    solution = decode_gmm(s, k, kind, rng=np.random.default_rng(0))
    assert solution.reliable, solution.verdict
    assert _gap(solution, truth, fresh) < 4 * parameter_count(k, d, kind) / (2 * n) + 0.002


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_stretched_axes(kind):
    """Axes 30 : 1 (rotated for full covariances) cost nothing: the recipe carries the metric."""
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(4, 4)))[0] if kind == "full" else np.eye(4)
    stretch = turn * np.array([1.0, 30.0, 5.0, 0.2])
    s, truth, fresh = _sketched(4, 4, 30, kind, seed=1, stretch=stretch)
    solution = decode_gmm(s, 4, kind, rng=np.random.default_rng(0))
    assert _gap(solution, truth, fresh) < 0.02


def test_heavy_tails_are_flagged_and_projected():
    rng = np.random.default_rng(0)
    n, d = 30_000, 3
    centers = 10 * rng.normal(size=(3, d))
    X = centers[rng.integers(3, size=n)] + rng.standard_t(4, size=(n, d))
    s = sl.sketch(X, design_gmm(X[:2000], 3, "diag", seed=0), progress=False)
    solution = decode_gmm(s, 3, "diag", rng=np.random.default_rng(0))
    assert not solution.reliable
    assert "Not certified" in solution.verdict
    assert solution.richer is not None
    plain = decode_gmm(s, 3, "diag", rng=np.random.default_rng(0), project=False)
    fresh = centers[rng.integers(3, size=n)] + rng.standard_t(4, size=(n, d))

    def score(m):
        return log_likelihood(fresh, m.weights, m.means, m.full_covariances())

    # the projection is maximum likelihood within the family, the plain fit is not
    assert score(solution.mixture) > score(plain.mixture) + 0.005
    # the variances of the projection are those of the rows, tails included (Student's t with 4: variance 2)
    np.testing.assert_allclose(solution.covariances.mean(), 2.0, rtol=0.15)


def test_surplus_components_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[:2] += 50.0  # two rows are no component
    s = sl.sketch(X, design_gmm(X, 3, "full", seed=0), progress=False)
    solution = decode_gmm(s, 3, "full", rng=np.random.default_rng(0))
    light = np.flatnonzero(solution.weights * 300 < 5)
    assert set(light) <= set(solution.unreliable)
    if solution.unreliable:
        assert not solution.reliable
        assert str(solution.unreliable[0]) in solution.verdict


def test_warm_start_stays_where_it_was():
    s, _, _ = _sketched(4, 3, 30, "diag", seed=2)
    first = decode_gmm(s, 4, "diag", rng=np.random.default_rng(0))
    trace = []
    again = decode_gmm(s, 4, "diag", rng=np.random.default_rng(1), start=first.mixture, trace=trace)
    assert [t["stage"] for t in trace] == ["warm start", "noise weights", "generalised least squares", "grade"]
    np.testing.assert_allclose(again.means, first.means, atol=0.05)


def test_other_types_than_the_designed_one():
    """A sketch whitened for full covariances also serves types that the whitening would not keep."""
    truth = random_mixture(3, 3, 100, "spherical", np.random.default_rng(0))
    X = draw(*truth, 20_000, np.random.default_rng(9))
    full = sl.sketch(X, design_gmm(X[:1000] @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 2]]), 3, "full"), progress=False)
    assert full.features.whitening is not None
    for kind in KINDS:
        solution = decode_gmm(full, 3, kind, rng=np.random.default_rng(0))
        assert (
            solution.covariances.shape == {"spherical": (3,), "diag": (3, 3), "full": (3, 3, 3), "tied": (3, 3)}[kind]
        )


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_decoder_as_published(kind):
    s, truth, fresh = _sketched(2, 2, 8, kind, seed=4, n=20_000)
    solution = decode_gaussian_clompr(s, 2, kind, rng=np.random.default_rng(0))
    assert _gap(solution, truth, fresh) < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_splitting_decoder_as_published(kind):
    """Splitting often misses components, by construction; then the certificate says so."""
    s, truth, fresh = _sketched(2, 2, 3, kind, seed=4, n=20_000)
    solution = decode_gaussian_splitting(s, 2, kind, rng=np.random.default_rng(0))
    assert _gap(solution, truth, fresh) < 0.02 or not solution.reliable


def test_sweep_finds_the_number_of_components():
    s, _, _ = _sketched(4, 5, 30, "diag", seed=6, designed_for=6)
    table = sweep_gmm(s, range(2, 7), "diag", rng=np.random.default_rng(0), exhaustive=False)
    assert table.recommended == 4
    assert table.certified
    assert table.models[-1].weights.shape == (4,)
    assert table.rows[0].ratio > 2 > table.rows[-1].ratio


def test_sweep_says_when_nothing_fits():
    X = np.random.default_rng(0).uniform(size=(30_000, 2))
    s = sl.sketch(X, design_gmm(X[:2000], 3, "spherical"), progress=False)
    assert not sweep_gmm(s, [1, 2], "spherical", rng=np.random.default_rng(0)).certified
    with pytest.raises(ValueError, match="no number of components"):
        sweep_gmm(s, [], rng=np.random.default_rng(0))


def test_bad_requests_are_refused():
    s = sl.sketch(np.zeros((5, 2)), design_gmm(np.zeros((5, 2)), 1), progress=False)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="n_components"):
        decode_gmm(s, 0, rng=rng)
    with pytest.raises(ValueError, match="covariance_type"):
        decode_gmm(s, 1, "oval", rng=rng)
    with pytest.raises(ValueError, match="empty"):
        decode_gmm(sl.Sketch.empty(s.features), 1, rng=rng)
    with pytest.raises(ValueError, match="starts"):
        decode_gaussian_clompr(s, 1, rng=rng, starts=0)


# -- pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_round_trip(kind):
    rng = np.random.default_rng(0)
    matrices = random_mixture(3, 2, 1, kind, rng)[2]
    packed = GAUSSIANS[kind].from_covariances(matrices, np.ones(3))
    np.testing.assert_allclose(GAUSSIANS[kind].covariances(packed, 3, 2), matrices, rtol=1e-12)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_splitting_keeps_the_moments_and_merging_undoes_it(kind):
    rng = np.random.default_rng(0)
    weights, means, matrices = random_mixture(2, 3, 50, kind, rng)
    family = GAUSSIANS[kind]
    halves = State(family, weights, means, family.from_covariances(matrices, weights)).split(1, rng)
    merged = reduced(halves, 2)
    order = np.argsort(merged.weights), np.argsort(weights)
    np.testing.assert_allclose(merged.means[order[0]], means[order[1]], atol=1e-12)
    np.testing.assert_allclose(merged.covariances[order[0]], matrices[order[1]], atol=1e-12)


def test_whitened_sketch_is_the_sketch_of_whitened_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1, 10, 100] + [5, -300, 1000]
    s = sl.sketch(X, design_gmm(X, 2, "full"), progress=False)
    matrix = whitening_metric(s.features, "full")
    view = View.of(s, matrix)
    Y = X @ matrix.T
    np.testing.assert_allclose(view.mean, np.exp(1j * view.operator.forward(Y)).mean(0), atol=2e-5)
    assert (view.lower <= Y.min(0)).all()
    assert (view.upper >= Y.max(0)).all()


@pytest.mark.parametrize("kind", ["diag", "full", "tied"])
def test_models_travel_between_metrics(kind):
    rng = np.random.default_rng(0)
    matrix = np.diag([2.0, 0.1]) if kind == "diag" else rng.normal(size=(2, 2))
    weights, means, matrices = random_mixture(3, 2, 5, kind, rng)
    s = GAUSSIANS[kind].from_covariances(matrices, weights)
    there = unwhiten(means, s, kind, np.linalg.inv(matrix))
    back = unwhiten(*there, kind, matrix)
    np.testing.assert_allclose(there[0], means @ matrix.T)
    np.testing.assert_allclose(back[0], means)
    np.testing.assert_allclose(back[1], s)


def test_which_metrics_keep_which_shapes():
    turn, stretch, unit = np.array([[0.0, 1.0], [1.0, 0.5]]), np.diag([1.0, 2.0]), 3.0 * np.eye(2)
    assert [keeps_shape(turn, kind) for kind in KINDS] == [False, False, True, True]
    assert [keeps_shape(stretch, kind) for kind in KINDS] == [False, True, True, True]
    assert [keeps_shape(unit, kind) for kind in KINDS] == [True] * 4
