import json
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.decoders.classifier.ridge import decode_ridge
from sketchlearn.designs.spread import column_units
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.radial import MultiscaleLaw


@parametrize_with_checks(
    [sl.CompressiveClassifier(sketch_size=40), *(sl.CompressiveClassifier(m) for m in ("lda", "qda", "naive-bayes"))]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        sl.CompressiveClassifier("mean", sketch_size=40),
        sl.CompressiveClassifier("mixture", sketch_size=30, covariance_type="spherical"),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_with_fourier_features(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return make_moons(3000, noise=0.15, random_state=7)


@pytest.fixture(scope="module")
def fitted(moons):
    X, y = moons
    return sl.CompressiveClassifier(sketch_size=120, random_state=0).fit(X[:2000], y[:2000])


def test_classes_with_few_rows_get_fewer_components(moons):
    X, y = moons
    few = np.r_[np.flatnonzero(y == 0)[:500], np.flatnonzero(y == 1)[:25]]
    clf = sl.CompressiveClassifier("mixture", n_components=3, random_state=0).fit(X[few], y[few])
    assert [m.n_components for m in clf.solution_.rule.mixtures] == [3, 2]
    assert not clf.reliable_
    assert "too few rows" in clf.verdict_


def test_the_mean_rule_takes_weights_for_its_probabilities(moons):
    X, y = moons
    plain = sl.CompressiveClassifier("mean", random_state=0).fit(X[:900], y[:900])
    heavy = sl.CompressiveClassifier("mean", class_weight={1: 3.0}, random_state=0).fit_sketch(plain.sketch_)
    odds = [clf.predict_proba(X[:50]) for clf in (plain, heavy)]
    np.testing.assert_allclose(odds[1][:, 1] / odds[1][:, 0], 3.0 * odds[0][:, 1] / odds[0][:, 0])
    balanced = sl.CompressiveClassifier("mean", class_weight="balanced").fit_sketch(plain.sketch_)
    np.testing.assert_allclose(balanced.predict_proba(X[:50]), odds[0])


# -- the rule is that of the rows -----------------------------------------------------------------


def test_least_squares_is_ridge_on_the_same_features(moons, fitted):
    X, y = moons
    phi = fitted.sketch_.features
    F, T = phi.embed(X[:2000]), np.eye(2)[y[:2000]]
    clf = sl.CompressiveClassifier(alpha=3.0, features=phi).fit(X[:2000], y[:2000])
    ridge = Ridge(alpha=3.0).fit(F, T)
    np.testing.assert_allclose(clf.solution_.rule.coefficients, ridge.coef_.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(clf.solution_.rule.scores(X[2000:]), ridge.predict(phi.embed(X[2000:])), atol=1e-9)


def test_least_squares_on_columns_is_ridge(moons):
    X, y = load_wine(return_X_y=True)
    table = sl.sketch(X, sl.QuadraticFeatures.draw(dim=13), group_by=y)
    clf = sl.CompressiveClassifier("ridge", alpha=1.0).fit_sketch(table)
    ridge = Ridge(alpha=1.0).fit(X, np.eye(3)[y])
    np.testing.assert_allclose(clf.solution_.rule.scores(X), ridge.predict(X), atol=1e-9)


def test_cross_validation_from_the_sketch_is_that_of_the_rows(moons):
    X, y = moons
    X, y = X[:300], y[:300]
    # (a map of scales from fine to coarse that does not change with the design: the bound below is for its condition)
    law = MultiscaleLaw(low=0.1, knee=2.0, high=4.0, decay=2.0)
    scale = np.sqrt(2 / law.second_moment(2))
    inner = sl.FourierFeatures.draw(dim=2, size=20, scale=scale, radial=law, seed=1)
    phi = EmbeddedFeatures.of(inner.standardized(*column_units(X, None)))
    trace: list = []
    solution = decode_ridge(sl.sketch(X, phi, group_by=y), rng=np.random.default_rng(0), trace=trace)
    F, T = phi.embed(X), np.eye(2)[y]
    [everything] = [t for t in trace if t["band"] == "all"]
    F1 = F - F.mean(0)
    H = F1 @ np.linalg.solve(F1.T @ F1 + everything["penalty"] * np.eye(40), F1.T)
    left = T - T.mean(0) - H @ (T - T.mean(0))
    gcv = (left**2).sum() / 300 / (1 - (np.trace(H) + 1) / 300) ** 2
    assert everything["gcv"] == pytest.approx(gcv, rel=1e-8)
    # parameters count a little more when one of many fits is chosen
    cautious = [
        t["gcv"] * ((1 - u) / (1 - (1 + 40 / 300) * u)) ** 2 for t in trace for u in [(t["parameters"] + 1) / 300]
    ]
    assert solution.facts["gcv"] == trace[int(np.argmin(cautious))]["gcv"]


def rings(n, seed):
    """Three classes one around the other: what tells them apart is one function, the radius."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, np.digitize((X**2).sum(1), [5.5, 9.0])


def test_a_class_between_two_others_is_not_forgotten():
    X, y = rings(1500, 0)
    fresh, truth = rings(3000, 1)
    clf = sl.CompressiveClassifier(sketch_size=300, random_state=0).fit(X, y)
    own = truth == 1
    least = clf.solution_.rule.linear.scores(fresh).argmax(1)  # the largest score is seldom that of the middle
    assert np.mean(least[own] == 1) < 0.6
    assert np.mean(clf.predict(fresh)[own] == 1) > np.mean(least[own] == 1) + 0.1
    assert clf.score(fresh, truth) > np.mean(least == truth) + 0.05
    # densities of the scores are those of the rows' scores, wider by what cross-validation says
    linear, classes = clf.solution_.rule.linear, clf.solution_.rule.classes
    scores = linear.scores(X)[:, :-1]
    np.testing.assert_allclose(linear.scores(X).sum(1), 1.0)
    spread = [np.cov(scores[y == c].T, bias=True) for c in range(3)]
    pooled = sum(np.mean(y == c) * s for c, s in enumerate(spread))
    optimism = clf.facts_["gcv"] / clf.solution_.residual
    for c, law in enumerate(classes.mixtures):
        np.testing.assert_allclose(law.means[0], scores[y == c].mean(0), atol=1e-9)
        np.testing.assert_allclose(law.covariances[0], optimism * 0.5 * (spread[c] + pooled), rtol=1e-4, atol=1e-9)
    odds = clf.predict_proba(fresh)
    np.testing.assert_array_equal(odds.argmax(1), clf.predict(fresh))
    assert np.mean(-np.log(odds[np.arange(3000), truth])) < 0.6  # (shares of the classes: 1.1)


def test_moments_are_scikit_learns():
    for data in (load_wine, load_breast_cancer):
        X, y = data(return_X_y=True)
        X = (X - X.mean(0)) / X.std(0)
        peers = [("lda", LinearDiscriminantAnalysis(solver="lsqr")), ("naive-bayes", GaussianNB())]
        if data is load_wine:  # the other one has collinear columns, which scikit-learn's QDA refuses
            peers.append(("qda", QuadraticDiscriminantAnalysis()))
        for method, peer in peers:
            ours, theirs = sl.CompressiveClassifier(method).fit(X, y), peer.fit(X, y)
            np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
            if method == "naive-bayes":
                joint = theirs.predict_joint_log_proba(X)
                np.testing.assert_allclose(ours.solution_.rule.scores(X), joint, rtol=1e-9)


def test_a_wide_kernel_is_the_nearest_centroid(moons):
    X, y = moons
    phi = sl.FourierFeatures.draw(dim=2, size=600, scale=300.0, radial="gaussian", seed=0)
    clf = sl.CompressiveClassifier("mean", features=phi).fit(X, y)
    assert np.mean(clf.predict(X) == NearestCentroid().fit(X, y).predict(X)) > 0.995


# -- what it is good for --------------------------------------------------------------------------


def test_moons_are_told_apart(moons, fitted):
    X, y = moons
    assert fitted.score(X[2000:], y[2000:]) > 0.97
    assert fitted.reliable_
    mixture = sl.CompressiveClassifier("mixture", n_components=4, random_state=0).fit(X[:2000], y[:2000])
    assert mixture.score(X[2000:], y[2000:]) > 0.97
    mean = sl.CompressiveClassifier("mean", sketch_size=500, random_state=0).fit(X[:2000], y[:2000])
    assert mean.score(X[2000:], y[2000:]) > 0.8


def test_shuffled_labels_are_no_success(moons):
    X, y = moons
    clf = sl.CompressiveClassifier(sketch_size=40, random_state=0).fit(X, np.random.default_rng(0).permutation(y))
    assert clf.facts_["explained"] < 0.01
    same = sl.CompressiveClassifier("mean", sketch_size=100, random_state=0)
    same.fit(np.repeat(X[:500], 2, 0), ["a", "b"] * 500)
    assert not same.reliable_
    assert "don't differ by more than their noise" in same.verdict_


# -- sketches of classes --------------------------------------------------------------------------


def test_batches_new_classes_and_deletions(moons, fitted):
    X, y = moons
    stream = sl.CompressiveClassifier(features=fitted.sketch_.features)
    stream.partial_fit(X[:700], y[:700], classes=[0, 1]).partial_fit(X[700:2000], y[700:2000])
    assert stream.sketch_ == fitted.sketch_
    np.testing.assert_array_equal(stream.predict(X), fitted.predict(X))
    stream.partial_fit(X[:400] + 6.0, np.full(400, 2))
    assert stream.classes_.tolist() == [0, 1, 2]
    assert np.mean(stream.predict(X[2000:] + 6.0) == 2) > 0.9
    without = sl.CompressiveClassifier().fit_sketch({k: s for k, s in stream.sketch_.items() if k != 2})
    np.testing.assert_array_equal(without.solution_.rule.coefficients, fitted.solution_.rule.coefficients)
    rest = {0: stream.sketch_[0], 1: stream.sketch_[1] - sl.sketch(X[:500][y[:500] == 1], stream.sketch_.features)}
    assert sl.CompressiveClassifier().fit_sketch(rest).class_counts_[1] < fitted.class_counts_[1]
    with pytest.raises(ValueError, match="not among classes"):
        stream.partial_fit(X, y + 1, classes=[0, 1])


def test_class_weights_are_weights_of_rows(moons):
    X, y = moons
    keep = (y == 0) | (np.arange(len(y)) % 5 == 0)
    X, y = X[keep], y[keep]
    phi = sl.design(X, task="classifier", size=40)
    factor = {0: 1.0, 1: 4.0}
    ours = sl.CompressiveClassifier(class_weight=factor, alpha=0.0, features=phi).fit(X, y)
    rows = sl.CompressiveClassifier(alpha=0.0, features=phi).fit(X, y, sample_weight=[factor[c] for c in y])
    np.testing.assert_allclose(ours.predict_proba(X), rows.predict_proba(X), atol=1e-6)
    balanced = sl.CompressiveClassifier(class_weight="balanced", features=phi).fit(X, y)
    assert (balanced.predict(X) == 1).sum() > (sl.CompressiveClassifier(features=phi).fit(X, y).predict(X) == 1).sum()


def test_labels_of_any_kind(moons):
    X, y = moons
    for labels in (np.array(["no", "yes"])[y], 2.0 * y - 1.0, y == 1):
        clf = sl.CompressiveClassifier("lda").fit(X, labels)
        np.testing.assert_array_equal(clf.classes_, np.unique(labels))
        model = sl.Model.from_json(clf.to_model().to_json())
        np.testing.assert_array_equal(model.predict(X), clf.predict(X))
        assert model.labels.dtype.kind == clf.classes_.dtype.kind


def test_files_and_streams(moons, tmp_path):
    import pandas as pd

    X, y = moons
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.array(["x", "y"])[y])
    frame.to_parquet(tmp_path / "rows.parquet")
    clf = sl.CompressiveClassifier(sketch_size=60, random_state=0).fit(tmp_path / "rows.parquet", "kind")
    assert clf.classes_.tolist() == ["x", "y"]
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    assert np.mean(clf.predict(frame[["a", "b"]]) == frame.kind) > 0.95
    clf.partial_fit(tmp_path / "rows.parquet", "kind")
    assert clf.class_counts_.sum() == 6000
    batches = (np.column_stack([X[i : i + 500], y[i : i + 500]]) for i in range(0, 3000, 500))
    stream = sl.CompressiveClassifier("lda").fit(batches, 2)
    np.testing.assert_array_equal(stream.predict(X), sl.CompressiveClassifier("lda").fit(X, y).predict(X))
    with pytest.raises(ValueError, match="which column"):
        clf.fit(tmp_path / "rows.parquet")


# -- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ridge", "lda", "mean", "mixture"])
def test_models_predict_without_the_estimator(moons, method, tmp_path):
    X, y = moons
    clf = sl.CompressiveClassifier(method, sketch_size=None if method == "lda" else 60, random_state=0).fit(X, y)
    model = sl.Model.of(clf)
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again == model
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    assert len(again.table()) == again.size == 2
    assert (again.reliable, again.verdict) == (clf.reliable_, clf.verdict_)
    assert "2 classes" in again.headline
    assert "classes" in sl.plots.report(again)
    same = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(same.predict_proba(X), clf.predict_proba(X))
    probabilities = clf.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    np.testing.assert_array_equal(clf.classes_[probabilities.argmax(1)], clf.predict(X))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"recipe": {"kind": "fourier"}}, "recipe"),
        ({"coefficients": [[1.0, 2.0]]}, "features"),
        ({"classes": ["0"]}, "classes"),
        ({"classes": ["a", "b"]}, "no int"),
        ({"label_type": "date"}, "type"),
        ({"recipe": None, "coefficients": None}, "neither"),
        ({"mixtures": 3}, "list"),
        ({"softness": -1.0}, "softness"),
    ],
)
def test_damaged_models_are_refused(fitted, change, word):
    facts = json.loads(fitted.to_model().to_json())
    with pytest.raises(sl.ModelFileError, match=word):
        sl.Model.from_json(json.dumps(facts | change))


# -- what bad input gets --------------------------------------------------------------------------


def test_bad_arguments_are_refused(moons, fitted):
    X, y = moons
    for options, word in [
        ({"method": "magic"}, "choose"),
        ({"alpha": -1.0}, "alpha"),
        ({"shrinkage": 2.0}, "shrinkage"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, "class_weight"),
        ({"n_components": 0}, "n_components"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.CompressiveClassifier(**options).fit(X, y)
    with pytest.raises(TypeError, match="one Sketch a class"):
        fitted.fit_sketch(fitted.sketch_[0])
    with pytest.raises(TypeError, match="products"):
        sl.CompressiveClassifier("ridge").fit_sketch({0: sl.sketch(X, sl.design(X, n_components=2))})
    with pytest.raises(ValueError, match="no class"):
        sl.CompressiveClassifier().fit_sketch({0: fitted.sketch_[0], None: fitted.sketch_[1]})
    with pytest.raises(TypeError, match="table"):
        sl.decode(fitted.sketch_[0], 1, task="classifier")
    with pytest.raises(ValueError, match="one component"):
        sl.decode(fitted.sketch_, 2, task="classifier")
