import warnings

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.comparison import changes, drift, moved_columns
from sketchlearn.comparison.drift import adjusted
from sketchlearn.decoders.description import describe
from sketchlearn.sketches.value import pooled

NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def phi():
    rng = np.random.default_rng(0)
    return sl.design(rng.normal(size=(1000, 4)) * [1, 5, 1, 20], n_components=4).with_columns(NAMES)


def rows(n, seed, shift=(0, 0, 0, 0), spread=(1, 1, 1, 1)):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(n, 1)) * [2, 0, 0, 0]
    return (rng.normal(size=(n, 4)) * spread + kind) * [1, 5, 1, 20] + shift


def test_the_columns_that_moved_are_named(phi):
    before, same = sl.sketch(rows(5000, 1), phi), sl.sketch(rows(5000, 2), phi)
    for change, column, value in (
        ({"shift": (0, 2.0, 0, 0)}, "b", 0.4),
        ({"shift": (0, 0, 0, -6.0)}, "d", -0.3),
        ({"spread": (1, 1.4, 1, 1)}, "b", 0.4),
    ):
        found = moved_columns(before, sl.sketch(rows(5000, 3, **change), phi))
        assert found[0].column == column
        assert found[0].p_value < 1e-6
        estimate = found[0].shift if "shift" in change else found[0].spread
        assert estimate == pytest.approx(value, rel=0.15)
        assert found[1].p_value > 1e-4
    assert min(c.p_value for c in moved_columns(before, same)) > 1e-3


def laws(n, seed):
    rng = np.random.default_rng(seed)
    clusters = np.array([[-4.0, 0.0], [4.0, 2.0], [0.0, 9.0]])[rng.integers(3, size=n)]
    columns = [clusters + rng.normal(size=(n, 2)), rng.gamma(2.0, 50.0, (n, 1)), rng.poisson(3.0, (n, 1))]
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize("task", ["kmeans", "monitoring"])
@pytest.mark.parametrize(
    ("shift", "stretch"),
    [((0, 0, 3.0, 0), (1, 1, 1, 1)), ((0, 0, 0, 0), (2, 1, 1, 1)), ((0, 0.3, 0, 0), (1, 1.4, 1, 1))],
)
def test_means_and_spreads_are_those_of_the_rows(task, shift, stretch):
    # the estimates are of sample moments: apart from what features miss they are exact, not to sampling noise
    before, after = laws(4000, 0), laws(4000, 1)
    deviation = before.std(0)
    after = (after - after.mean(0)) * stretch + after.mean(0) + shift * deviation
    map_ = sl.design(before[:1000], n_components=5, task=task, standardize=True)
    found = {c.column: c for c in moved_columns(sl.sketch(before, map_), sl.sketch(after, map_))}
    for j in range(4):
        c = found[f"column {j}"]
        shifts, spreads = (after.mean(0) - before.mean(0)) / deviation, after.std(0) / deviation - 1
        assert c.shift == pytest.approx(shifts[j], abs=0.03 + 0.05 * abs(shifts[j]))
        assert c.spread == pytest.approx(spreads[j], abs=0.05 + 0.05 * abs(spreads[j]))
        assert c.means[1] == pytest.approx(after[:, j].mean(), abs=0.05 * deviation[j] * (1 + abs(shifts[j])))
        assert c.tells_shift


