"""Column names are part of a recipe that has them and absent from one that has not."""

import pickle

import numpy as np
import pytest

import sketchlearn as sl

PHI = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)
NAMED = PHI.with_columns(["x", "y"])


def test_recipes_without_names_have_no_such_field():
    assert "columns" not in PHI.recipe()
    assert PHI.columns is None
    assert NAMED.with_columns(None) == PHI


def test_names_travel():
    assert sl.FeatureMap.from_recipe(NAMED.recipe()) == NAMED
    assert pickle.loads(pickle.dumps(NAMED)).columns == ("x", "y")
    s = sl.sketch(np.zeros((3, 2)), NAMED)
    for data in (s.to_bytes(), s.to_bytes(embed_frequencies=True)):
        assert sl.Sketch.from_bytes(data).features.columns == ("x", "y")


def test_names_change_no_number():
    assert NAMED != PHI
    assert NAMED.fingerprint == PHI.fingerprint
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert np.array_equal(sl.sketch(X, NAMED).sums, sl.sketch(X, PHI).sums)
    assert NAMED.standardized([0, 0], [1, 2]).columns == ("x", "y")


@pytest.mark.parametrize(
    ("names", "message"), [(["x"], "names given are 1"), (["x", "x"], "different"), ("xy", "the text")]
)
def test_bad_names(names, message):
    with pytest.raises(ValueError, match=message):
        PHI.with_columns(names)
    with pytest.raises(ValueError, match=message):
        sl.FeatureMap.from_recipe({**PHI.recipe(), "columns": names})
