import json
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl
from sketchlearn.models.conditional import ConditionalMixture


@parametrize_with_checks([sl.CompressiveMixtureRegressor()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([sl.CompressiveMixtureRegressor(covariance="diag")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_with_many_targets(estimator, check):
    check(estimator)


def kinks(n=4000, seed=0):
    """A kink in the first target and none in the second: in all a mixture of two components."""
    rng = np.random.default_rng(seed)
    side = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    x = np.column_stack([3.0 * side + rng.normal(size=n), rng.normal(size=n)])
    y = np.column_stack([-side * x[:, 0], x[:, 1] + 0.5 * x[:, 0]])
    return x, y + 0.5 * rng.normal(size=y.shape)


@pytest.fixture(scope="module")
def fitted():
    x, y = kinks()
    return sl.CompressiveMixtureRegressor(2, missing="marginalize", random_state=0).fit(x, y)


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2)) * [1.0, 50.0]
    y = X @ [2.0, 0.1] + 3.0 + rng.normal(size=4000)
    return X, y, sl.CompressiveMixtureRegressor(1, random_state=0).fit(X, y)


# -- the law --------------------------------------------------------------------------------------


def test_conditionals_are_those_of_single_rows():
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 4, 4))
    joint = sl.Mixture(np.array([0.2, 0.3, 0.5]), rng.normal(size=(3, 4)), roots @ roots.transpose(0, 2, 1))
    law = ConditionalMixture(joint, np.array([3, 0]), np.array([1, 2]))
    rows = rng.normal(size=(5, 2))
    rows[1, 0] = rows[2, 1] = np.nan
    rows[3] = np.nan
    mean, variance, quantiles = law.mean(rows), law.variance(rows), law.quantiles(rows, [0.1, 0.7])
    for i, (a, b) in enumerate(rows):
        known = [(3, a)] * (not np.isnan(a)) + [(0, b)] * (not np.isnan(b))
        if known:
            given = joint.conditional([c for c, _ in known], [v for _, v in known])
            left = [c for c in range(4) if c not in [k for k, _ in known]]
            one = given.marginal([left.index(1), left.index(2)])
        else:
            one = joint.marginal([1, 2])
        np.testing.assert_allclose(mean[i], one.mean, rtol=1e-9)
        np.testing.assert_allclose(variance[i], np.diag(one.covariance), rtol=1e-9)
        for t in range(2):
            np.testing.assert_allclose(quantiles[i, t], one.quantile(np.eye(2)[t], [0.1, 0.7]), rtol=1e-9)
    draws = law.sample(np.repeat(rows[:1], 20_000, 0), random_state=0)
    np.testing.assert_allclose(draws.mean(0), mean[0], atol=5 * np.sqrt(variance[0].max() / 20_000))
    np.testing.assert_allclose(draws.var(0), variance[0], rtol=0.1)


def test_quantiles_of_a_mixture():
    rng = np.random.default_rng(0)
    mixture = sl.Mixture(np.array([0.3, 0.7]), np.array([[0.0, 1.0], [4.0, -2.0]]), np.array([[1.0, 2.0], [0.5, 1.0]]))
    direction = np.array([1.0, -2.0])
    drawn = mixture.sample(200_000, rng)[0] @ direction
    for p in (0.01, 0.3, 0.5, 0.99):
        assert np.mean(drawn < mixture.quantile(direction, p)) == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 2e5))
    assert mixture.quantile(direction, [[0.1], [0.2]]).shape == (2, 1)
    for bad in (0.0, 1.0):
        with pytest.raises(ValueError, match="probabilities"):
            mixture.quantile(direction, bad)
    with pytest.raises(ValueError, match="direction"):
        mixture.quantile([1.0], 0.5)


# -- the regression -------------------------------------------------------------------------------


