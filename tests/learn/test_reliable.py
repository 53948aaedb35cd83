"""What is called reliable is right: rows that say nothing, too few rows, rows far away, and columns nearly alike."""

import warnings

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders import decode
from sketchlearn.decoders.solution import Code


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


CLASSIFIERS = ("lda", "qda", "naive-bayes", "ridge")


def learned(method, X, y, **options):
    if method == "ridge":
        options["sketch_size"] = 100
    return sl.CompressiveClassifier(method, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("method", CLASSIFIERS)
def test_classes_that_are_alike_are_not_told_apart_reliably(method):
    # each with a probability of a thousandth: more than one of thirty has one of 4e-4
    found = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 8))
        found += learned(method, rng.normal(size=(300, d)), rng.integers(3, size=300)).reliable_
    assert found <= 1


@pytest.mark.parametrize("method", CLASSIFIERS)
def test_classes_that_are_apart_are_told_apart_reliably(method):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    found = learned(method, rng.normal(size=(600, 4)) + 2.0 * np.eye(4)[y], y)
    assert found.reliable_, found.verdict_


@pytest.mark.parametrize("method", CLASSIFIERS)
def test_fewer_rows_than_columns_make_no_reliable_classifier(method):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = np.arange(20) % 2
        assert not learned(method, rng.normal(size=(20, 30)) + y[:, None] * 0.2, y).reliable_


