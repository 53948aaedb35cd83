from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import quadratic as reference

import sketchlearn as sl
from sketchlearn.kernels import _columns, _quadratic_compiled, _quadratic_plain, _quadratic_vector
from sketchlearn.kernels import pairs as _pairs
from sketchlearn.kernels.directions import squared_norms

TIERS = [_quadratic_vector, _quadratic_plain, reference]


def _exact(pairs):
    return [Fraction(float(h)) + Fraction(float(low)) for h, low in pairs.T]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e100, 1e100, allow_subnormal=False), min_size=4, max_size=4))
def test_pairs_have_twice_the_digits(numbers):
    a, b, c, d = (np.array([x]) for x in numbers)
    s = _pairs.add(_pairs.pair(a, b), _pairs.pair(c, d))
    want = sum(map(Fraction, numbers))
    assert abs(_exact(s)[0] - want) <= Fraction(2.0**-100) * sum(abs(Fraction(x)) for x in numbers)


def test_products_and_quotients_of_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20)), rng.normal(size=(2, 20)) * 1e-17
    a, b = _pairs.pair(x[0], y[0]), _pairs.pair(x[1], y[1])
    for got, u, v in zip(_exact(_pairs.product(a, b)), _exact(a), _exact(b), strict=True):
        assert abs(got - u * v) <= abs(u * v) * Fraction(2.0**-98)
    for got, u in zip(_exact(_pairs.quotient(a, 3.0)), _exact(a), strict=True):
        assert abs(got - u / 3) <= abs(u) * Fraction(2.0**-98)


@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 5, 33), (40, 17, 100), (7, 64, 16)])
def test_all_tiers_give_the_same_integers(shape):
    n, d, m = shape
    rng = np.random.default_rng(n)
    directions = rng.integers(-127, 128, size=(m, d)).astype(np.int8)
    bounds = squared_norms(directions)
    weights = rng.integers(1, 2**40, size=n)
    raw = rng.normal(size=(n, d)) * rng.choice([0.1, 10.0], size=(n, 1))
    results = []
    for tier in TIERS:
        staging = tier if tier is reference else _quadratic_compiled
        padded = -(-m // tier.LANES) * tier.LANES
        scales = np.ones(padded, np.float32)
        scales[:m] = 1.0 / bounds
        rows = np.zeros((-(-n // tier.TILE_ROWS) * tier.TILE_ROWS, d), np.float32)
        moment, box = np.zeros(d, np.int64), (np.full(d, np.inf), np.full(d, -np.inf))
        none = np.empty(0, np.int64)
        assert staging.stage_clipped(raw, 0, n, none, np.zeros(d), 3.0, -1, rows, *box, moment, np.empty(d)) == -1
        plain, heavy = np.zeros(padded, np.int64), np.zeros(padded, np.int64)
        tier.add_rounded_squares(rows, n, tier.pack(directions), scales, plain)
        tier.add_weighted_squares(rows, n, weights, tier.pack(directions), scales, heavy, np.empty_like(heavy))
        floats = np.zeros(padded)
        tier.add_squares(rows, n, tier.pack(directions), scales, floats)
        results.append((plain[:m], heavy[:m], moment))
        exact = ((rows[:n].astype(float) @ directions.T.astype(float)) ** 2).sum(0)
        np.testing.assert_allclose(floats[:m], exact, rtol=1e-5)
        np.testing.assert_allclose(plain[:m] * 2.0**-22, exact / bounds, rtol=1e-4, atol=1e-6 * n)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_staging_of_all_tiers_agrees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(37, 23))
    shift, w = rng.normal(size=23), rng.integers(1, 5, 37).astype(float)
    triangle, p, s = rng.normal(size=276), rng.normal(size=23), rng.normal(size=23)
    out = []
    for staging in (_quadratic_compiled, reference):
        for weights in (np.empty(0), w):
            buffer, linear = np.zeros((40, 23)), np.zeros(23)
            lower, upper = np.full(23, np.inf), np.full(23, -np.inf)
            staging.stage(X, 2, 37, weights, shift, 0.5, buffer, lower, upper, linear)
            out.append((buffer, linear, lower, upper))
        high, low = np.empty(276), np.empty(276)
        staging.fold_products(triangle, p, s, 12.0, high, low)
        out.append((high, low + 0.0))
    for a, b in zip(out[:3], out[3:], strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-30)
    buffer, linear = np.zeros((40, 23)), np.zeros(23)
    lower, upper = np.full(23, np.inf), np.full(23, -np.inf)
    _columns.stage_rows(X, 2, 37, shift, 0.5, buffer, lower, upper, linear)
    for x, y in zip(out[0], (buffer, linear, lower, upper), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    linear, lower, upper = np.zeros(23), np.full(23, np.inf), np.full(23, -np.inf)
    _columns.scan_rows(X, 2, 37, lower, upper, linear)
    np.testing.assert_allclose(linear, X[2:].sum(0), rtol=1e-12)
    np.testing.assert_array_equal([lower, upper], [X[2:].min(0), X[2:].max(0)])


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1.0, 1e30, 1e100])
@pytest.mark.parametrize("variant", ["sphere", "exact"])
def test_data_of_any_scale(scale, variant):
    X = np.random.default_rng(0).normal(size=(300, 4)) * scale
    X[200] *= 1e12  # far beyond the provisional scale
    phi = sl.QuadraticFeatures.draw(dim=4, size=None if variant == "exact" else 6, variant=variant)
    np.testing.assert_allclose(sl.sketch(X, phi).mean, phi(X).mean(0), rtol=1e-5)


@pytest.mark.parametrize("variant", ["sphere", "exact"])
@pytest.mark.parametrize("radius", [None, 5.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_invalid_rows_are_named_or_skipped(variant, radius, dtype):
    X = np.random.default_rng(0).normal(size=(3000, 4)).astype(dtype)
    X[1234, 2], X[5, 0], X[2999, 3] = np.nan, np.inf, -np.inf
    phi = sl.QuadraticFeatures.draw(dim=4, size=None if variant == "exact" else 6, variant=variant, radius=radius)
    with pytest.raises(ValueError, match="row 5 "):
        sl.sketch(X, phi)
    s = sl.sketch(X, phi, on_invalid="skip")
    assert (s.count, s.skipped) == (2997, 3)
    clean = sl.sketch(X[np.isfinite(X).all(1)], phi)
    # blocks of rows are added in float32: the error is relative to the sum of absolute values
    np.testing.assert_allclose(s.sums, clean.sums, rtol=1e-6, atol=1e-6 * np.abs(X[np.isfinite(X)]).sum())
    np.testing.assert_array_equal(s.lower, clean.lower)
    weights = np.ones(3000)
    weights[[5, 1234, 2999]] = 0.0
    assert sl.sketch(X, phi, sample_weight=weights).count == 2997


@pytest.mark.parametrize("size", [1e30, 1e60, 1e120])
def test_centres_beyond_single_precision(size):
    """A map centred where float32 has no numbers left: the pass ends, with the products about that centre."""
    X = size * (1 + 1e-3 * np.random.default_rng(0).normal(size=(50, 3)))
    s = sl.sketch(X, sl.QuadraticFeatures.draw(3, None, variant="exact", center=X.mean(0)))
    about = (X - X.mean(0)).T @ (X - X.mean(0)) / 50
    np.testing.assert_allclose(np.sort(np.abs(s.mean[:6])), np.sort(np.abs(about[np.tril_indices(3)])), rtol=1e-9)
