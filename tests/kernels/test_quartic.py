"""Powers of projections: one integer for all tiers, batches, orders and weights."""

import numpy as np
import pytest
from reference import quartic as reference

import sketchlearn as sl
from sketchlearn.kernels import _quartic_compiled, _quartic_plain, _quartic_vector, tiers

TIERS = [_quartic_vector, _quartic_plain, reference]


@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 5, 33), (40, 17, 100)])
def test_all_tiers_give_the_same_integers(shape):
    n, d, m = shape
    rng = np.random.default_rng(n)
    directions = rng.integers(-127, 128, size=(m, d)).astype(np.int8)
    directions[:, 0] |= 1
    weights = rng.integers(1, 2**30, size=n)
    raw = rng.normal(size=(n, d))
    raw /= np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1.0)
    results = []
    for tier in TIERS:
        padded = -(-m // tier.LANES) * tier.LANES
        scales = np.ones(padded, np.float32)
        scales[:m] = 1.0 / np.linalg.norm(directions.astype(float), axis=1)
        rows = np.zeros((-(-n // tier.TILE_ROWS) * tier.TILE_ROWS, d), np.float32)
        rows[:n] = raw
        plain, heavy = np.zeros(3 * padded, np.int64), np.zeros(3 * padded, np.int64)
        tier.add_powers(rows, n, tier.pack(directions), scales, plain)
        tier.add_weighted_powers(rows, n, weights, tier.pack(directions), scales, heavy, np.empty_like(heavy))
        both = [s.reshape(-1, 3, tier.LANES).transpose(1, 0, 2).reshape(3, -1)[:, :m] for s in (plain, heavy)]
        results.append(np.stack(both))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    p = raw @ (directions / np.linalg.norm(directions.astype(float), axis=1, keepdims=True)).T
    for i in range(3):
        np.testing.assert_allclose(results[0][0, i], (p ** (i + 2)).sum(0) * 2.0**22, atol=n * 8.0)


def test_whitening_is_the_same_compiled():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X, center, matrix = rng.normal(size=(50, 7)).astype(dtype), rng.normal(size=7), rng.normal(size=(7, 7))
        ours, theirs = np.empty((50, 7)), np.empty((50, 7))
        _quartic_compiled.whiten(X, 3, 50, center, matrix, ours)
        reference.whiten(X, 3, 50, center, matrix, theirs)
        np.testing.assert_array_equal(ours[:47], theirs[:47])
        np.testing.assert_allclose(ours[:47], (X[3:] - center) @ matrix.T, atol=1e-12)


@pytest.mark.parametrize("tier", tiers.TIERS)
def test_sketches_of_all_tiers_are_equal(tier, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.laplace(size=(300, 4)) * [1.0, 10.0, 0.1, 1.0]
    X[7] *= 1e6
    phi = sl.QuarticFeatures.draw(dim=4, size=50, seed=3, center=X.mean(0), whitening=np.diag(1.0 / X[100:].std(0)))
    weights = rng.integers(0, 5, 300)
    expected = sl.sketch(X, phi, sample_weight=weights)
    monkeypatch.setattr(tiers, "_active", tier)
    fresh = sl.QuarticFeatures.from_recipe(phi.recipe())
    assert sl.sketch(X, fresh, sample_weight=weights).to_bytes() == expected.to_bytes()