def test_a_rule_with_a_parameter_for_most_rows_is_not_reliable():
    """Rows on wide rings have features of their own, and cross-validation takes all rows to be alike."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X, new = (rng.normal(size=(300, 18)) * np.exp(3.0 * y)[:, None] for _ in range(2))
    found = sl.CompressiveClassifier("ridge", sketch_size=200, random_state=0).fit(X, y)
    assert found.facts_["explained"] > 0.9
    assert found.score(new, y) < 0.8
    assert not found.reliable_


@pytest.mark.parametrize("method", ["lda", "qda", "naive-bayes"])
def test_rows_that_are_all_one_make_no_error(method):
    X = np.full((100, 3), 0.1) * [1.0, 30.0, 1e6] / 3.0
    found = learned(method, X, np.arange(100) % 2)
    assert not found.reliable_
    assert np.isfinite(found.predict_proba(X)).all()


@pytest.mark.parametrize("method", ["mean", "naive-bayes", "lda"])
def test_classes_of_a_few_rows_are_not_told_apart_reliably(method):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = np.r_[np.zeros(6), np.ones(100)].astype(int)
        X = rng.normal(size=(106, 3)) + 4.0 * y[:, None]
        found = learned(method, X, y)
        assert not found.reliable_
        assert "Class 0 has 6 rows" in found.verdict_


def test_classes_of_single_rows_have_no_reliable_means():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 10))
        y = np.r_[0, 1, 2, rng.integers(3, size=n - 3)]
        assert not learned("mean", rng.normal(size=(n, 12)), y).reliable_
    y = np.arange(300) % 3
    assert learned("mean", np.random.default_rng(0).normal(size=(300, 3)) + 3.0 * np.eye(3)[y], y).reliable_


def test_the_claim_of_a_rich_rule_is_that_of_new_rows():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    few, many = (slice(0, 40), slice(0, 300))
    X = rng.normal(size=(300, 10)) + 0.8 * y[:, None]
    lda = [sl.CompressiveLDA(random_state=0).fit(X[at], y[at]) for at in (few, many)]
    assert [found.reliable_ for found in lda] == [False, True]
    assert lda[0].facts_["gain_left"] < 0.8 * lda[0].facts_["gain"]


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_a_mixture_of_rows_far_away_is_not_reliable(shape):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 2))
        X[5] = [1e4, -1e4]
        found = sl.CompressiveGaussianMixture(1, covariance_type=shape, random_state=seed).fit(X)
        assert not found.reliable_
        assert found.means_std_ is None


def test_a_mixture_with_more_numbers_than_rows_can_tell_is_not_reliable():
    X = np.random.default_rng(3).normal(size=(300, 8))
    found = sl.CompressiveGaussianMixture(4, random_state=0).fit(X)
    assert not found.reliable_
    assert sl.CompressiveGaussianMixture(1, random_state=0).fit(X).reliable_


def test_a_reliable_mixture_reaches_as_far_as_the_rows_and_no_farther():
    X = np.random.default_rng(0).normal(size=(2000, 2)) * [1.0, 3.0]
    found = sl.CompressiveGaussianMixture(1, random_state=0).fit(X)
    assert found.reliable_
    assert found.means_std_ is not None


def test_mixtures_of_few_rows_in_columns_that_repeat_are_densities():
    rng = np.random.default_rng(16)
    n, d, k = (int(rng.integers(low, high)) for low, high in ((5, 101), (2, 7), (1, 6)))
    X = rng.normal(size=(n, d))
    X[:, -1] = X[:, 0]
    found = sl.CompressiveGaussianMixture(min(k, n), random_state=16).fit(X)
    assert np.isfinite(found.score_samples(X)).all()
    assert (np.linalg.eigvalsh(found.covariances_) > 0).all()


@pytest.mark.parametrize("far", [5e7, 1e8, 2e8])
def test_regression_that_rounding_may_change_is_not_reliable(far):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    X[7] += far * np.array([1.0, 1.1, 0.9, 1.05])
    y = X @ [1.0, -2.0, 3.0, 0.5] + rng.normal(size=2000)
    found = sl.CompressiveLinearRegression().fit(X, y)
    assert not found.reliable_
    assert sl.CompressiveLinearRegression().fit(np.delete(X, 7, 0), np.delete(y, 7)).reliable_


def test_one_component_of_a_far_row_is_no_reliable_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=300)
    assert sl.CompressiveMixtureRegressor("auto", random_state=0).fit(X, y).reliable_
    X[0] += [1e3, 6e3]
    y[0] += X[0] @ [1.0, -2.0]
    found = sl.CompressiveMixtureRegressor("auto", random_state=0).fit(X, y)
    assert not found.reliable_
    assert "the model has no row as far out" in found.verdict_


def test_regression_without_rows_left_to_tell_the_noise_is_not_reliable():
    rng = np.random.default_rng(0)
    found = sl.CompressiveLinearRegression().fit(rng.normal(size=(5, 4)), rng.normal(size=5))
    assert found.solution_.code is Code.UNDETERMINED


def test_correlations_of_a_constant_are_none_and_not_reliable():
    X = np.random.default_rng(0).normal(size=(100, 3))
    found = sl.CompressiveCCA("auto").fit(X, np.full((100, 2), 3.0))
    assert not found.reliable_
    assert "there are no correlations" in found.verdict_


def test_a_correlation_that_one_row_makes_is_not_reliable():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(500, 2)), rng.normal(size=(500, 2))
    X[3, 0] = Y[3, 1] = 1e3
    found = sl.CompressiveCCA(1).fit(X, Y)
    assert found.p_values_[0] < 1e-6
    assert not found.reliable_


def test_options_of_decoders_are_refused_by_name():
    X = np.random.default_rng(0).normal(size=(200, 2))
    s = sl.sketch(X, sl.design(X, n_components=2))
    for options, name in (
        ({"n_decodes": -2}, "n_decodes"),
        ({"random_state": "now"}, "random_state"),
        ({"task": "gmm", "starts": -1}, "starts"),
        ({"task": "gmm", "rounds": "many"}, "rounds"),
        ({"task": "gmm", "project": "no"}, "project"),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            decode(s, 2, **options)


def test_flags_of_functions_are_refused_by_name():
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.raises(ValueError, match=r"^standardize must be True or False"):
        sl.design(X, n_components=2, standardize="no")
    with pytest.raises(ValueError, match=r"^progress must be"):
        sl.sketch(X, sl.design(X, n_components=2), progress=3)


@pytest.mark.parametrize("make", [sl.CompressiveClassifier, sl.CompressiveLDA, sl.CompressiveVerifier])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", None], "^y: row 1 has no"),
        (["a", float("nan")], "^y: row 1 has no"),
        (["a", 3], "^y mixes labels of several types"),
        ([True, "b"], "^y mixes labels of several types"),
    ],
)
def test_labels_that_are_missing_or_mixed_are_refused(make, labels, words):
    y = np.array(labels * 50, dtype=object)
    for given in (y, y.tolist()):
        with pytest.raises(ValueError, match=words):
            make().fit(np.random.default_rng(0).normal(size=(100, 2)), given)