def test_a_column_that_the_features_do_not_see_is_left_open(phi):
    # in units of 1e-6 beside others of order one: a shift of three deviations leaves no trace in the sketch
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, 3000, 3)) * [1.0, 1.0, 1e-6]
    after[:, 2] += 3e-6
    for task, told in (("kmeans", False), ("monitoring", True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            map_ = sl.design(before, n_components=5, task=task)
        c = next(c for c in moved_columns(sl.sketch(before, map_), sl.sketch(after, map_)) if c.column == "column 2")
        assert c.tells_shift is told
        assert (c.p_value < 1e-6) is told
        assert ("can't tell" in str(c)) is not told


def test_p_values_of_columns_are_not_too_small_without_a_change(phi):
    # 100 columns' values, each the smaller of two times two: at most as many small ones as chance gives
    parts = [sl.sketch(rows(800, seed), phi) for seed in range(10, 60)]
    mixture = describe(pooled(parts))
    p = [c.p_value for a, b in zip(parts[::2], parts[1::2], strict=True) for c in moved_columns(a, b, mixture)]
    small = sum(v < 0.1 for v in p)
    # the values of one pair are nearly independent: 100 draws with probability at most 0.1, five deviations
    assert small <= 100 * 0.1 + 5 * 3
    assert small > 0  # error bars are not so long that nothing is ever found


def test_the_effect_is_the_shift_that_moves_the_rows_as_far():
    rng = np.random.default_rng(0)
    for d in (1, 6):
        for size in (0.3, 0.5):
            before, after = rng.normal(size=(2, 20_000, d))
            after[:, 0] += size
            map_ = sl.design(before[:1000], n_components=5, task="monitoring")
            (change,) = changes([sl.sketch(before, map_), sl.sketch(after, map_)])
            # sampling: two averages of 20 000 rows, 0.01; directions: 50 to 300 frequencies
            assert change.effect == pytest.approx(size, rel=0.2)
    assert [a.differs for a in drift([sl.sketch(before, map_), sl.sketch(after, map_)], min_effect=0.8)] == [False]


def test_private_sketches_tell_with_wider_errors():
    rng = np.random.default_rng(0)
    before, after = rng.uniform(size=(2, 20_000, 2))
    after[:, 0] = after[:, 0] ** 2
    map_ = sl.design(bounds=([0, 0], [1, 1]), n_components=3, task="monitoring")
    plain = [sl.sketch(x, map_) for x in (before, after)]
    noisy = [
        sl.privatize(s, epsilon=1.0, delta=1e-6, public_map=True) for s in plain
    ]  # without a seed: six deviations below
    (a, *_), (b, *_) = moved_columns(*plain), moved_columns(*noisy)
    assert a.column == b.column == "column 0"
    assert b.shift_error > 1.2 * a.shift_error
    assert abs(b.shift - a.shift) < 6 * b.shift_error


def test_many_tests_are_corrected_and_small_distances_left_alone(phi):
    days = {f"day {i}": sl.sketch(rows(3000, i, (0, 1.0 * (i == 3), 0, 0)), phi) for i in range(5)}
    found = drift(days)
    assert [a.change.label for a in found if a.differs] == ["day 3"]
    assert [c.column for c in found[2].columns] == ["b"]
    assert all(a.adjusted >= a.change.p_value for a in found)
    assert not any(a.differs for a in drift(days, min_distance=0.5))
    for options, word in (({"correction": "x"}, "holm"), ({"alpha": 0}, "alpha"), ({"min_effect": -1}, "negative")):
        with pytest.raises(ValueError, match=word):
            drift(days, **options)


def test_corrections():
    p = [0.001, 0.02, 0.5, 0.02]
    assert adjusted(p, "holm") == pytest.approx([0.004, 0.06, 0.5, 0.06])
    assert adjusted(p, "fdr") == pytest.approx([0.004, 0.08 / 3, 0.5, 0.08 / 3])
    assert adjusted(p, "none") == p
    assert adjusted([], "holm") == []


def test_one_group_of_one_row_is_left_out_and_named(phi):
    table = {"x": sl.sketch(rows(500, 0), phi), "lonely": sl.sketch(rows(1, 1), phi), "y": sl.sketch(rows(500, 2), phi)}
    with pytest.warns(sl.DataWarning, match="fewer than two rows: lonely"):
        assert [c.label for c in changes(table)] == ["y"]
    with pytest.raises(ValueError, match="at least two sketches, got 2, 1 with fewer"):
        changes({"x": table["x"], "lonely": table["lonely"]})


def test_the_limit_is_where_the_p_value_is_alpha(phi):
    for change in changes([sl.sketch(rows(500, i), phi) for i in range(8)], against="previous"):
        for alpha in (0.5, 0.05, 0.001):
            assert change.law.tail(change.law.limit(alpha)) == pytest.approx(alpha, rel=1e-6)
            assert (change.distance > change.limit(alpha)) == (change.p_value < alpha) or change.distance == 0
