"""Subsampled features: groups that follow from the rows, unbiased averages, variances that tell the truth."""

import numpy as np
import pytest
from reference import hash as reference

import sketchlearn as sl
from sketchlearn.kernels import _hash_compiled


def draw(d=3, m=100, r=20, **options):
    return sl.FourierFeatures.draw(dim=d, size=m, scale=1.0, seed=5, features_per_row=r, **options)


def groups_of(X, seed=5, groups=7, module=reference):
    out = np.empty(len(X), np.int64)
    rows = np.ascontiguousarray(X)
    rows.flags.writeable = False
    module.pick(rows, np.uint64(seed), np.uint64(groups), out)
    return out


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 11])
def test_groups_follow_from_the_content_of_a_row(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(700, d)).astype(np.float32)
    expected = groups_of(X)
    np.testing.assert_array_equal(expected, groups_of(X, module=_hash_compiled))
    np.testing.assert_array_equal(expected, groups_of(X.astype(np.float64), module=_hash_compiled))
    order = rng.permutation(700)
    np.testing.assert_array_equal(expected[order], groups_of(X[order]))
    assert (groups_of(X, seed=6) != expected).any()
    counts = np.bincount(expected, minlength=7)
    assert ((counts - 100) ** 2 / 100).sum() < 30  # chi-squared, 6 degrees of freedom: one in 25 000


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_put_in_the_order_of_their_groups(weighted):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(50, 3)).astype(np.float32), rng.integers(1, 6, 50)  # nobody in the first group
    X.flags.writeable = False
    w = rng.integers(1, 9, 50 if weighted else 0)
    results = []
    for module in (reference, _hash_compiled):
        ends, rows, kept = np.zeros(7, np.int64), np.empty_like(X), np.empty_like(w)
        module.gather(X, w, group, ends, rows, kept)
        results.append((ends, rows, kept))
    order = np.argsort(group, kind="stable")
    for ends, rows, kept in results:
        np.testing.assert_array_equal(ends, np.searchsorted(group[order], np.arange(7), side="right"))
        np.testing.assert_array_equal(rows, X[order])
        np.testing.assert_array_equal(kept, w[order] if weighted else w)


def test_both_zeros_are_one():
    X = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert len(set(groups_of(X, groups=2**31))) == 1


@pytest.mark.parametrize("options", [{}, {"quantized": True}, {"structure": "gr2", "r": 24}, {"r": 33}])
def test_batches_and_order_change_no_bit(options):
    phi = draw(**options)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(997, 3))
    s = sl.sketch(X, phi)
    assert s == sl.sketch(X[rng.permutation(997)], phi)
    assert s == sl.merge([sl.sketch(part, phi) for part in np.array_split(X, 13)])
    assert (
        s - sl.sketch(X[:100], phi) == sl.sketch(X[100:], phi)
        or ((s - sl.sketch(X[:100], phi)).sums == sl.sketch(X[100:], phi).sums).all()
    )
    assert s.sums[200:].sum() == 997
    assert sl.Sketch.from_bytes(s.to_bytes()) == s


def test_each_group_is_a_sketch_of_its_rows():
    phi, whole = draw(), draw(r=None)
    X = np.random.default_rng(0).normal(size=(500, 3))
    s, mine = sl.sketch(X, phi), phi.summer.groups(X)
    for g in range(5):
        part = sl.sketch(X[mine == g], whole)
        at = slice(20 * g, 20 * g + 20)
        np.testing.assert_array_equal(s.mean[at], part.mean[at])
        np.testing.assert_allclose(s.variances[at], part.variances[at], rtol=1e-9)


def test_weights_are_repeated_rows():
    phi = draw()
    X = np.random.default_rng(0).normal(size=(50, 3))
    w = np.random.default_rng(1).integers(0, 4, 50)
    weighted, repeated = (sl.Accumulator(phi) for _ in range(2))
    weighted.update(X, sample_weight=w)
    repeated.update(np.repeat(X, w, axis=0))
    np.testing.assert_array_equal(weighted.sketch().sums, repeated.sketch().sums)


