"""Histograms of single columns, and synthetic rows that take their values."""

import numpy as np
import pytest
from scipy.stats import spearmanr, wasserstein_distance

import sketchlearn as sl
from sketchlearn.comparison.histograms import reshaped, shares
from sketchlearn.features import HistogramFeatures
from sketchlearn.privacy import private_size, privatize
from sketchlearn.privacy.sensitivity import row_bounds

LOW, HIGH = np.array([0.0, 0.0, -20.0]), np.array([10.0, 100.0, 20.0])


def _table(n=50_000, seed=0):
    """A column with spikes, one of whole numbers with a hard end, and a smooth one; all go together."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 3))
    spikes = np.where(z[:, 0] > 0.3, 7.0, np.clip(5 + z[:, 0], 0, 10))
    whole = np.clip(np.rint(20 + 15 * z[:, 1]), 0, 100)
    return np.column_stack([spikes, whole, 3 * z[:, 2]])


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_counts_are_exact_and_travel(engine, tmp_path):
    X = _table(3000)
    phi = HistogramFeatures.draw(LOW, HIGH, cells=20, integers=[1])
    s = sl.sketch(X, phi, engine=engine, workers=2)
    assert s == sl.sketch(iter([X[:7], X[7:]]), phi)
    assert s.to_bytes() == (sl.sketch(X[:100], phi) + sl.sketch(X[100:], phi)).to_bytes()
    for j, part in enumerate(np.split(s.mean, phi.starts[1:-1])):
        found = np.histogram(X[:, j], phi.edges(j))[0] / 3000
        np.testing.assert_allclose(part, found, atol=2e-3)
        assert part.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(phi(X).mean(0), s.mean, atol=1e-12)
    s.save(tmp_path / "x.sketch")
    assert sl.load(tmp_path / "x.sketch") == s
    weights = np.arange(1, 3001) % 3
    assert (sl.sketch(X, phi, sample_weight=weights).sums == sl.sketch(np.repeat(X, weights, 0), phi).sums).all()
    half = sl.sketch(X, phi, sample_weight=np.full(3000, 0.5))
    np.testing.assert_allclose(half.mean, s.mean, atol=1e-9)


def test_cells_of_whole_numbers_hold_as_many_each():
    phi = HistogramFeatures.draw([0, -3.5], [9, 96.2], cells=25, integers=[0, 1])
    assert phi.cells == (10, 25)
    assert phi.edges(0).tolist() == [v - 0.5 for v in range(11)]
    assert (phi.lower[1], phi.upper[1]) == (-3.5, 96.5)
    for bad in ({"cells": 0}, {"integers": [2]}):
        with pytest.raises(ValueError, match=r"cells|no column"):
            HistogramFeatures.draw([0, 0], [1, 1], **bad)
    with pytest.raises(ValueError, match="no whole number"):
        HistogramFeatures.draw([0.1], [0.9], integers=[0])
    with pytest.raises(ValueError, match="cells of a histogram recipe"):
        sl.FeatureMap.from_recipe({**phi.recipe(), "cells": [10, "x"]})


def test_no_row_moves_more_than_the_bounds():
    phi = HistogramFeatures.draw(LOW, HIGH, cells=8)
    bounds = row_bounds(phi)
    rows = np.vstack([_table(300), [[1e300] * 3], [[-1e300] * 3]])
    units = np.array([sl.sketch(row[None], phi).sums for row in rows]).astype(object)
    for reach, moved in ((bounds.added, units), (bounds.replaced, units[1:] - units[:-1])):
        assert max(np.abs(moved).sum(1)) == reach.l1  # reached, and not exceeded
        assert max((moved**2).sum(1)) == reach.l2_squared


def test_noisy_shares_stay_near_and_move_values_little():
    rng = np.random.default_rng(0)
    phi = HistogramFeatures.draw(LOW, HIGH, cells=100, integers=[1])
    X = _table()
    private = privatize(sl.sketch(X, phi), 0.3, 1e-7, public_map=True)
    for share in shares(private):
        assert share.min() >= 0
        assert share.sum() == pytest.approx(1.0)
    made = reshaped(rng.normal(size=(20_000, 3)), private, rng)
    off = [wasserstein_distance(X[:, j], made[:, j]) / X[:, j].std() for j in range(3)]
    assert np.mean(off) < 0.025  # 0.012 over seeds


def test_private_rows_look_like_the_columns_and_keep_their_correlations():
    """epsilon 1 for both: 0.01 of a standard deviation."""
    X = _table()
    cells, _ = private_size(1, 3, 0.3, 3e-7, rows=50_000, task="columns")
    columns = HistogramFeatures.draw(LOW, HIGH, cells=cells, integers=[1])
    joint = sl.design(bounds=(np.zeros(3), np.ones(3)), n_components=10, seed=0).standardized(LOW, HIGH - LOW)
    a = privatize(sl.sketch(X, joint), 0.7, 7e-7, public_map=True)
    b = privatize(sl.sketch(X, columns), 0.3, 3e-7, public_map=True)
    made = sl.synthesize(a, 20_000, columns=b, random_state=0)
    assert np.mean([wasserstein_distance(X[:, j], made[:, j]) / X[:, j].std() for j in range(3)]) < 0.025
    assert (made[:, 1] == np.rint(made[:, 1])).all()
    assert (made >= LOW).all()
    assert (made <= HIGH).all()
    assert np.mean(np.abs(made[:, 0] - 7.0) < 0.1) > 0.3  # the spike
    np.testing.assert_allclose(spearmanr(made).statistic, spearmanr(X).statistic, atol=0.06)


def test_other_columns_are_refused():
    phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
    s = sl.sketch(np.random.default_rng(0).normal(size=(500, 2)), phi)
    single = sl.sketch([[0.5]], HistogramFeatures.draw([0.0], [1.0]))
    with pytest.raises(ValueError, match="2 columns, that of single columns 1"):
        sl.synthesize(s, 10, columns=single)
    with pytest.raises(TypeError, match="sketch of histograms"):
        sl.synthesize(s, 10, columns=s)
    named = sl.sketch([[0.5, 0.1]], HistogramFeatures.draw([0.0, 0], [1.0, 1]).with_columns(["a", "b"]))
    with pytest.raises(ValueError, match="those of the histograms a, b"):
        sl.synthesize(sl.sketch([[0.5, 0.1]] * 9, phi.with_columns(["x", "y"])), 10, columns=named)
    with pytest.raises(ValueError, match="pilot sample"):
        sl.design(dim=2, task="columns")
    rows = np.column_stack([np.arange(5.0), np.ones(5)])
    phi = sl.design(rows, task="columns", size=5)
    assert phi.upper.tolist() == [4.0, 1.5]


def test_draws_of_a_mixture_come_in_random_order():
    mixture = sl.Mixture(np.full(2, 0.5), np.array([[0.0], [100.0]]), np.ones(2))
    rows, owner = mixture.sample(1000, 0)
    assert ((rows[:, 0] > 50) == owner).all()
    assert abs(owner[:500].mean() - 0.5) < 0.12  # five standard errors