def test_one_component_is_linear_regression(line):
    X, y, reg = line
    peer = LinearRegression().fit(X, y)
    np.testing.assert_allclose(reg.predict(X), peer.predict(X), rtol=1e-9)
    std = reg.predict(X, return_std=True)[1]
    freedom = len(X) - 3
    rest = np.sum((y - peer.predict(X)) ** 2) / freedom
    ones = np.column_stack([np.ones(len(X)), X])
    far = np.einsum("ni,ij,nj->n", ones, np.linalg.inv(ones.T @ ones), ones)
    textbook = np.sqrt(rest * (1 + far) * freedom / (freedom - 2))
    np.testing.assert_allclose(std, textbook, rtol=1e-5)
    low, high = reg.predict_interval(X, 0.9)
    assert np.mean((low < y) & (y < high)) == pytest.approx(0.9, abs=0.04)
    assert reg.reliable_
    halves = sl.CompressiveMixtureRegressor(1).partial_fit(X[:1500], y[:1500]).partial_fit(X[1500:], y[1500:])
    np.testing.assert_allclose(halves.predict(X), peer.predict(X), rtol=1e-9)
    without = sl.CompressiveMixtureRegressor(1).fit_sketch(
        reg.sketch_ - sl.sketch(np.c_[X, y][:999], reg.sketch_.features)
    )
    np.testing.assert_allclose(without.predict(X), LinearRegression().fit(X[999:], y[999:]).predict(X), rtol=1e-7)


def test_intervals_know_how_many_rows_there_were():
    rng = np.random.default_rng(5)
    held = []
    for _ in range(60):
        X = rng.normal(size=(220, 3))
        y = X @ [1.0, -1.0, 2.0] + rng.normal(size=220)
        low, high = sl.CompressiveMixtureRegressor(1).fit(X[:20], y[:20]).predict_interval(X[20:], 0.9)
        held.append(np.mean((low < y[20:]) & (y[20:] < high)))
    # with the residual variance alone they would hold 0.85
    assert np.mean(held) == pytest.approx(0.9, abs=4 * np.std(held) / np.sqrt(60))
    joint = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    law = ConditionalMixture(joint, np.array([0]), np.array([1]), rows=12)
    given = np.array([[0.0], [3.0], [np.nan]])
    np.testing.assert_allclose(law.variance(given)[:, 0], [13 / 12 * 10 / 8, 22 / 12 * 10 / 8, 13 / 12 * 11 / 9])
    draws = law.sample(np.repeat(given[1:2], 20_000, 0), random_state=0)
    assert draws.var() == pytest.approx(law.variance(given[1:2])[0, 0], rel=5 * np.sqrt(2 / 20_000))


def test_few_rows_are_regressed_linearly_by_default():
    X, y = load_diabetes(return_X_y=True)
    reg = sl.CompressiveMixtureRegressor(random_state=0).fit(X, y)
    assert reg.n_components_ == 1
    np.testing.assert_allclose(reg.predict(X), LinearRegression().fit(X, y).predict(X), rtol=1e-8)


def test_one_component_wins_where_it_explains_the_sketch():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=3000)
    reg = sl.CompressiveMixtureRegressor(random_state=0).fit(X, y)
    assert reg._fitting(3, 3000) > 1
    assert (reg.n_components_, reg.reliable_) == (1, True)
    kinked, z = kinks(2000)
    assert sl.CompressiveMixtureRegressor(random_state=0).fit(kinked, z[:, 0]).n_components_ > 1


def test_one_gaussian_from_moments():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)) + 5.0
    X = np.column_stack([X, X[:, 0] - X[:, 1], np.full(300, 2.0)])  # collinear, and without any spread
    s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=5))
    found = sl.decode(s, 1, task="gmm", decoder="moments")
    np.testing.assert_allclose(found.covariances[0], np.cov(X.T), atol=1e-9)
    assert np.isfinite(found.mixture.log_density(X)).all()
    for kind, shape in [("tied", (5, 5)), ("diag", (1, 5)), ("spherical", (1,))]:
        assert sl.decode(s, 1, task="gmm", decoder="moments", covariance_type=kind).covariances.shape == shape
    for wrong, word in [({"n_components": 2}, "one component"), ({"covariance_type": "odd"}, "covariance_type")]:
        with pytest.raises(ValueError, match=word):
            sl.decode(s, **{"n_components": 1, "task": "gmm", "decoder": "moments", **wrong})
    few = sl.sketch(X, sl.QuadraticFeatures.draw(dim=5, size=4))
    with pytest.raises(TypeError, match="all products"):
        sl.decode(few, 1, task="gmm", decoder="moments")
    with pytest.raises(ValueError, match="task='gmm'"):
        sl.CompressiveMixtureRegressor(3).fit_sketch(s)


