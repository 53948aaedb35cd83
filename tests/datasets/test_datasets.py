"""Generators draw what they say they draw."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn import datasets

FUNCTIONS = {
    "clusters": lambda seed: datasets.clusters(300, 4, 3, seed=seed),
    "oblong_clusters": lambda seed: datasets.oblong_clusters(300, 4, 3, seed=seed),
    "nested_clusters": lambda seed: datasets.nested_clusters(300, 2, 2, 3, seed=seed),
    "rare_clusters": lambda seed: datasets.rare_clusters(300, 4, 3, seed=seed),
    "heavy_tails": lambda seed: datasets.heavy_tails(300, 4, 3, seed=seed),
    "far_groups": lambda seed: datasets.far_groups(300, 4, 3, seed=seed),
    "gaussian_mixture": lambda seed: datasets.gaussian_mixture(300, 4, 3, seed=seed),
    "stable_mixture": lambda seed: datasets.stable_mixture(300, 4, 3, seed=seed),
    "subspaces": lambda seed: datasets.subspaces(300, 2, 1, 3, seed=seed),
    "sources": lambda seed: datasets.sources(300, 3, seed=seed),
    "low_rank": lambda seed: datasets.low_rank(300, 4, 2, seed=seed),
    "bags": lambda seed: datasets.bags(10, 30, 3, seed=seed),
}


def test_reached_through_the_package():
    assert sl.datasets is datasets


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_seed_decides(name):
    one, again, other = (FUNCTIONS[name](seed).rows for seed in (0, 0, 1))
    assert one.shape[0] == 300
    assert np.isfinite(one).all()
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_generators_of_the_caller_are_used():
    rng = np.random.default_rng(5)
    first = datasets.clusters(50, 3, 2, seed=rng)
    second = datasets.clusters(50, 3, 2, seed=rng)
    assert not np.array_equal(first.rows, second.rows)


def test_clusters_have_unit_width_and_the_given_separation():
    data = datasets.clusters(40_000, 200, 5, separation=2.5, seed=3)
    noise = data.rows - data.centers[data.labels]
    assert abs(noise.var() - 1) < 5 * np.sqrt(2 / noise.size)
    expected = datasets.separated_variance(200, 5)
    assert abs(data.centers.var() / expected - 1) < 5 * np.sqrt(2 / data.centers.size)


def test_own_widths_of_clusters():
    data = datasets.clusters(30_000, 2, 4, widths=[1.0, 3.0], seed=0)
    apart = data.rows - data.centers[data.labels]
    for cluster, width in enumerate((1.0, 3.0)):
        mine = apart[data.labels == cluster]
        assert abs(mine.std() / width - 1) < 5 / np.sqrt(2 * mine.size)


@pytest.mark.parametrize("weights", ["balanced", "unbalanced", "dirichlet", [1.0, 2.0, 5.0]])
def test_shares_of_clusters(weights):
    data = datasets.clusters(20_000, 3, 2, weights=weights, seed=1)
    assert abs(data.weights.sum() - 1) < 1e-12
    counts = np.bincount(data.labels, minlength=3) / 20_000
    assert (np.abs(counts - data.weights) < 5 * np.sqrt(data.weights / 20_000)).all()


def test_axes_of_oblong_clusters_stay_within_the_ratio():
    data = datasets.oblong_clusters(60_000, 3, 4, ratio=9.0, seed=0)
    for cluster in range(3):
        mine = data.rows[data.labels == cluster]
        axes = np.sqrt(np.linalg.eigvalsh(np.cov(mine.T)))
        assert axes.max() / axes.min() < 9.0 * 1.05
        assert axes.max() / axes.min() > 1.2


def test_nested_clusters_are_close_within_a_group():
    data = datasets.nested_clusters(100, 4, 3, 6, variance=1e4, inner_variance=4.0, seed=0)
    group = np.arange(12) // 3
    apart = np.linalg.norm(data.centers[:, None] - data.centers[None], axis=2)
    same = group[:, None] == group[None]
    assert apart[same].max() < apart[~same].min()


def test_a_rare_cluster_is_always_there():
    for seed in range(20):
        data = datasets.rare_clusters(500, 4, 2, share=1e-4, seed=seed)
        mine = data.rows[data.labels == 3]
        assert len(mine) >= 1
        assert np.abs(mine - data.centers[3]).max() < 6


def test_heavy_tails_are_heavier_than_normal_ones():
    apart = datasets.heavy_tails(20_000, 2, 2, degrees=3.0, seed=0)
    noise = apart.rows - apart.centers[apart.labels]
    # a t law with three degrees exceeds 10 with probability .0021, a normal one never does
    assert 20 < (np.abs(noise) > 10).sum() < 160


def test_the_far_group_carries_much_of_the_cost():
    data = datasets.far_groups(50_000, 5, 3, share=1e-3, distance=200.0, seed=0)
    squares = ((data.rows - data.rows.mean(0)) ** 2).sum(1)
    assert squares[data.labels == 4].sum() > 0.3 * squares.sum()


@pytest.mark.parametrize("kind", ["spherical", "diag", "full"])
def test_rows_follow_their_mixture(kind):
    data = datasets.gaussian_mixture(40_000, 3, 3, covariance_type=kind, seed=2)
    for l in range(3):
        mine = data.rows[data.labels == l]
        expected = data.mixture.full_covariances()[l]
        assert np.abs(mine.mean(0) - data.mixture.means[l]).max() < 5 * np.sqrt(expected.max() / len(mine))
        error = np.abs(np.cov(mine.T) - expected).max() / np.linalg.eigvalsh(expected).max()
        assert error < 6 * np.sqrt(2 / len(mine))


def test_stable_rows_have_the_characteristic_function_of_their_law():
    data = datasets.stable_mixture(100_000, 2, 2, alphas=(0.8, 1.7), seed=0)
    for w in np.random.default_rng(0).normal(size=(5, 2)):
        forms = 0.5 * (data.scatters * w**2).sum(1)
        expected = data.weights @ (np.exp(1j * data.locations @ w) * np.exp(-(forms ** (data.alphas / 2))))
        assert abs(np.exp(1j * data.rows @ w).mean() - expected) < 5 / np.sqrt(100_000)


def test_subspaces_without_noise_hold_their_rows():
    data = datasets.subspaces(200, 3, 2, 6, noise=0.0, seed=0)
    for row, label in zip(data.rows, data.labels, strict=True):
        basis = data.bases[label]
        assert np.allclose(basis @ (basis.T @ row), row)


def test_sources_are_independent_with_unit_variance():
    data = datasets.sources(50_000, 4, kinds=("uniform", "laplace", "binary", "t"), seed=0)
    assert np.abs(np.cov(data.sources.T) - np.eye(4)).max() < 0.06
    values = np.linalg.svd(data.mixing, compute_uv=False)
    assert values.min() >= 0.5
    assert values.max() <= 2.0


def test_low_rank_rows_have_their_spectrum():
    data = datasets.low_rank(100_000, 5, 3, decay=1.0, noise=0.1, seed=0)
    inside = (data.rows @ data.basis).var(0)
    assert (np.abs(inside / data.variances - 1) < 5 * np.sqrt(2 / 100_000)).all()


def test_edges_of_a_planted_partition():
    graph = datasets.planted_partition(4000, 4, inside=8.0, outside=3.0, seed=0)
    A = graph.adjacency
    assert (A != A.T).nnz == 0
    assert A.diagonal().sum() == 0
    one, other = A.nonzero()
    inside = (graph.labels[one] == graph.labels[other]).sum() / 4000
    assert abs(inside - 8.0) < 0.3
    assert abs(len(one) / 4000 - inside - 3.0) < 0.2


def test_bags_of_one_class_use_components_alike():
    data = datasets.bags(40, 500, 3, seed=0)
    means = np.array([data.rows[data.bags == b].mean(0) for b in range(40)])
    middle = np.array([means[data.labels == c].mean(0) for c in range(2)])
    nearest = ((means[:, None] - middle) ** 2).sum(2).argmin(1)
    assert (nearest == data.labels).mean() > 0.9


def test_sessions_of_a_speaker_are_alike():
    world = datasets.speakers(10, 4, 3, speaker_spread=1.0, session_spread=0.05, seed=0)
    averages = np.array([[world.session(s, 4000, seed=10 * i + s).mean(0) for s in range(10)] for i in range(2)])
    assert np.array_equal(((averages[0][:, None] - averages[1]) ** 2).sum(2).argmin(1), np.arange(10))
    rows, who = world.background(5, seed=0)
    assert rows.shape == (50, 3)
    assert np.array_equal(np.bincount(who), np.full(10, 5))


@pytest.mark.parametrize("name", datasets.tables.TABLES)
def test_tables_come_in_one_shape(name):
    table = datasets.load_table(name, standardize=True)
    assert table.rows.shape == (len(table.labels), len(table.columns))
    assert set(table.labels.tolist()) == set(range(len(table.classes)))
    deviations = table.rows.std(0)
    assert (np.isclose(deviations, 1) | np.isclose(deviations, 0)).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: datasets.clusters(0, 3, 2), "n_rows=0"),
        (lambda: datasets.clusters(10, 3, 2, weights="even"), "weights='even'"),
        (lambda: datasets.clusters(10, 3, 2, weights=[1.0, -1.0, 1.0]), "3 non-negative"),
        (lambda: datasets.clusters(10, 3, 2, variance=-1.0), "variance=-1.0"),
        (lambda: datasets.oblong_clusters(10, 3, 2, ratio=0.5), "ratio=0.5"),
        (lambda: datasets.rare_clusters(10, 2, 2, rare=2), "leave nothing"),
        (lambda: datasets.gaussian_mixture(10, 2, 2, covariance_type="tied"), "covariance_type='tied'"),
        (lambda: datasets.stable_mixture(10, 2, 2, alphas=[1.0]), "alphas must be 2"),
        (lambda: datasets.subspaces(10, 2, 2, 2), "more than 2 columns"),
        (lambda: datasets.sources(10, 2, kinds=("square",)), "choose from"),
        (lambda: datasets.low_rank(10, 2, 3), "rank of 3"),
        (lambda: datasets.load_table("mnist"), "name='mnist'"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
