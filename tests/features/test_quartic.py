"""Quartic features: moments, merging, deletion, files, recipes."""

import json

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features.quartic import pair_count, pair_directions


def rows(n=800, seed=0):
    return np.random.default_rng(seed).laplace(size=(n, 4)) @ np.diag([1.0, 5.0, 0.2, 1.0]) + 3.0


@pytest.fixture(scope="module")
def phi():
    return sl.design(rows(), task="ica", seed=5)


def test_moments_are_those_of_clipped_rows(phi):
    X = rows(500, seed=1)
    X[3] *= 100.0
    s = sl.sketch(X, phi)
    Y = phi.whitened(X)
    assert np.linalg.norm(Y, axis=1).max() == pytest.approx(phi.radius)
    p = Y @ (phi.directions / phi.lengths[:, None]).T
    found = phi.moments_from_sums(s.sums, s.weight)
    np.testing.assert_allclose(found.mean, Y.mean(0), atol=1e-6)
    for power, values in enumerate(found[1:], start=1):
        np.testing.assert_allclose(values, (p**power).mean(0), atol=2e-6 * phi.radius**power)
    np.testing.assert_allclose(s.mean, phi(X).mean(0), atol=2e-6 * phi.radius**4)


def test_sums_are_exact(phi, tmp_path):
    X = rows(seed=2)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    whole = sl.sketch(X, phi, sample_weight=weights)
    for batch in (1, 7, 250):
        parts = [
            sl.sketch(X[i : i + batch], phi, sample_weight=weights[i : i + batch]) for i in range(0, len(X), batch)
        ]
        assert sl.merge(parts).to_bytes() == whole.to_bytes()
    assert sl.sketch(np.repeat(X, weights, axis=0), phi) == whole  # (only the origin knows of weights)
    assert sl.sketch(X[::-1], phi, workers=2) == sl.sketch(X, phi, workers=1)
    rest = sl.sketch(X, phi) - sl.sketch(X[:300], phi)
    np.testing.assert_array_equal(rest.sums, sl.sketch(X[300:], phi).sums)
    whole.save(tmp_path / "a.sketch")
    assert sl.load(tmp_path / "a.sketch") == whole
    bad = X.copy()
    bad[5, 1], bad[6, 0] = np.nan, np.inf
    skipped = sl.sketch(bad, phi, on_invalid="skip")
    assert skipped.skipped == 2
    np.testing.assert_array_equal(skipped.sums, sl.sketch(np.delete(X, [5, 6], 0), phi).sums)
    with pytest.raises(ValueError, match="row 5"):
        sl.sketch(bad, phi)
    by_label = sl.sketch(X, phi, group_by=np.arange(len(X)) % 3)
    assert by_label.union() == sl.sketch(X, phi)


def test_recipes_are_all_there_is(phi):
    again = sl.FeatureMap.from_recipe(json.loads(phi.recipe_json()))
    assert again == phi
    assert again.fingerprint == phi.fingerprint
    np.testing.assert_array_equal(phi.directions[: pair_count(4)], pair_directions(4))
    assert (
        sl.QuarticFeatures.draw(dim=3, size=40, seed=1, pairs=False).fingerprint == "0b361a5fd374bc83f28867ce682842be"
    )
    for change, word in [({"radius": -1.0}, "radius"), ({"pairs": 3}, "pairs"), ({"odd": 1}, "fields")]:
        with pytest.raises(ValueError, match=word):
            sl.FeatureMap.from_recipe(phi.recipe() | change)
    for wrong, word in [
        ({"dim": 0}, "dim"),
        ({"size": 0}, "size"),
        ({"seed": -1}, "seed"),
        ({"center": [1.0]}, "center"),
        ({"whitening": [[1.0]]}, "whitening"),
        ({"whitening": np.ones((2, 2))}, "invertible"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.QuarticFeatures.draw(**{"dim": 2, **wrong})


def test_impossible_sums_are_noticed(phi):
    s = sl.sketch(rows(), phi)
    assert phi.impossible(s.sums, 800) is None
    for change in (np.r_[-s.sums[:1] - 10**6, s.sums[1:]], s.sums * 10**4):
        assert phi.impossible(change, 800)
    larger = s.sums.copy()
    larger[2 * phi.size] = larger[0] + 10**6
    assert phi.impossible(larger, 800)


def test_the_pilot_is_robust_and_weights_are_repetition():
    X = rows(1000, seed=3)
    w = np.random.default_rng(1).integers(1, 3, 1000)
    from sketchlearn.designs.ica import design_ica

    weighted, repeated = design_ica(X, weights=w.astype(float))[0], design_ica(np.repeat(X, w, axis=0))[0]
    np.testing.assert_allclose(weighted.whitening, repeated.whitening, rtol=1e-4, atol=1e-6)
    far = X.copy()
    far[:5] = 1e8
    np.testing.assert_allclose(np.abs(design_ica(far)[0].whitened(X).std(0)), 1.0, atol=0.25)
