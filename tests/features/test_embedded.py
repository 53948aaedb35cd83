"""Products of Fourier features: integers, the same however the rows come."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.kernels import prepare
from sketchlearn.kernels.fourier import FourierSummer


@pytest.fixture(scope="module")
def phi():
    inner = sl.FourierFeatures.draw(dim=3, size=9, scale=2.0, seed=4, center=[1.0, 0.0, -1.0])
    return sl.EmbeddedFeatures.of(inner)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(700, 3))


def test_sums_are_those_of_the_embedded_rows(phi, rows):
    weights = np.random.default_rng(1).integers(0, 4, len(rows))
    F = phi.embed(rows)
    assert np.abs(F).max() <= 1
    for w in (None, weights, weights + 0.5):
        s = sl.sketch(rows, phi, sample_weight=w)
        mean, second = phi.moments_from_sums(s.sums, s.weight)
        v = np.ones(len(rows)) if w is None else w
        np.testing.assert_allclose(mean, np.average(F, axis=0, weights=v), atol=1e-14)
        np.testing.assert_allclose(second, (F * v[:, None]).T @ F / v.sum(), atol=1e-14)
    np.testing.assert_allclose(s.mean, phi(rows).T @ v / v.sum(), atol=1e-13)


def test_features_are_those_of_the_inner_map_about_its_centre(phi, rows):
    z = phi.inner(rows - phi.inner.center)
    np.testing.assert_allclose(phi.embed(rows), np.concatenate([z.real, z.imag], 1), atol=2.0**-15)
    np.testing.assert_allclose(phi.embed(rows.astype(np.float32)), phi.embed(rows), atol=2.0**-14)


@pytest.mark.parametrize("batch", [1, 7, 250])
def test_batches_merges_and_deletions_change_no_bit(phi, rows, batch):
    whole = sl.sketch(rows, phi)
    parts = [sl.sketch(rows[i : i + batch], phi) for i in range(0, len(rows), batch)]
    assert sl.merge(parts).to_bytes() == whole.to_bytes()
    assert (whole - parts[-1]).sums.tobytes() == sl.sketch(
        rows[: -len(rows[(len(parts) - 1) * batch :])], phi
    ).sums.tobytes()
    assert sl.sketch(rows, phi, workers=2) == whole


def test_plain_loops_give_the_same_units(phi, rows):
    from reference import fourier as reference

    inner = phi.inner
    a, b = FourierSummer(inner.plan(), reference), prepare(inner.plan())
    np.testing.assert_array_equal(a.row_units(rows[:50]), b.row_units(rows[:50]))
    runs = b.sum_runs(rows[:50], np.arange(51))
    np.testing.assert_array_equal(np.stack([run.sums for run in runs]), b.row_units(rows[:50]))


def test_heavy_weights_stay_exact(phi, rows):
    some = rows[:5]
    F = np.rint(phi.embed(some) * 2**15).astype(np.int64).astype(object)
    for heavy in (2**21, 2**30):
        s = sl.sketch(some, phi, sample_weight=np.array([1, heavy, 3, heavy + 1, 0]))
        w = np.array([1, heavy, 3, heavy + 1, 0], object)
        expected = (F * w[:, None]).T @ F
        np.testing.assert_array_equal(s.sums[: phi.size], expected[np.triu_indices(phi.width)].astype(np.int64))


def test_files_recipes_and_names(phi, rows, tmp_path):
    named = phi.with_columns(["a", "b", "c"])
    s = sl.sketch(rows, named)
    s.save(tmp_path / "x.sketch", embed_frequencies=True)
    again = sl.load(tmp_path / "x.sketch")
    assert again == s
    assert sl.sketch(rows, again.features) == s
    assert sl.FeatureMap.from_recipe(named.recipe()) == named
    assert named != phi
    bad = phi.recipe()
    bad["size"] += 1
    with pytest.raises(ValueError, match="products"):
        sl.FeatureMap.from_recipe(bad)
    bad = phi.recipe()
    bad["inner"] = sl.QuadraticFeatures.draw(dim=3).recipe()
    with pytest.raises(ValueError, match="quadratic"):
        sl.FeatureMap.from_recipe(bad)
    with pytest.raises(TypeError, match="Fourier"):
        sl.EmbeddedFeatures.of(sl.QuadraticFeatures.draw(dim=3))
    with pytest.raises(ValueError, match="quantised"):
        sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=3, size=9, quantized=True))


def test_structured_maps_embed_too(rows):
    phi = sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=3, size=16, scale=2.0, structure="gr2", seed=1))
    z = phi.inner(rows)
    np.testing.assert_allclose(phi.embed(rows), np.concatenate([z.real, z.imag], 1), atol=2.0**-15)
    assert sl.sketch(rows[:300], phi) + sl.sketch(rows[300:], phi) == sl.sketch(rows, phi)


def test_impossible_sums_and_bad_rows_are_refused(phi, rows):
    s = sl.sketch(rows, phi)
    assert phi.impossible(s.sums, s.weight) is None
    sums = s.sums.copy()
    sums[0] = -1
    assert "variance" in phi.impossible(sums, s.weight)
    bad = rows.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        sl.sketch(bad, phi)
    kept = sl.sketch(bad, phi, on_invalid="skip")
    assert kept.skipped == 1
    assert kept.sums.tobytes() == sl.sketch(np.delete(rows, 3, 0), phi).sums.tobytes()
    with pytest.raises(ValueError, match="columns"):
        phi.embed(rows[:, :2])
