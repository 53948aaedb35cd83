"""Sketches of quadratic features: bit-exact with a radius, accurate without."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl

DATA = Path(__file__).parent / "data"
MAPS = [
    sl.QuadraticFeatures.draw(dim=4, size=9, variant=variant, radius=radius, seed=3)
    if variant != "exact"
    else sl.QuadraticFeatures.draw(dim=4, radius=radius)
    for variant in ("sphere", "difference", "exact")
    for radius in (None, 4.0)
]
EXACT = [phi for phi in MAPS if phi.radius is not None]
FLOAT = [phi for phi in MAPS if phi.radius is None]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 3000), seed=st.integers(0, 2**32), workers=st.integers(1, 3), which=st.integers(0, 2))
def test_with_a_radius_bytes_do_not_depend_on_how_the_rows_come(n, seed, workers, which):
    phi = EXACT[which]
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, 4)) * rng.choice([0.1, 1.0, 1e4], size=(n, 1))).astype(np.float32)
    want = sl.sketch(X, phi, workers=1).to_bytes()
    shuffled = X[rng.permutation(n)].astype(np.float64)
    assert sl.sketch(np.asfortranarray(shuffled), phi, workers=workers).to_bytes() == want
    cuts = np.sort(rng.integers(0, n + 1, size=n // 100))
    assert sl.sketch(iter(np.split(X, cuts)), phi, workers=workers).to_bytes() == want
    parts = [sl.sketch(part, phi) for part in np.array_split(X, 3) if len(part)]
    assert sl.merge(parts).to_bytes() == want


@pytest.mark.parametrize("phi", EXACT)
def test_with_a_radius_weights_are_repetition_and_subtraction_is_exact(phi):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(60, 4)), rng.integers(0, 4, 60)
    assert sl.sketch(X, phi, sample_weight=w) == sl.sketch(np.repeat(X, w, axis=0), phi)
    half = sl.sketch(X, phi, sample_weight=np.full(60, 0.5))
    assert replace(half + half, squared_weights=-1) == sl.sketch(X, phi)
    a, b = sl.sketch(X[:20], phi), sl.sketch(X[20:], phi)
    np.testing.assert_array_equal((a + b - b).sums, a.sums)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=2, max_size=5), st.integers(0, 2), st.floats(-1e3, 1e3))
def test_without_a_radius_merging_is_accurate(sizes, which, offset):
    """Exact: to rounding of the spread; random directions: to float32 of it, whatever the offset."""
    phi = FLOAT[which]
    X = np.random.default_rng(sum(sizes)).normal(size=(sum(sizes), 4)) + offset
    whole = sl.sketch(X, phi)
    parts = [sl.sketch(part, phi) for part in np.split(X, np.cumsum(sizes)[:-1])]
    merged = sl.merge(parts)
    assert merged.count == whole.count
    a, b = (phi.centred_mean_from_sums(s.sums, s.weight) for s in (whole, merged))
    tolerance = 1e-12 if phi.is_exact else 3e-6
    np.testing.assert_allclose(a, b, atol=tolerance * np.abs(a).max() + 1e-15 * offset**2 * (not phi.is_exact))
    rest = merged - parts[-1]
    fewer = sl.merge(parts[:-1])
    a, b = (phi.centred_mean_from_sums(s.sums, s.weight) for s in (rest, fewer))
    np.testing.assert_allclose(a, b, atol=100 * tolerance * (np.abs(a).max() + 1.0))


@pytest.mark.parametrize("phi", FLOAT)
def test_without_a_radius_weights_travel_and_nothing_is_nothing(phi):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(60, 4)), rng.integers(0, 4, 60)
    a, b = sl.sketch(X, phi, sample_weight=w), sl.sketch(np.repeat(X, w, axis=0), phi)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-5, atol=1e-6)
    third = sl.sketch(X, phi, sample_weight=np.full(60, 1 / 3))
    assert third.count == pytest.approx(20, rel=1e-4)
    assert sl.Sketch.from_bytes(third.to_bytes()) == third
    np.testing.assert_allclose((third + third).mean, sl.sketch(X, phi).mean, rtol=1e-5, atol=1e-6)
    nothing = a - a
    assert nothing.count == 0
    assert not nothing.sums.any()
    assert a + sl.Sketch.empty(phi) == a
    with pytest.raises(ValueError, match="no mean"):
        _ = nothing.standard_errors


def test_a_thousand_merges_lose_nothing():
    """Pairs keep what a plain float64 sum of growing size would drop."""
    phi = sl.QuadraticFeatures.draw(dim=1)
    day = sl.sketch(np.array([[0.1], [0.3]]), phi)
    start = sl.sketch(np.array([[1e7]]), phi)
    total = start
    for _ in range(1000):
        total = total + day
    back = total - start
    np.testing.assert_allclose(back.mean, day.mean, rtol=1e-12)


def test_impossible_sums_are_refused():
    phi = MAPS[4]  # exact, float64
    a, b = sl.sketch(np.ones((5, 4)), phi), sl.sketch(np.array([[1.0, 1.0, 1.0, 1.0]]), phi)
    assert (a - b).count == 4
    big = sl.sketch(np.array([[-3.0] * 4, [3.0] * 4] + [[0.0] * 4] * 3), phi)
    other = sl.sketch(np.array([[3.0] * 4] * 3), phi)
    with pytest.raises(ValueError, match="never added"):
        big - other
    data = bytearray(a.to_bytes())
    assert phi.impossible(np.full(phi.sums_shape, np.nan), 3) is not None
    with pytest.raises(sl.SketchFileError):
        sl.Sketch.from_bytes(bytes(data[:-1]))


def _golden(radius):
    phi = sl.QuadraticFeatures.draw(dim=3, size=5, variant="complex", radius=radius, seed=5, center=[1.0, -2.0, 0.5])
    X = np.arange(-12, 12).reshape(8, 3) / 4
    return sl.sketch(X, phi, sample_weight=np.arange(8) / 2)


@pytest.mark.parametrize(("name", "radius"), [("quadratic", None), ("quadratic-radius", 4.0)])
def test_golden_files_stay_readable(name, radius):
    loaded, fresh = sl.load(DATA / f"version1-{name}.sketch"), _golden(radius)
    assert loaded.features == fresh.features
    assert loaded.features.fingerprint == fresh.features.fingerprint
    np.testing.assert_allclose(loaded.mean, fresh.mean, rtol=1e-6)
    if radius is not None:
        assert loaded == replace(fresh, squared_weights=-1)  # files of version 1 don't have them
        assert loaded.to_bytes() == (DATA / f"version1-{name}.sketch").read_bytes()
