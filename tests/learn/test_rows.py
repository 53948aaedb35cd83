import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.learn.rows import PILOT_ROWS, Rows, checked_weights, is_source, on_grid, weight_scale


def test_a_pilot_is_all_rows_or_a_draw_by_weight():
    few, many = np.arange(10.0)[:, None], np.arange(10_000.0)[:, None]
    assert Rows(few).pilot(0)[:2] == (few, None)
    rows, weights, _ = Rows(few, np.r_[np.zeros(8), 1.0, 3.0]).pilot(0)
    assert (rows.ravel().tolist(), weights.tolist()) == ([8.0, 9.0], [1.0, 3.0])
    rows, weights, _ = Rows(many).pilot(0)
    assert len(np.unique(rows)) == PILOT_ROWS
    assert weights is None
    rows, weights, _ = Rows(many, np.where(many[:, 0] < 5000, 1.0, 3.0)).pilot(0)
    assert len(rows) == PILOT_ROWS
    assert weights is None  # heavier rows are there more often
    assert abs((rows >= 5000).mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / PILOT_ROWS)


def test_weights_are_checked():
    assert checked_weights(None, 3) is None
    assert checked_weights(2.0, 3).tolist() == [2.0, 2.0, 2.0]
    for wrong, word in [([1.0], "shape"), ([1, -1, 1], "entry 1"), ([1, np.nan, 1], "entry 1"), ([0, 0, 0], "zero")]:
        with pytest.raises(ValueError, match=word):
            checked_weights(wrong, 3)


@pytest.mark.parametrize(
    ("weights", "scale"),
    [([1.0, 2.0], 1.0), ([0.5, 0.25], 1.0), ([1e-6, 1e-6], 2.0**12), ([1e-30, 1.0], 2.0**20), ([0.0, 2.0**-9], 2.0)],
)
def test_small_weights_are_scaled_by_a_power_of_two(weights, scale):
    given = np.array(weights)
    assert weight_scale(given) == scale
    lifted = on_grid(given, scale)
    assert ((lifted > 0) == (given > 0)).all()
    np.testing.assert_allclose(lifted, np.maximum(given * scale, (given > 0) * 2.0**-16))


def test_what_is_read_and_what_is_in_memory(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = np.ones((3, 2))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for data in (X, X.tolist(), pandas.DataFrame(X), None, 3.0):
        assert not is_source(data)
    for data in ("x.npy", tmp_path / "x.npy", mapped, iter([X]), [X, X], sl.read(X)):
        assert is_source(data)
