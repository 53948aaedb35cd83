"""Far rows that are few and carry much of the cost of k-means."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.kmeans.partition import k_medians
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.steps.far import Low, far_components

pytestmark = pytest.mark.filterwarnings("ignore::sketchlearn.DataWarning")  # far values are what this is about


def _rows(seed, far=10, at=150.0, n=20_000, d=4):
    """Three clusters, and a few rows that are far in the first column."""
    rng = np.random.default_rng([seed, 23])
    X = (4.0 * rng.normal(size=(3, d)))[rng.integers(3, size=n)] + rng.normal(size=(n, d))
    X[rng.permutation(n)[:far], 0] += at * rng.uniform(0.9, 1.1, far)
    return X


def _stages(model):
    return {stage["stage"]: stage for stage in model.solution_.trace}


def _cost(X, centers):
    return ((X[:, None] - centers) ** 2).sum(2).min(1).mean()


@pytest.mark.parametrize("seed", range(3))
def test_far_rows_get_a_centre_and_the_cost_is_right(seed):
    from sklearn.cluster import KMeans

    X = _rows(seed)
    model = sl.CompressiveKMeans(4, random_state=seed).fit(X)
    best = KMeans(4, n_init=5, random_state=0).fit(X)
    cost = _cost(X, model.cluster_centers_)
    assert cost < 1.01 * best.inertia_ / len(X)
    # ten rows are known to a few tenths of a row, and they make most of the cost of three centres
    assert model.solution_.inertia == pytest.approx(cost, rel=0.05)
    stage = _stages(model)["far components"]
    assert "standard deviations from the mean" in stage["why"]
    assert "farthest in column 0" in stage["found"]
    assert "too many components" not in model.solution_.verdict


def test_one_row_is_seen_among_twenty_thousand():
    X = _rows(7, far=1, at=200.0)
    sketch = sl.sketch(X, sl.design(X, n_components=4))
    problem = Problem.from_sketch(sketch)
    low = Low.of(sketch, problem)
    assert low is not None
    bulk = sl.decode(sketch, 4, random_state=0).mixture
    keep = bulk.means[:, 0] < 100.0
    bulk = sl.Mixture(bulk.weights[keep] / bulk.weights[keep].sum(), bulk.means[keep], bulk.full_covariances()[keep])
    normalised = bulk.scaled(1.0 / problem.scale, -problem.center / problem.scale)
    found = far_components(low, normalised, normalised.means)
    assert found is not None
    assert found.column == 0
    assert found.rows * len(X) == pytest.approx(1.0, abs=0.5)
    place = found.mixture.means[normalised.n_components :, 0] * problem.scale + problem.center[0]
    assert place.max() == pytest.approx(X[:, 0].max(), rel=0.05)


def test_wider_copies_of_the_bulk_are_not_counted_as_far():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)) * np.sqrt(2.0 / rng.chisquare(2.0, (20_000, 1)))
    sketch = sl.sketch(X, sl.design(X, n_components=4, seed=0))
    problem = Problem.from_sketch(sketch)
    bulk = sl.Mixture(np.ones(1), np.zeros((1, 3)), np.array([np.quantile(problem.normalised(X) ** 2, 0.68)]))
    found = far_components(Low.of(sketch, problem), bulk, bulk.means)
    assert 20.0 < found.rows * len(X) < 0.75 * found.beyond.weights.sum() * len(X)


def test_either_half_of_the_frequencies_finds_far_components():
    """Ten rows of 20 000 at one place: either half finds them, each with an error of its own."""
    X = _rows(1)
    sketch = sl.sketch(X, sl.design(X, n_components=4, seed=1))
    problem = Problem.from_sketch(sketch)
    model = sl.decode(sketch, 4, random_state=0)
    bulk = problem.inverse(model.mixture)
    one = sl.Mixture(np.ones(1), bulk.mean[None], np.eye(4)[None])
    found = far_components(Low.of(sketch, problem), one, bulk.means)
    halves = found.halves(np.random.default_rng(0))
    rows = [len(X) * half.weights[half.means[:, 0] > 10.0].sum() for half in halves]
    assert rows[0] != rows[1]
    np.testing.assert_allclose(rows, 10.0, rtol=0.2)


def test_k_medians_is_not_led_by_far_rows():
    """A power law that two columns share: the best centres of k-means are far out, those of k-medians are not."""
    rng = np.random.default_rng(0)
    tail = 4.0 * rng.pareto(2.3, (40_000, 1))
    X = np.hstack([tail + rng.normal(size=(40_000, 2)), rng.uniform(-3, 3, (40_000, 2))])
    X = (X - X.mean(0)) / X.std(0)
    found = sl.CompressiveKMedians(3, random_state=0).fit(X)
    weights = np.full(len(X), 1.0 / len(X))
    starts = [X[rng.permutation(len(X))[:3]] for _ in range(10)]
    best = min(_distance(X, k_medians(X, weights, start, 30)) for start in starts)
    assert _distance(X, found.cluster_centers_) <= 1.02 * best


def _distance(X, centers):
    return np.sqrt(((X[:, None] - centers) ** 2).sum(2)).min(1).mean()


def test_standardized_columns_and_medians():
    X = _rows(1, far=20) * [1.0, 1000.0, 0.01, 1.0]
    model = sl.CompressiveKMeans(4, standardize=True, random_state=0).fit(X)
    assert _stages(model)["far components"]["found"].count("far component") == 1
    assert model.cluster_centers_[:, 0].max() > 100.0
    medians = sl.CompressiveKMedians(4, standardize=True, random_state=0).fit(X)
    assert "far components" in _stages(medians)


def test_maps_of_ordinary_rows_have_no_low_frequencies():
    ordinary = sl.design(_rows(0, far=0), n_components=4)
    assert ordinary.octaves == 0
    assert "octaves" not in ordinary.parameters()
    assert ordinary.n_ordinary == ordinary.size
    model = sl.CompressiveKMeans(4, features=ordinary, random_state=0).fit(_rows(0, far=0))
    assert "far components" not in _stages(model)


def test_maps_for_far_rows_keep_their_size_and_say_why():
    X = _rows(0)
    pilot_has_none = X[X[:, 0] < 50.0][:2000]
    assert sl.design(pilot_has_none, n_components=4).octaves == 0
    phi = sl.design(X, n_components=4)  # all rows are looked at, though the pilot may miss them
    assert phi.octaves > 0
    assert phi.size == 160
    assert "octaves" in phi.reason
    assert phi == sl.CompressiveKMeans(4, random_state=0).fit(X).sketch_.features
    low = phi.frequencies[phi.n_ordinary :]
    assert len(low) == 2 * 4 * phi.octaves
    assert ((low != 0).sum(1) == 1).sum() == 4 * phi.octaves
    assert phi.norms[phi.n_ordinary :].max() < phi.norms[: phi.n_ordinary].min()
    assert phi.norms.min() * 150.0 < 1.0
    # errors and codes are no tail
    X[5, 0] = 1e6
    assert sl.design(X, n_components=4).octaves == 0


def test_a_map_without_low_frequencies_says_so():
    X = _rows(0)
    ordinary = sl.design(_rows(0, far=0), n_components=4)
    stage = _stages(sl.CompressiveKMeans(4, features=ordinary, random_state=0).fit(X))["far components"]
    assert "no low frequencies" in stage["found"]


def test_a_map_that_does_not_reach_as_far_says_so():
    X = _rows(0)
    phi = sl.design(X, n_components=4)
    X[5, 0] = 1e6
    model = sl.CompressiveKMeans(4, features=phi, random_state=0).fit(X)
    assert "can't tell where" in _stages(model)["far components"]["found"]


def test_recipes_with_octaves_are_redrawn_bit_for_bit(tmp_path):
    phi = sl.design(_rows(0), n_components=4, seed=3)
    sketch = sl.sketch(_rows(0), phi)
    sketch.save(tmp_path / "far.sketch")
    loaded = sl.load(tmp_path / "far.sketch")
    assert loaded == sketch
    assert loaded.features.octaves == phi.octaves
    np.testing.assert_array_equal(loaded.features.frequencies, phi.frequencies)
    raw = phi.standardized(np.zeros(4), np.full(4, 2.0))
    np.testing.assert_allclose(raw.frequencies, phi.frequencies / 2.0, rtol=1e-6)
    assert phi.redrawn(quantized=True).octaves == 0


@pytest.mark.parametrize("octaves", [-1, 61, 5, 1.5])
def test_impossible_octaves_are_refused(octaves):
    with pytest.raises(ValueError, match="octaves"):
        sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, radial="multiscale", octaves=octaves)
    with pytest.raises(ValueError, match="octaves"):
        sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, radial="gaussian", octaves=2)
