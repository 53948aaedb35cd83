"""CompressiveDictionaryLearning: scikit-learn's checks, codes, streams, deletion and models."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl


@parametrize_with_checks([sl.CompressiveDictionaryLearning(1)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    D = rng.normal(size=(8, 6))
    return (rng.normal(size=(30_000, 8)) * (rng.random((30_000, 8)) < 0.1)) @ D


@pytest.fixture(scope="module")
def fitted(rows):
    return sl.CompressiveDictionaryLearning(8, random_state=0).fit(rows)


def test_few_atoms_give_the_rows_again(rows, fitted):
    codes = fitted.transform(rows[:3000])
    assert (np.count_nonzero(codes, axis=1) <= fitted.n_nonzero_).all()
    assert fitted.n_nonzero_ == np.ceil(fitted.solution_.nonzero)
    assert 0.6 < fitted.solution_.nonzero < 1.0
    left = [np.mean((rows[:3000] - fitted.inverse_transform(codes)) ** 2)]
    for n in (fitted.n_nonzero_ + 1, fitted.n_nonzero_ + 2):
        more = sl.CompressiveDictionaryLearning(8, n_nonzero=n, random_state=0).fit_sketch(fitted.sketch_)
        np.testing.assert_array_equal(more.components_, fitted.components_)
        left.append(np.mean((rows[:3000] - more.inverse_transform(more.transform(rows[:3000]))) ** 2))
    assert (np.diff(left) < 0).all()
    assert left[2] < 0.05 * np.mean(rows**2)


def test_rows_are_added_and_deleted(rows, fitted):
    stream = sl.CompressiveDictionaryLearning(8, random_state=0, features=fitted.sketch_.features)
    for part in np.array_split(rows, 4):
        stream.partial_fit(part)
    np.testing.assert_array_equal(stream.components_, fitted.components_)
    polluted = fitted.sketch_ + sl.sketch(rows[:500] ** 2, fitted.sketch_.features)
    cleaned = polluted - sl.sketch(rows[:500] ** 2, fitted.sketch_.features)
    again = sl.CompressiveDictionaryLearning(8, random_state=0).fit_sketch(cleaned)
    np.testing.assert_array_equal(again.components_, fitted.components_)


def test_models_code_without_the_estimator(rows, fitted, tmp_path):
    model = fitted.to_model()
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    np.testing.assert_allclose(again.predict(rows[:20]), fitted.transform(rows[:20]), rtol=1e-9)
    assert again.answers(rows[:20])["atom 8"].shape == (20,)
    assert "8 atoms of 30,000 rows" in sl.plots.report(again)


def test_bad_arguments_are_refused(rows):
    for options, word in [
        ({"n_components": 21}, "at most 20 atoms"),
        ({"n_components": 0}, "positive"),
        ({"radius": -1.0}, "radius"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.CompressiveDictionaryLearning(**options).fit(rows[:200])
    narrow = sl.CompressiveDictionaryLearning(2, radius=4.0, random_state=0).fit(rows[:2000])
    assert narrow.sketch_.features.radius == 4.0
