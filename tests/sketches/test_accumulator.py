"""Whatever way rows take through accumulators, the sketch is the same."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.sketches.weights import on_grid, squared, squared_runs

PHI = sl.FourierFeatures.draw(dim=3, size=11, scale=1.0, seed=0)
WEIGHTS = st.sampled_from([0.0, 1.0, 3.0, 0.5, 1.25, 1 / 3, 2.0**20, 7.75])


@st.composite
def _batches(draw):
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, 3)) * 5
    X[rng.random(n) < 0.1, 1] = np.nan
    w = np.array(draw(st.lists(WEIGHTS, min_size=n, max_size=n)))
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=5)))
    return X, w, [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n], strict=True)]


@settings(max_examples=60, deadline=None)
@given(_batches(), st.randoms(use_true_random=False))
def test_batches_order_and_accumulators_do_not_matter(batches, random):
    X, w, slices = batches
    want = sl.sketch(X, PHI, sample_weight=w, on_invalid="skip", workers=1).to_bytes()
    accumulators = [sl.Accumulator(PHI, "skip") for _ in range(3)]
    random.shuffle(slices)
    for part in slices:
        accumulators[random.randrange(3)].update(X[part], w[part])
    random.shuffle(accumulators)
    total, *others = (pickle.loads(pickle.dumps(a)) for a in accumulators)
    for other in others:
        total.merge(sl.Accumulator.from_bytes(other.to_bytes()))
    assert total.sketch().to_bytes() == want
    assert total.count == total.sketch().count
    assert total.skipped == total.sketch().skipped


@settings(max_examples=30, deadline=None)
@given(_batches(), st.integers(0, 5))
def test_a_restored_state_goes_on_exactly(batches, stop):
    X, w, slices = batches
    straight, stopped = sl.Accumulator(PHI, "skip"), sl.Accumulator(PHI, "skip")
    for i, part in enumerate(slices):
        straight.update(X[part], w[part])
        if i == stop:
            stopped = sl.Accumulator.from_bytes(stopped.to_bytes())
        stopped.update(X[part], w[part])
    assert stopped == straight
    assert stopped.to_bytes() == straight.to_bytes()


@settings(max_examples=40, deadline=None)
@given(_batches())
def test_squares_are_those_of_whole_rows_and_fractions(batches):
    X, w, slices = batches
    s = sl.merge(sl.sketch(X[a], PHI, sample_weight=w[a], on_invalid="skip") for a in slices if a.start < a.stop)
    units = [round(float(v) * 2**16) for v, row in zip(w, X, strict=True) if np.isfinite(row).all()]
    want = sum((u >> 16) << 32 if u % 2**16 == 0 else u * u for u in units)  # integers of Python know no overflow
    assert s.squared_weights == want
    table = sl.sketch(X, PHI, sample_weight=w, on_invalid="skip", group_by=np.arange(len(X)) % 3)
    assert table.union() == s
    rest = s - table[0]
    assert rest.squared_weights == want - table[0].squared_weights


def test_large_weights_have_exact_squares():
    rng = random.Random(0)
    units = np.array([rng.randrange(2**56) for _ in range(1000)], np.int64)
    whole = [u % 2**16 == 0 for u in units.tolist()]
    each = [(u >> 16) << 32 if w else u * u for u, w in zip(units.tolist(), whole, strict=True)]
    assert squared(units) == sum(each)
    starts = np.array([0, 1, 400, 999])
    assert squared_runs(units, starts) == [sum(each[:1]), sum(each[1:400]), sum(each[400:999]), sum(each[999:])]
    assert on_grid(np.array([0.5, 2.0]))[0].tolist() == [2**15, 2**17]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i8", "u1", "?", "O"])
def test_batches_of_any_type_and_size(dtype):
    X = np.arange(30).reshape(10, 3) % 2
    a = sl.Accumulator(PHI)
    for part in (X[:0], X[:1], X[1:]):
        a.update(part.astype(dtype))
    assert a.sketch() == sl.sketch(X.astype(float), PHI)


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        ([[1.0, np.nan, 2.0]], None, r"row 0 .*NaN or a null in column 1.*on_invalid='skip'"),
        ([[1.0, 2.0]], None, "2 columns"),
        ([1.0, 2.0, 3.0], None, "two dimensions"),
        ([["a", "b", "c"]], None, "real numbers"),
        ([[1.0, 2.0, 3.0]], [-1.0], "the weight of row 0 is -1.0: weights must be"),
        ([[1.0, 2.0, 3.0]], [1e-9], r"below the grid of 2\*\*-16"),
        ([[1.0, 2.0, 3.0]], [1.0, 2.0], "one number per row"),
        ([[0.0, 0.0, 0.0]] * 4, [2.0**39] * 4, "64-bit sums"),
    ],
)
def test_errors_leave_it_as_it_was(rows, weights, message):
    a = sl.Accumulator(PHI)
    a.update([[1.0, 2.0, 3.0]], 0.5)
    a.update([[1.0, 2.0, 3.0]])
    before = a.to_bytes()
    with pytest.raises((ValueError, OverflowError), match=message):
        a.update(rows, weights)
    assert a.to_bytes() == before


def test_merging_what_does_not_fit_changes_nothing():
    a, heavy = sl.Accumulator(PHI), sl.Accumulator(PHI)
    a.update([[0.0, 0.0, 0.0]], 2.0**39)
    a.update([[0.0, 0.0, 0.0]], 2.0**39)
    heavy.update([[0.0, 0.0, 0.0]], 0.5)
    heavy.update([[0.0, 0.0, 0.0]], 2.0**39)
    heavy.update([[0.0, 0.0, 0.0]], 2.0**39)
    before = a.to_bytes()
    with pytest.raises(OverflowError):
        a.merge(heavy)
    assert a.to_bytes() == before
    other = sl.Accumulator(sl.FourierFeatures.draw(dim=3, size=11, scale=2.0, seed=0))
    with pytest.raises(sl.IncompatibleSketchError, match="scale"):
        a.merge(other)
    with pytest.raises(TypeError, match="int"):
        a.merge(3)


def test_nonsense_is_refused():
    with pytest.raises(TypeError, match="feature map"):
        sl.Accumulator("fourier")
    with pytest.raises(ValueError, match="on_invalid"):
        sl.Accumulator(PHI, "drop")
    data = sl.Accumulator(PHI).to_bytes()
    for bad in (b"", data[:-1], data[:50] + b"?" + data[51:], sl.sketch([[0.0] * 3], PHI).to_bytes()):
        with pytest.raises(sl.SketchFileError):
            sl.Accumulator.from_bytes(bad)
    assert sl.Accumulator.from_bytes(data).sketch() == sl.Sketch.empty(PHI)


def test_float_sums_are_restored_to_the_bit():
    phi = sl.QuadraticFeatures.draw(dim=3)
    X, w = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) / 7
    a = sl.Accumulator(phi)
    a.update(X, w)
    a.update(X)
    back = pickle.loads(pickle.dumps(a))
    for each in (a, back):
        each.update(X[:7], w[:7])
    assert back.to_bytes() == a.to_bytes()
    np.testing.assert_array_equal(back.sketch().sums, a.sketch().sums)


def test_importance_weights_have_the_noise_of_fewer_rows():
    """The variance of weighted means over many samples is that of `variances`."""
    rng = np.random.default_rng(0)
    n, repeats = 300, 500
    sketches = []
    for _ in range(repeats):
        w = rng.gamma(0.5, 2.0, size=n) + 0.01  # independent of the rows: E w^2 is about three times (E w)^2
        sketches.append(sl.sketch(rng.normal(size=(n, 3)), PHI, sample_weight=w, workers=1))
    effective = np.mean([s.effective_count for s in sketches])
    assert effective < 0.45 * n
    means = np.array([s.mean for s in sketches])
    spread = means.real.var(0) + means.imag.var(0)
    predicted = np.mean([s.variances for s in sketches], axis=0)
    # a variance from 500 draws has relative error about 0.06, the average of 11 features less
    assert np.mean(spread / predicted) == pytest.approx(1.0, abs=0.12)
    np.testing.assert_allclose(spread, predicted, rtol=0.3)


def test_the_box_does_not_know_the_sign_of_zero():
    rows = np.array([[0.0, 1.0, -0.0], [-0.0, -0.0, 0.0], [0.0, 0.0, -0.0]])
    phi = sl.FourierFeatures.draw(dim=3, size=4, scale=1.0, seed=0)
    want = sl.sketch(rows, phi, workers=1).to_bytes()
    for order in ([2, 1, 0], [1, 0, 2], [0, 2, 1]):
        assert sl.sketch(rows[order], phi, workers=1).to_bytes() == want
        first, *rest = (sl.sketch(rows[i : i + 1], phi) for i in order)
        assert sum(rest, first).to_bytes() == want
