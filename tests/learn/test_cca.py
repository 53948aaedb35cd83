"""Canonical correlations and discriminants: those of the rows, from sketches."""

import json

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl


@parametrize_with_checks([sl.CompressiveCCA(1), sl.CompressiveCCA("auto"), sl.CompressiveLDA()])
def test_scikit_learn(estimator, check):
    check(estimator)


def pairs(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 2))
    X = common @ rng.normal(size=(2, 5)) + rng.normal(size=(n, 5))
    return X * [1.0, 1e3, 1.0, 1e-3, 1.0] + 7.0, common @ rng.normal(size=(2, 3)) + rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def fitted():
    return sl.CompressiveCCA().fit(*pairs())


def test_correlations_are_those_of_the_rows(fitted):
    X, Y = pairs()
    peer = CCA(3, max_iter=5000, tol=1e-12).fit(X, Y)
    theirs, ours = peer.transform(X, Y), fitted.transform(X, Y)
    for i in range(3):
        assert np.corrcoef(theirs[0][:, i], theirs[1][:, i])[0, 1] == pytest.approx(fitted.correlations_[i], abs=1e-8)
        assert abs(np.corrcoef(theirs[0][:, i], ours[0][:, i])[0, 1]) == pytest.approx(1.0, abs=1e-6)
    for scores in ours:
        np.testing.assert_allclose(np.cov(scores.T, bias=True), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(ours[0].T @ ours[1] / len(X), np.diag(fitted.correlations_), atol=1e-9)
    np.testing.assert_allclose(fitted.predict(X), LinearRegression().fit(X, Y).predict(X), atol=1e-9)


def test_chance_is_told_from_correlation(fitted):
    assert (fitted.p_values_[:2] < 1e-10).all()
    assert fitted.p_values_[2] > 1e-4
    assert sl.CompressiveCCA("auto").fit_sketch(fitted.sketch_, [5, 6, 7]).n_components_ == 2
    rng = np.random.default_rng(1)
    found = []
    for _ in range(200):
        s = sl.sketch(rng.normal(size=(100, 5)), sl.QuadraticFeatures.draw(dim=5), workers=1)
        found.append(sl.decode(s, 1, task="cca", targets=[0, 1]).p_values[0])
    assert kstest(found, "uniform").pvalue > 1e-4  # calibrated
    few = sl.CompressiveCCA(1).fit(rng.normal(size=(6, 4)), rng.normal(size=(6, 3)))
    assert not few.reliable_
    assert "too few" in few.verdict_


def test_sketches_merge_and_rows_are_deleted(fitted):
    X, Y = pairs()
    both = np.column_stack([X, Y])
    phi = fitted.sketch_.features
    merged = sl.sketch(both[:700], phi) + sl.sketch(both[700:], phi)
    again = sl.CompressiveCCA().fit_sketch(merged, targets=[5, 6, 7])
    np.testing.assert_allclose(again.correlations_, fitted.correlations_, rtol=1e-10)
    stream = sl.CompressiveCCA().partial_fit(X[:700], Y[:700]).partial_fit(X[700:], Y[700:])
    np.testing.assert_allclose(stream.correlations_, fitted.correlations_, rtol=1e-10)
    fewer = sl.CompressiveCCA().fit_sketch(merged - sl.sketch(both[:700], phi), targets=[5, 6, 7])
    np.testing.assert_allclose(fewer.correlations_, sl.CompressiveCCA().fit(X[700:], Y[700:]).correlations_, rtol=1e-8)
    turned = sl.CompressiveCCA().fit_sketch(merged, targets=[0, 1, 2, 3, 4])
    np.testing.assert_allclose(turned.correlations_, fitted.correlations_, rtol=1e-10)


def test_models_score_without_the_estimator(fitted, tmp_path):
    X, _ = pairs(50, seed=3)
    model = fitted.to_model()
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    np.testing.assert_allclose(again.predict(X), fitted.predict(X), rtol=1e-9)
    np.testing.assert_allclose(again.transform_rows(X), fitted.transform(X), rtol=1e-9)
    assert again.answers(X)["score 1"].shape == (50,)
    assert len(again.table()) == again.size == 3
    assert "3 pairs of 5 and 3 columns" in sl.plots.report(again)
    facts = json.loads(model.to_json())
    for change, word in [({"x_columns": ["a"]}, "name"), ({"correlations": [2.0, 1.0, 1.0]}, "between")]:
        with pytest.raises(sl.ModelFileError, match=word):
            sl.Model.from_json(json.dumps(facts | change))


def test_bad_arguments_are_refused(fitted):
    X, Y = pairs(60)
    with pytest.raises(ValueError, match="between 1 and 3"):
        sl.CompressiveCCA(4).fit(X, Y)
    with pytest.raises(ValueError, match="n_components"):
        sl.CompressiveCCA("many").fit(X, Y)
    with pytest.raises(ValueError, match="y has shape"):
        fitted.transform(X, Y[:, :2])
    with pytest.raises(TypeError, match="all products"):
        sl.CompressiveCCA(1).fit_sketch(sl.sketch(X, sl.QuadraticFeatures.draw(dim=5, size=4)))
    with pytest.raises(TypeError, match="quadratic"):
        sl.CompressiveCCA(1).fit_sketch(sl.sketch(X, sl.FourierFeatures.draw(dim=5, size=4, scale=1.0)))


# -- discriminants ----------------------------------------------------------------------------------


def test_discriminants_are_those_of_the_rows():
    X, y = load_wine(return_X_y=True)
    ours, peer = sl.CompressiveLDA().fit(X, y), LinearDiscriminantAnalysis().fit(X, y)
    mine, theirs = ours.transform(X), peer.transform(X)
    for i in range(2):
        assert abs(np.corrcoef(mine[:, i], theirs[:, i])[0, 1]) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(ours.explained_variance_ratio_, peer.explained_variance_ratio_, rtol=1e-5)
    within = np.concatenate([mine[y == c] - mine[y == c].mean(0) for c in range(3)])
    np.testing.assert_allclose(within.T @ within / len(X), np.eye(2), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    halves = sl.CompressiveLDA(1).partial_fit(X[::2], y[::2]).partial_fit(X[1::2], y[1::2])
    np.testing.assert_allclose(halves.transform(X), mine[:, :1], rtol=1e-7, atol=1e-9)
    assert halves.get_feature_names_out().tolist() == ["compressivelda0"]
    table = sl.sketch(X, sl.QuadraticFeatures.draw(dim=13), group_by=y)
    np.testing.assert_allclose(sl.CompressiveLDA().fit_sketch(table).transform(X), mine, rtol=1e-7, atol=1e-9)
    assert sl.CompressiveLDA().fit_sketch({c: table[c] for c in (0, 2)}).transform(X).shape == (178, 1)
    for k, word in [(3, "at most 2"), (0, "positive")]:
        with pytest.raises(ValueError, match=word):
            sl.CompressiveLDA(k).fit(X, y)
