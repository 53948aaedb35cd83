import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import check_range

PHI = sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=0)


def _rows(seed, n):
    return np.random.default_rng(seed).normal(size=(n, 3)) * 3


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_merging_is_associative_commutative_and_exact(sizes, random):
    X = _rows(sum(sizes), sum(sizes))
    whole = sl.sketch(X, PHI)
    parts = [sl.sketch(part, PHI) for part in np.split(X, np.cumsum(sizes)[:-1])]
    random.shuffle(parts)
    assert sl.merge(parts).to_bytes() == whole.to_bytes()
    left = parts[0]
    for part in parts[1:]:
        left = left + part
    assert left.to_bytes() == whole.to_bytes()
    assert hash(left) == hash(whole)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000))
def test_subtraction_undoes_addition(n, m, seed):
    a, b = sl.sketch(_rows(seed, n), PHI), sl.sketch(_rows(seed + 1, m), PHI)
    back = (a + b) - b
    np.testing.assert_array_equal(back.sums, a.sums)
    assert (back.count, back.skipped) == (a.count, a.skipped)
    assert (back.lower <= a.lower).all()
    assert (back.upper >= a.upper).all()


def test_the_empty_sketch_is_the_identity():
    s = sl.sketch(_rows(0, 10), PHI)
    empty = sl.Sketch.empty(PHI)
    assert s + empty == empty + s == s
    assert (s - s).count == 0
    assert empty.count == 0
    with pytest.raises(ValueError, match="empty"):
        _ = empty.mean


def test_thousands_merge_at_once():
    parts = [sl.sketch([[float(i), 0.0, 1.0]], PHI) for i in range(3000)]
    X = np.array([[float(i), 0.0, 1.0] for i in range(3000)])
    assert sl.merge(parts) == sl.sketch(X, PHI)
    assert sl.merge(iter(parts)) == sl.sketch(X, PHI)


def test_different_maps_do_not_mix():
    a = sl.sketch(_rows(0, 5), PHI)
    for other, word in [
        (sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=1), "seed 0 vs 1"),
        (sl.FourierFeatures.draw(dim=3, size=40, scale=2.0, seed=0), "scale 1 vs 2"),
        (sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=0, radial="gaussian"), "radial adapted vs gaussian"),
    ]:
        b = sl.sketch(_rows(1, 5), other)
        for operation in (lambda a=a, b=b: a + b, lambda a=a, b=b: a - b, lambda a=a, b=b: sl.merge([a, b])):
            with pytest.raises(sl.IncompatibleSketchError, match=word):
                operation()
        assert a != b


def test_subtracting_what_was_never_added_is_refused():
    a, b = sl.sketch(_rows(0, 50), PHI), sl.sketch(_rows(1, 60), PHI)
    with pytest.raises(ValueError, match="never added"):
        a - b
    inside = sl.sketch(np.zeros((30, 3)), PHI)
    with pytest.raises(ValueError, match=r"modulus|beyond"):
        sl.sketch(_rows(0, 31), PHI) - inside
    outside = sl.sketch(np.full((1, 3), 50.0), PHI)
    with pytest.raises(ValueError, match="column 0"):
        a - outside


def test_merge_refuses_nonsense():
    with pytest.raises(ValueError, match="no sketch"):
        sl.merge([])
    with pytest.raises(TypeError, match="int"):
        sl.merge([sl.Sketch.empty(PHI), 3])
    with pytest.raises(TypeError):
        sl.Sketch.empty(PHI) + 1


def test_overflow_is_detected_never_wrapped():
    limit = (2**63 - 1) // PHI.entry_bound
    check_range(PHI, limit)
    with pytest.raises(OverflowError):
        check_range(PHI, limit + 1)
    heavy = sl.sketch([[0.0, 0.0, 0.0]], PHI, sample_weight=[2.0**39])
    double = heavy + heavy
    assert double.sums[0].min() > 0
    with pytest.raises(OverflowError):
        sl.merge([double] * 4)


def test_fractional_weights_on_the_grid():
    X = _rows(0, 30)
    half = sl.sketch(X, PHI, sample_weight=np.full(30, 0.5))
    assert half.count == 15
    np.testing.assert_allclose(half.mean, sl.sketch(X, PHI).mean, atol=1e-12)
    # two halves weigh as much as one, but come from twice as many rows
    assert replace(half + half, squared_weights=-1) == sl.sketch(X, PHI)
    assert (half + half).effective_count == 60
    assert (half + half - half).to_bytes() == half.to_bytes()
    third = sl.sketch(X, PHI, sample_weight=np.full(30, 1 / 3))
    assert third.count == pytest.approx(10, rel=1e-4)
    assert sl.Sketch.from_bytes(third.to_bytes()) == third


