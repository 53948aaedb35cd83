"""Units of columns: nothing depends on them where the task does not, and a warning says so where it does."""

import warnings

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.exceptions import DataWarning

NARROW = (1.0, 1e-6, 1e-9, 1e-13)


def clouds(seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2)) + 8.0])


@pytest.mark.parametrize("shape", ["full", "tied", "diag"])
@pytest.mark.parametrize("unit", NARROW)
def test_mixtures_are_the_same_in_any_units(shape, unit):
    units = np.array([1.0, unit])
    found = sl.CompressiveGaussianMixture(2, covariance_type=shape, random_state=0).fit(clouds() * units)
    assert found.reliable_, found.verdict_
    assert np.abs(np.sort(found.means_ / units, axis=0) - [[0.0, 0.0], [8.0, 8.0]]).max() < 0.2


@pytest.mark.parametrize("shape", ["full", "diag"])
@pytest.mark.parametrize("unit", NARROW)
def test_stable_laws_are_the_same_in_any_units(shape, unit):
    units = np.array([1.0, unit])
    found = sl.CompressiveStableMixture(2, scatter_type=shape, random_state=0).fit(clouds() * units)
    assert np.abs(np.sort(found.locations_ / units, axis=0) - [[0.0, 0.0], [8.0, 8.0]]).max() < 0.3


@pytest.mark.parametrize("method", ["ridge", "mixture", "mean", "lda", "qda", "naive-bayes"])
@pytest.mark.parametrize("unit", NARROW)
def test_classes_are_told_apart_in_any_units(method, unit):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), np.arange(600) % 2
    X[:, 1] += 4.0 * y
    size = 300 if method in ("ridge", "mean") else None
    found = sl.CompressiveClassifier(method, sketch_size=size, random_state=0).fit(X * [1.0, unit, 1e3], y)
    assert found.score(X * [1.0, unit, 1e3], y) > 0.95


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("unit", NARROW)
def test_mixture_regression_predicts_in_any_units(components, unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X[:, 1] + 0.1 * rng.normal(size=2000)
    found = sl.CompressiveMixtureRegressor(components, random_state=0).fit(X * [1.0, unit], y)
    assert found.score(X * [1.0, unit], y) > 0.95


@pytest.mark.parametrize("method", ["features", "columns"])
@pytest.mark.parametrize("unit", NARROW)
def test_shifts_in_narrow_columns_are_anomalies(method, unit):
    units = np.array([1.0, unit])
    X = np.random.default_rng(0).normal(size=(1000, 2)) * units
    found = sl.CompressiveAnomalyDetector(method, random_state=0).fit(X)
    assert (found.predict(X[:200] + 100.0 * units * [0.0, 1.0]) < 0).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: sl.CompressiveKMeans(2, random_state=0),
        lambda: sl.CompressivePCA(1),
        lambda: sl.CompressiveSubspaces(1, dim=1, random_state=0),
        lambda: sl.CompressiveGaussianMixture(1, covariance_type="spherical", random_state=0),
        lambda: sl.CompressiveAnomalyDetector(standardize=False, random_state=0),
    ],
)
def test_where_units_matter_a_warning_says_which_column_decides(make):
    X = np.random.default_rng(0).normal(size=(500, 2)) * [1e6, 1.0]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        make().fit(X)
    assert [str(w.message).split(" has ")[0] for w in said if w.category is DataWarning] == ["column 0"]


def test_a_sketch_that_does_not_see_a_column_gives_no_reliable_mixture():
    X = np.random.default_rng(0).normal(size=(2000, 2)) * [1.0, 1e-6]
    s = sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=200, scale=1.0, seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sl.decode(s, 1, task="gmm", covariance_type="diag", random_state=0)
    assert not found.reliable
    assert "in column 1" in found.verdict
