import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.comparison import changes, drift, moved_columns
from sketchlearn.comparison.drift import adjusted
from sketchlearn.comparison.two_sample import limit, sampling_noise, tail

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
        assert estimate == pytest.approx(value, rel=0.3)
        assert found[1].p_value > 1e-4
    assert min(c.p_value for c in moved_columns(before, same)) > 1e-3


def test_p_values_of_columns_are_uniform_without_a_change(phi):
    # 100 columns' values, each the smaller of two times two: at most as many small ones as chance gives
    noise = sampling_noise(sl.sketch(rows(20_000, 9), phi))
    parts = [sl.sketch(rows(800, seed), phi) for seed in range(10, 60)]
    p = [c.p_value for a, b in zip(parts[::2], parts[1::2], strict=True) for c in moved_columns(a, b, noise)]
    small = sum(v < 0.1 for v in p)
    # the values of one pair are nearly independent: 100 draws with probability at most 0.1, five deviations
    assert small <= 100 * 0.1 + 5 * 3


def test_many_tests_are_corrected_and_small_distances_left_alone(phi):
    days = {f"day {i}": sl.sketch(rows(3000, i, (0, 1.0 * (i == 3), 0, 0)), phi) for i in range(5)}
    found = drift(days)
    assert [a.change.label for a in found if a.differs] == ["day 3"]
    assert [c.column for c in found[2].columns] == ["b"]
    assert all(a.adjusted >= a.change.p_value for a in found)
    assert not any(a.differs for a in drift(days, min_distance=0.5))
    for options, word in (({"correction": "x"}, "holm"), ({"alpha": 0}, "alpha"), ({"min_distance": -1}, "negative")):
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
            assert tail(limit(alpha, np.array(change.traces)), np.array(change.traces)) == pytest.approx(
                alpha, rel=1e-6
            )
            assert (change.distance > change.limit(alpha)) == (change.p_value < alpha) or change.distance == 0
