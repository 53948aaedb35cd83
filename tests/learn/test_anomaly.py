import json
import pickle

import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.decoders.anomaly import RIDGE

_NEW_ROWS = "contamination is the share among new rows; those that were sketched score a little less"


@parametrize_with_checks(
    [sl.CompressiveAnomalyDetector(sketch_size=40), sl.CompressiveAnomalyDetector("columns")],
    expected_failed_checks=lambda estimator: {
        "check_outliers_train": _NEW_ROWS,
        "check_outliers_fit_predict": _NEW_ROWS,
    },
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X.astype(float)
    usual = np.flatnonzero(y <= 4)
    rng = np.random.default_rng(0)
    rng.shuffle(usual)
    train, fresh, strange = X[usual[:630]], X[usual[630:]], X[y > 4]
    return train, fresh, strange, sl.CompressiveAnomalyDetector(sketch_size=400, random_state=0).fit(train)


def test_strange_digits_are_found(digits):
    _, fresh, strange, found = digits
    scores = found.score_samples(np.concatenate([fresh, strange]))
    assert roc_auc_score(np.r_[np.ones(len(fresh)), np.zeros(len(strange))], scores) > 0.95
    # 271 fresh rows: a standard error of 1.3 % of alarms, and as much from the threshold
    assert np.mean(found.predict(fresh) == -1) == pytest.approx(0.05, abs=0.06)
    assert np.mean(found.predict(strange) == -1) > 0.7


def test_scores_are_distances_of_rows(digits):
    train, fresh, _, found = digits
    phi = found.sketch_.features
    f = phi.embed(train)
    covariance = np.cov(f.T, bias=True) + RIDGE * np.eye(f.shape[1])
    apart = phi.embed(fresh) - f.mean(0)
    expected = (apart * np.linalg.solve(covariance, apart.T).T).sum(1)
    np.testing.assert_allclose(-found.score_samples(fresh), expected, rtol=5e-3)


def test_leaving_a_row_out(digits):
    train, _, _, found = digits
    phi = found.sketch_.features
    scores = -found.score_samples(train[:5])
    for row, score in zip(train[:5], scores, strict=True):
        rest = found.sketch_ - sl.sketch(row[None], phi)
        alone = sl.decode(rest, 1, task="anomaly")
        assert alone.distance(row[None])[0] == pytest.approx(found.solution_.unseen(np.array([score]))[0], rel=0.05)


def test_a_threshold_without_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 3)) * [1.0, 2.0, 5.0]
    s = sl.sketch(X[:3000], sl.design(X[:500], task="anomaly", size=200, seed=0))
    found = sl.CompressiveAnomalyDetector(contamination=0.05, random_state=0).fit_sketch(s)
    scores = -found.score_samples(X[3000:])
    # as if features were normal there would be three times as many alarms
    assert np.mean(scores > found.solution_.threshold(0.05)) > 0.13
    assert np.mean(scores > -found.offset_) == pytest.approx(0.05, abs=0.03)
    few = sl.CompressiveAnomalyDetector().fit_sketch(sl.sketch(X[:30], s.features))
    assert few.offset_ == -few.solution_.threshold(0.05)


def test_columns_are_the_mahalanobis_distance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 3)) * [1.0, 100.0, 0.01] + 5.0
    found = sl.CompressiveAnomalyDetector("columns").fit(X)
    np.testing.assert_allclose(-found.score_samples(X), EmpiricalCovariance().fit(X).mahalanobis(X), rtol=1e-3)
    from_sketch = sl.CompressiveAnomalyDetector("columns").fit_sketch(found.sketch_)
    assert np.mean(from_sketch.predict(X) == -1) == pytest.approx(0.05, abs=0.02)  # the columns are normal
    assert found.offset_ == pytest.approx(from_sketch.offset_, rel=0.15)


def test_sketches_merge_and_stream(digits):
    train, fresh, _, found = digits
    phi = found.sketch_.features
    parts = sl.sketch(train[:300], phi) + sl.sketch(train[300:], phi)
    again = sl.CompressiveAnomalyDetector().fit_sketch(parts)
    np.testing.assert_array_equal(again.score_samples(fresh), found.score_samples(fresh))
    streamed = sl.CompressiveAnomalyDetector(features=phi).partial_fit(train[:300]).partial_fit(train[300:])
    np.testing.assert_array_equal(streamed.score_samples(fresh), found.score_samples(fresh))
    few = sl.CompressiveAnomalyDetector(sketch_size=400, random_state=0).fit(train[:50])
    assert not few.reliable_
    assert "too many" in few.verdict_


def test_the_model_file(digits, tmp_path):
    _, fresh, _, found = digits
    model = sl.Model.of(found)
    model.save(tmp_path / "m.json")
    again = sl.Model.load(tmp_path / "m.json")
    assert again == model
    np.testing.assert_array_equal(again.predict(fresh), found.predict(fresh))
    assert set(again.answers(fresh)) == {"score", "anomaly"}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(fresh), found.predict(fresh))
    assert "distance from" in sl.plots.report(again)
    facts = json.loads(model.to_json())
    for change, word in [({"recipe": {}}, "recipe"), ({"ridge": 0.0}, "positive"), ({"mean": [0.0]}, "mean")]:
        with pytest.raises(sl.ModelFileError, match=word):
            sl.Model.from_json(json.dumps(facts | change))


def test_bad_numbers():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for bad in ({"method": "trees"}, {"contamination": 0.0}, {"sketch_size": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sl.CompressiveAnomalyDetector(**bad).fit(X)