def test_standard_errors_predict_the_spread_of_the_mean():
    rng = np.random.default_rng(0)
    n, repeats = 200, 400
    means = np.array([sl.sketch(rng.normal(size=(n, 3)), PHI).mean for _ in range(repeats)])
    spread = np.sqrt(means.real.var(0) + means.imag.var(0))
    predicted = sl.sketch(rng.normal(size=(20_000, 3)), PHI).standard_errors * np.sqrt(20_000 / n)
    # a variance from 400 draws has relative error about 0.07; 40 features
    np.testing.assert_allclose(spread, predicted, rtol=0.2)


def test_people_can_read_it():
    s = sl.sketch(np.vstack([_rows(0, 99), np.full((1, 3), np.nan)]), PHI, on_invalid="skip")
    text = repr(s)
    for word in ("99", "1 invalid", "640 bytes", "scale 1", "noise level", "private", "no (exact"):
        assert word in text
    assert "<caption>Sketch</caption>" in s._repr_html_()
    assert "none (empty)" in repr(sl.Sketch.empty(PHI))


def test_values_are_immutable_and_pickle():
    s = sl.sketch(_rows(0, 5), PHI)
    with pytest.raises(AttributeError):
        s.weight = 3
    with pytest.raises(ValueError, match="read-only"):
        s.sums[0, 0] = 1
    assert pickle.loads(pickle.dumps(s)) == s


# -- private sketches ------------------------------------------------------------------------------

RECORD = PrivacyRecord("discrete-gaussian", 1.0, 1e-6, "add-remove", 1, 2.0**52, 2500.0, "0.1.0")


def _released(rng, n):
    """A stand-in for a release: normal noise of the variances of the record, no box."""
    exact, nowhere = sl.sketch(rng.normal(size=(n, 3)), PHI, workers=1), np.full(3, np.inf)
    noise = np.rint(rng.normal(size=exact.sums.shape) * 2.0**26).astype(np.int64)
    weight = n + round(rng.normal() * 50)
    return sl.Sketch(PHI, exact.sums + noise, weight, 0, -nowhere, nowhere, privacy=RECORD)


def test_noise_of_a_release_is_in_the_variances():
    rng = np.random.default_rng(0)
    released = [_released(rng, 1000) for _ in range(400)]
    means = np.array([s.mean for s in released])
    spread = means.real.var(0) + means.imag.var(0)
    predicted = np.mean([s.variances for s in released], axis=0)
    # a variance from 400 draws has relative error about 0.07; 40 features
    np.testing.assert_allclose(spread, predicted, rtol=0.25)
    assert np.mean(spread / predicted) == pytest.approx(1.0, abs=0.05)
    exact = PHI.feature_variances(released[0].sums, released[0].weight) / released[0].effective_count
    assert (released[0].variances > 1.2 * exact).all()


def test_private_sketches_travel_and_tell_what_they_promise():
    rng = np.random.default_rng(0)
    a, b = _released(rng, 1000), _released(rng, 1000)
    text = repr(a)
    for words in ("yes: epsilon 1", "add-remove", "discrete-gaussian", "noise of the release"):
        assert words in text
    assert "box" not in text
    assert not a.has_box
    assert pickle.loads(pickle.dumps(a)) == a
    with pytest.raises(ValueError, match="users='disjoint' or 'same'"):
        a + b
    assert sl.Sketch.from_bytes(a.to_bytes()) == a
    assert a + sl.Sketch.empty(PHI) == a
    exact = sl.sketch(_rows(0, 5), PHI)
    with pytest.raises(ValueError, match="would not protect"):
        a + exact
    with pytest.raises(ValueError, match="private"):
        a - b


def test_whole_weights_stay_repetition():
    X = _rows(0, 20)
    w = np.arange(20)
    s = sl.sketch(X, PHI, sample_weight=w)
    assert s == sl.sketch(np.repeat(X, w, axis=0), PHI)
    assert s.effective_count == s.count == w.sum()
    halves = sl.sketch(X, PHI, sample_weight=np.full(20, 0.5))
    assert halves.effective_count == 20
