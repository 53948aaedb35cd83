"""CompressiveNMF: scikit-learn's checks, streams, deletion and models."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl


@parametrize_with_checks([sl.CompressiveNMF(1)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    W = rng.exponential(size=(3, 40)) * (rng.random((3, 40)) < 0.5)
    return rng.exponential(size=(4000, 3)) @ W + 0.1 * rng.normal(size=(4000, 40))


@pytest.fixture(scope="module")
def fitted(rows):
    return sl.CompressiveNMF(3, random_state=0).fit(rows)


def test_codes_give_the_rows_again(rows, fitted):
    codes = fitted.transform(rows)
    assert codes.shape == (4000, 3)
    assert (codes >= 0).all()
    assert np.std(rows - fitted.inverse_transform(codes)) < 0.1
    np.testing.assert_allclose(codes.mean(0), 1.0, atol=0.05)
    np.testing.assert_allclose(fitted.mean_, rows.mean(0))
    assert fitted.reliable_
    assert fitted.errors_.max() < 0.05
    left = np.linalg.norm(rows - fitted.inverse_transform(codes))
    assert 0.8 * left < fitted.reconstruction_err_ < left
    assert list(fitted.get_feature_names_out()) == ["compressivenmf0", "compressivenmf1", "compressivenmf2"]


def test_rows_are_added_and_deleted(rows, fitted):
    stream = sl.CompressiveNMF(3, random_state=0, features=fitted.sketch_.features)
    for part in np.array_split(rows, 4):
        stream.partial_fit(part)
    np.testing.assert_allclose(stream.components_, fitted.components_, rtol=1e-6, atol=1e-9)
    cleaned = fitted.sketch_ + sl.sketch(rows[:500] ** 2, fitted.sketch_.features)
    cleaned = cleaned - sl.sketch(rows[:500] ** 2, fitted.sketch_.features)
    again = sl.CompressiveNMF(3, random_state=0).fit_sketch(cleaned)
    np.testing.assert_allclose(again.components_, fitted.components_, rtol=1e-6, atol=1e-9)


def test_models_factorise_without_the_estimator(rows, fitted, tmp_path):
    model = fitted.to_model()
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    np.testing.assert_allclose(again.predict(rows[:20]), fitted.transform(rows[:20]), rtol=1e-9)
    assert again.answers(rows[:20])["component 3"].shape == (20,)
    assert "3 components of 4,000 rows" in sl.plots.report(again)
    text = (tmp_path / "model.json").read_text().replace('"components": [\n  [\n   ', '"components": [\n  [\n   -', 1)
    with pytest.raises(sl.ModelFileError):
        sl.Model.from_json(text)


def test_bad_arguments_are_refused(rows):
    with pytest.raises(ValueError, match="between 1 and n_features=40"):
        sl.CompressiveNMF(41).fit(rows[:100])
    with pytest.raises(ValueError, match="decoder"):
        sl.CompressiveNMF(2, decoder="rows").fit(rows[:100])