def test_invalid_rows_stop_or_are_skipped():
    phi = draw()
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        sl.sketch(X, phi)
    s = sl.sketch(X, phi, on_invalid="skip")
    assert (s.count, s.skipped) == (49, 1)
    np.testing.assert_array_equal(s.sums, sl.sketch(np.delete(X, 7, 0), phi).sums)


@pytest.mark.parametrize("quantized", [False, True])
def test_averages_are_unbiased_and_variances_right(quantized):
    groups, per_row = 750, 8
    phi = sl.FourierFeatures.draw(
        dim=2, size=groups * per_row, scale=0.4, radial="gaussian", seed=0, features_per_row=per_row,
        quantized=quantized,
    )  # fmt: skip
    s = sl.sketch(np.random.default_rng(0).normal(size=(80 * groups, 2)), phi)
    # each group has rows of its own, so the groups are independent; the features of one are not
    errors = (s.mean - np.exp(-0.5 * phi.norms**2)).reshape(groups, per_row)
    for part in (errors.real.mean(1), errors.imag.mean(1)):
        assert abs(part.mean()) < 3.5 * part.std() / np.sqrt(groups)
    squares = (np.abs(errors) ** 2).mean(1)
    ratio, error = squares.mean() / s.variances.mean(), squares.std() / np.sqrt(groups) / squares.mean()
    assert abs(ratio - 1) < 0.01 + 3.5 * error
    assert error < 0.05


def test_contributions_are_unbiased_for_the_full_features():
    phi, whole = draw(), draw(r=None)
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    masked = phi(X)
    assert ((masked != 0).sum(1) == 20).all()
    error = np.abs(masked.mean(0) - whole(X).mean(0))
    assert (error**2).mean() == pytest.approx(4 / 20_000, rel=0.3)  # (m / r - 1) |phi|^2 / n


def test_bounds_of_one_row():
    phi = draw()
    sums = sl.sketch([[0.3, 1.0, 2.0]], phi).sums
    assert np.abs(sums).sum() <= phi.row_bounds_l1
    assert (sums.astype(object) ** 2).sum() <= phi.row_bounds_squared
    assert phi.row_bounds_l1 == pytest.approx(20 * 2**0.5 * 2**22, rel=1e-5)
    assert phi.row_bounds_squared == pytest.approx(20 * 2**44, rel=1e-5)


def test_noise_of_a_release_is_that_of_its_sums_and_counts():
    phi = draw()
    s = sl.sketch(np.random.default_rng(0).normal(size=(3000, 3)), phi)
    rng = np.random.default_rng(1)
    sums_sd, draws = 1e7, []
    for _ in range(300):
        noisy = s.sums + np.rint(rng.normal(size=s.sums.shape) * np.where(np.arange(205) < 200, sums_sd, 5.0))
        draws.append(phi.mean_from_sums(noisy.astype(np.int64), 3000.0))
    variance = np.where(np.arange(205) < 200, sums_sd**2, 25.0)
    told = phi.release_variances(s.sums, 3000.0, variance, 0.0)
    seen = (np.abs(np.array(draws) - s.mean) ** 2).mean(0)
    assert seen.mean() == pytest.approx(told.mean(), rel=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"r": 0}, "between 0 and size"),
        ({"r": 100}, "between 0 and size"),
        ({"r": 2.5}, "between 0 and size"),
        ({"structure": "gr2", "r": 10}, "multiple of 4"),
    ],
)
def test_what_no_row_can_contribute(options, words):
    with pytest.raises(ValueError, match=words):
        draw(**options)


def test_impossible_counts_are_refused():
    phi = draw()
    s = sl.sketch(np.zeros((5, 3)), phi)
    assert phi.impossible(s.sums, 5) is None
    assert "5 rows together, not 6" in phi.impossible(s.sums, 6)


def test_clusters_are_found_from_a_fifth_of_the_features():
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(4, 6)) * 4
    X = centers[rng.integers(4, size=20_000)] + rng.normal(size=(20_000, 6))
    phi = sl.design(X[:500], n_components=4, seed=0, features_per_row=48)
    solution = sl.decode(sl.sketch(X, phi), 4, random_state=0)
    distance = np.sqrt(((solution.centers[:, None] - centers) ** 2).sum(2)).min(0)
    assert distance.max() < 0.5
    assert solution.reliable
