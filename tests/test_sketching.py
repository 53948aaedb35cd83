"""Sketches without a map: one is designed from the rows, and the sketch says which."""

import numpy as np
import pyarrow as pa
import pytest

import sketchlearn as sl

ROWS = np.random.default_rng(0).normal(size=(3000, 3))


def test_a_map_is_designed_where_none_is_given():
    made = sl.sketch(ROWS)
    assert made == sl.sketch(ROWS, sl.design(ROWS))
    assert "k-means with 20 components" in made.summary()["map"]
    assert sl.sketch(ROWS[:10] + 1.0, made.features) + made == sl.sketch(
        np.vstack([ROWS, ROWS[:10] + 1.0]), made.features
    )


def test_a_stream_is_read_once():
    blocks = (ROWS[i : i + 500] for i in range(0, 3000, 500))
    assert sl.sketch(blocks).count == 3000


def test_an_encoder_makes_numbers_of_a_frame():
    rng = np.random.default_rng(1)
    table = pa.table({"x": [None, *rng.normal(size=499)], "kind": rng.choice(["a", "b"], 500).tolist()})
    encoder = sl.Encoder.fit(table)
    made = sl.sketch(table, encoder=encoder)
    assert made.features.encoder == encoder
    assert made == sl.sketch(table, sl.design(table, encoder=encoder))
    assert made == sl.sketch(table, made.features, encoder=encoder)
    with pytest.raises(sl.InputError, match="has no encoder"):
        sl.sketch(table, sl.FourierFeatures.draw(dim=4, size=8, scale=1.0, seed=0), encoder=encoder)
    with pytest.raises(sl.InputError, match="make numbers of categories with encoder=") as caught:
        sl.sketch(table)
    assert set(caught.value.options) == {"columns", "encoder"}


def test_errors_keep_what_they_are_about_in_other_processes():
    import pickle

    from sketchlearn.exceptions import DuplicateRowsError, Option

    error = sl.InputError("give ", Option("on_invalid", "skip"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.options) == (str(error), {"on_invalid": "skip"})
    twice = pickle.loads(pickle.dumps(DuplicateRowsError("x", 3)))
    assert (twice.path, twice.rows) == ("x", 3)


def test_too_few_rows_for_the_map():
    with pytest.raises(sl.InputError, match="20 components needs at least as many valid rows, but the data has 5"):
        sl.sketch(ROWS[:5])
