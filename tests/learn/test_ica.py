"""CompressiveICA: scikit-learn's checks, streams, deletion, counting and models."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl


@parametrize_with_checks([sl.CompressiveICA()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.uniform(-1, 1, 8000), rng.laplace(size=8000), rng.normal(size=8000)])
    return S @ rng.normal(size=(3, 3)) + [5.0, 0.0, -1.0]


@pytest.fixture(scope="module")
def fitted(rows):
    return sl.CompressiveICA(random_state=0).fit(rows)


def test_sources_are_mixed_again(rows, fitted):
    S = fitted.transform(rows)
    np.testing.assert_allclose(S.std(0), 1.0, atol=0.03)  # rows that were clipped count less
    np.testing.assert_allclose(fitted.inverse_transform(S), rows, atol=1e-6)
    assert fitted.n_sources_ == 2
    assert fitted.reliable_
    assert np.abs(fitted.kurtosis_[2]) < 4 * fitted.kurtosis_std_[2]
    only = sl.CompressiveICA("auto", random_state=0).fit_sketch(fitted.sketch_)
    assert only.components_.shape == (2, 3)
    np.testing.assert_array_equal(only.components_, fitted.components_[:2])
    with pytest.raises(ValueError, match="expected 2 columns"):
        only.inverse_transform(S)


def test_rows_are_added_and_deleted(rows, fitted):
    stream = sl.CompressiveICA(random_state=0, features=fitted.sketch_.features)
    for part in np.array_split(rows, 4):
        stream.partial_fit(part)
    np.testing.assert_array_equal(stream.components_, fitted.components_)
    polluted = fitted.sketch_ + sl.sketch(rows[:500] ** 2, fitted.sketch_.features)
    cleaned = polluted - sl.sketch(rows[:500] ** 2, fitted.sketch_.features)
    again = sl.CompressiveICA(random_state=0).fit_sketch(cleaned)
    np.testing.assert_array_equal(again.components_, fitted.components_)


def test_models_separate_without_the_estimator(rows, fitted, tmp_path):
    model = fitted.to_model()
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    np.testing.assert_allclose(again.predict(rows[:20]), fitted.transform(rows[:20]), rtol=1e-9)
    assert again.answers(rows[:20])["source 3"].shape == (20,)
    assert "3 sources of 8,000 rows" in sl.plots.report(again)


def test_bad_arguments_are_refused(rows):
    for options, word in [
        ({"n_components": 4}, "between 1 and n_features=3"),
        ({"n_components": 0}, "positive"),
        ({"radius": -1.0}, "radius"),
        ({"radius": "far"}, "radius"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.CompressiveICA(**options).fit(rows[:200])
    narrow = sl.CompressiveICA(radius=3.0, random_state=0).fit(rows)
    assert narrow.sketch_.features.radius == 3.0


def test_rows_of_peaked_sources_are_clipped_nearer():
    """Fourth powers of Laplace sources are mostly noise of large values; what clipping adds is no misfit."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(4, 4))
    found = {}
    for name, sources in (("peaked", rng.laplace(size=(20_000, 4))), ("flat", rng.uniform(size=(20_000, 4)))):
        found[name] = sl.CompressiveICA(random_state=0).fit(sources @ A.T)
        share = np.abs(found[name].components_ @ A * sources.std(0))
        assert (np.sort(share, axis=1)[:, -2] < 0.1).all()  # leakage of about 0.02, five times that
        assert found[name].reliable_
    assert found["peaked"].sketch_.features.radius == 0.625 * found["flat"].sketch_.features.radius
