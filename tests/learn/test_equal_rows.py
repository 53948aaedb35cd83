"""Rows that are all equal, up to rounding: nothing varies, nothing can be told apart, and no answer says otherwise."""

import numpy as np
import pytest

import sketchlearn as sl

ROWS = {
    "value": np.tile([[0.54191578, -0.28363886]], (300, 1)),
    "zeros": np.zeros((300, 2)),
    "mixed": np.tile([[2.0, -3e-7]], (300, 1)),
}
LABELS = np.arange(300) % 3
SHARES = np.array([0.5, 0.3, 0.2])

each = pytest.mark.parametrize("X", ROWS.values(), ids=ROWS)
pytestmark = pytest.mark.filterwarnings("ignore")


@each
@pytest.mark.parametrize("method", ["ridge", "mean", "lda", "qda", "naive-bayes"])
def test_classes_of_equal_rows_are_not_told_apart(X, method):
    y = np.repeat([0, 1, 2], (300 * SHARES).astype(int))
    if method == "lda":
        found = sl.CompressiveLDA(random_state=0).fit(X, y)
    else:
        size = None if method in ("qda", "naive-bayes") else 50
        found = sl.CompressiveClassifier(method, sketch_size=size, random_state=0).fit(X, y)
    assert not found.reliable_
    if method != "mean":  # which has no shares
        np.testing.assert_allclose(found.predict_proba(X[:1])[0], SHARES, atol=1e-3)


@each
@pytest.mark.parametrize("standardize", [False, True])
def test_second_moments_of_equal_rows_hold_no_variance(X, standardize):
    found = sl.CompressivePCA(1, standardize=standardize).fit(X)
    assert found.explained_variance_[0] <= 1e-20 * max(np.abs(X).max() ** 2, 1e-300)
    assert np.isfinite(found.solution_.residual)
    assert not found.reliable_
    assert "No column varies" in found.verdict_


@each
def test_equal_rows_have_no_independent_components(X):
    with pytest.raises(ValueError, match="need columns that vary"):
        sl.CompressiveICA(random_state=0).fit(X)


@each
def test_all_others_answer_without_certainty(X):
    target = np.arange(300.0)
    for found in (
        sl.CompressiveGaussianMixture(2, random_state=0).fit(X),
        sl.CompressiveStableMixture(1, random_state=0).fit(X),
        sl.CompressiveLinearRegression().fit(X, target),
        sl.CompressiveMixtureRegressor(2, sketch_size=60, random_state=0).fit(X, target),
        sl.CompressiveCCA(1).fit(X, np.column_stack([target, target**2])),
        sl.CompressiveSubspaces(1, dim=1, random_state=0).fit(X),
    ):
        assert not found.reliable_, found


@pytest.mark.parametrize("far", [1e5, 2e7])
def test_a_far_row_whose_width_hides_that_of_all_others_is_said(far):
    """One component from exact moments: correlations of 1 - 1e-12 would leave nothing of the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    y = X[:, 0] + 0.1 * rng.normal(size=1000)
    X[0], y[0] = far * rng.normal(size=5), far
    found = sl.CompressiveMixtureRegressor(1, random_state=0).fit(X, y)
    new = rng.normal(size=(1000, 5))
    right = np.linalg.lstsq(X - X.mean(0), y - y.mean(), rcond=None)[0]
    off = np.std(found.predict(new) - new @ right)
    assert off < 0.1 * np.std(new @ right) or not found.reliable_


@pytest.mark.parametrize("factors", [(1.0, 1e6, 1e-6), (1.0, 1e9, 1.0), (1e-12, 1e3, 1e8)])
def test_standardised_components_do_not_depend_on_units(factors):
    """A column ever so narrow beside another is no constant."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) @ np.array([[1, 0.5, 0.2], [0, 1, 0.3], [0, 0, 1]]) + 2.0
    plain, scaled = (sl.CompressivePCA(2, standardize=True).fit(rows) for rows in (X, X * factors))
    np.testing.assert_allclose(scaled.explained_variance_, plain.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(scaled.components_, plain.components_, atol=1e-5)