def test_kinks_several_targets_and_missing_inputs(fitted):
    fresh, truth = kinks(seed=9)
    found = fitted.predict(fresh)
    assert found.shape == truth.shape
    best = 1.0 - 0.25 / truth.var(0)
    assert fitted.score(fresh, truth) > best.mean() - 0.03
    assert fitted.reliable_
    low, high = fitted.predict_interval(fresh)
    np.testing.assert_allclose(np.mean((low < truth) & (truth < high), 0), 0.9, atol=0.03)
    assert fitted.predict_quantiles(fresh[:5], [0.1, 0.5]).shape == (5, 2, 2)
    assert fitted.sample(fresh[:5], random_state=0).shape == (5, 2)
    holes = fresh.copy()
    holes[:, 1] = np.nan
    some = fitted.predict(holes)
    np.testing.assert_allclose(some[:, 0], found[:, 0], atol=0.5)  # the first target needs the first column only
    np.testing.assert_allclose(some[:, 1], 0.5 * fresh[:, 0], atol=0.5)  # the second one needs both
    assert fitted.in_support(fresh).mean() > 0.98
    assert not fitted.in_support([[50.0, 0.0]])[0]


def test_any_column_from_the_same_sketch(fitted):
    back = sl.CompressiveMixtureRegressor(2, random_state=0).fit_sketch(fitted.sketch_, targets=1, predictors=[3])
    assert back.n_features_in_ == 1
    assert back.predict([[-1.0]]).shape == (1,)
    with pytest.raises(ValueError, match="both"):
        back.fit_sketch(fitted.sketch_, targets=1, predictors=[1])


def test_components_follow_the_rows():
    reg = sl.CompressiveMixtureRegressor()
    assert [reg._fitting(2, n) for n in (50, 600, 10**6)] == [1, 5, 12]
    assert reg._fitting(11, 309) == 1


def test_models_predict_without_the_estimator(fitted, line, tmp_path):
    fresh, _ = kinks(100, seed=3)
    for reg, rows in ((fitted, fresh), (line[2], line[0][:50])):
        model = sl.Model.of(reg)
        model.save(tmp_path / "model.json")
        again = sl.Model.load(tmp_path / "model.json")
        assert again == model
        np.testing.assert_allclose(again.predict(rows), reg.predict(rows), rtol=1e-9, atol=1e-12)
        assert "from 2 columns" in again.headline
        assert len(again.table()) == again.size
        assert "from 2 columns" in sl.plots.report(again)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(reg)).predict(rows), reg.predict(rows))
    facts = json.loads(model.to_json())
    for change, word in [
        ({"targets": []}, "different"),
        ({"targets": ["nowhere"]}, "no column"),
        ({"covariances": [[[-1.0, 0, 0], [0, 1, 0], [0, 0, 1]]]}, "negative"),
    ]:
        with pytest.raises(sl.ModelFileError, match=word):
            sl.Model.from_json(json.dumps(facts | change))


def test_frames_name_the_columns():
    import pandas as pd

    X, y = kinks(800)
    reg = sl.CompressiveMixtureRegressor(1, random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]), y[:, 0])
    assert reg.to_model().headline.startswith("target from 2 columns")
    assert reg.to_model().predictors == ("a", "b")


def test_bad_arguments_are_refused(line):
    X, y, reg = line
    for options, word in [
        ({"n_components": "many"}, "auto"),
        ({"n_components": 0}, "positive"),
        ({"missing": "guess"}, "missing"),
        ({"decoder": "magic"}, "decoder"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.CompressiveMixtureRegressor(**options).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        reg.predict([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="level"):
        reg.predict_interval(X, 1.0)
