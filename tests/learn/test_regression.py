import warnings

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import check_estimator

import sketchlearn as sl

SCALES = 10.0 ** np.linspace(-3, 3, 6)
CASES = {
    "plain": lambda Z: Z,
    "far from the origin": lambda Z: Z + 1e4,
    "badly scaled": lambda Z: (Z + 2.0) * SCALES,
    "correlated and badly scaled": lambda Z: (Z + 0.9 * Z[:, :1]) * SCALES,
}


@pytest.mark.parametrize("estimator", [sl.CompressiveLinearRegression(), sl.CompressiveLinearRegression(alpha=1.0)])
def test_scikit_learn_accepts_it(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # some checks have fewer rows than columns
        check_estimator(estimator, on_skip=None)


def _data(case, n=2000, targets=2):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 6))
    Y = Z @ rng.normal(size=(6, targets)) + 3.0 + rng.normal(size=(n, targets))
    return CASES[case](Z), Y


def _close(ours, theirs, tolerance=1e-8):
    for name in ("coef_", "intercept_"):
        a, b = getattr(ours, name), np.asarray(getattr(theirs, name))
        assert (np.abs(a - b) <= tolerance * np.abs(b)).all(), (name, np.abs(a / b - 1).max())


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("alpha", [0.0, 2.5])
def test_it_is_least_squares_on_the_rows(case, alpha):
    """To 1e-8, also for merged, streamed and partly subtracted sketches."""
    X, Y = _data(case)
    # LinearRegression drops directions below `tol` of the largest singular value, which badly scaled columns are
    theirs = Ridge(alpha=alpha, solver="svd").fit(X, Y) if alpha else LinearRegression(tol=1e-13).fit(X, Y)
    ours = sl.CompressiveLinearRegression(alpha=alpha).fit(X, Y)
    _close(ours, theirs)
    assert ours.r2_.mean() == pytest.approx(theirs.score(X, Y), rel=1e-9)
    phi, columns = ours.sketch_.features, np.column_stack([X, Y])
    more = sl.sketch(columns[:300] * 1.5, phi)
    merged = sl.merge([sl.sketch(part, phi) for part in np.array_split(columns, 7)]) + more - more
    _close(sl.CompressiveLinearRegression(alpha=alpha).fit_sketch(merged, targets=[6, 7]), theirs)
    stream = sl.CompressiveLinearRegression(alpha=alpha)
    for part in np.array_split(np.arange(2000), 9):
        stream.partial_fit(X[part], Y[part])
    _close(stream, theirs)
    np.testing.assert_allclose(stream.predict(X[:5]), theirs.predict(X[:5]), rtol=1e-8)


def test_without_an_intercept_and_with_weights():
    X, Y = _data("badly scaled")
    _close(
        sl.CompressiveLinearRegression(fit_intercept=False).fit(X, Y),
        LinearRegression(fit_intercept=False, tol=1e-13).fit(X, Y),
    )
    w = np.random.default_rng(0).integers(0, 4, len(X)) / 4
    ours = sl.CompressiveLinearRegression().fit(X, Y[:, 0], sample_weight=w)
    theirs = LinearRegression(tol=1e-13).fit(X, Y[:, 0], sample_weight=w)
    _close(ours, theirs)
    assert isinstance(ours.intercept_, float)


def test_standard_errors_are_those_of_the_textbook():
    X, Y = _data("badly scaled", targets=1)
    ours = sl.CompressiveLinearRegression().fit(X, Y[:, 0])
    A = np.column_stack([np.ones(len(X)), X])
    A_scaled = A / np.linalg.norm(A, axis=0)
    beta = np.linalg.lstsq(A_scaled, Y[:, 0], rcond=None)[0]
    variance = ((Y[:, 0] - A_scaled @ beta) ** 2).sum() / (len(X) - 7)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(A_scaled.T @ A_scaled))) / np.linalg.norm(A, axis=0)
    assert ours.residual_variance_ == pytest.approx(variance, rel=1e-9)
    np.testing.assert_allclose(ours.standard_errors_, errors[1:], rtol=1e-7)
    assert ours.intercept_standard_error_ == pytest.approx(errors[0], rel=1e-7)


def test_standard_errors_cover():
    """95 % intervals of 3 coefficients in 200 samples: 600 draws, three standard deviations are 2.7 %."""
    rng = np.random.default_rng(0)
    truth, hits = np.array([1.0, -2.0, 0.0]), 0
    for _ in range(200):
        X = rng.normal(size=(60, 3))
        reg = sl.CompressiveLinearRegression().fit(X, X @ truth + rng.normal(size=60))
        hits += int((np.abs(reg.coef_ - truth) < 2.0 * reg.standard_errors_).sum())
    assert 0.92 < hits / 600 < 0.98


@pytest.mark.parametrize("scales", [np.ones(8), 10.0 ** np.linspace(-3, 3, 8)])
def test_collinear_columns_give_a_warning_and_the_smallest_answer(scales):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    X = np.column_stack([X, 2 * X[:, 0] - X[:, 1], np.full(500, 3.0)]) * scales
    y = rng.normal(size=500) + X[:, 2] / scales[2]
    with pytest.warns(LinAlgWarning, match="6 of 8"):
        ours = sl.CompressiveLinearRegression().fit(X, y)
    theirs = LinearRegression(tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-8)
    assert ours.rank_ == 6
    with pytest.warns(LinAlgWarning):
        single = sl.CompressiveLinearRegression().fit_sketch(
            sl.sketch(np.column_stack([X, y]).astype(np.float32), ours.sketch_.features)
        )
    np.testing.assert_allclose(single.predict(X), theirs.predict(X), atol=1e-3)


def test_any_column_on_any_others_after_the_fact():
    X, Y = _data("plain")
    columns = np.column_stack([X, Y])
    s = sl.sketch(columns, sl.QuadraticFeatures.draw(dim=8))
    reg = sl.CompressiveLinearRegression().fit_sketch(s, targets=2, predictors=[7, 0, 5])
    _close(reg, LinearRegression().fit(columns[:, [7, 0, 5]], columns[:, 2]))
    assert reg.n_features_in_ == 3
    last = sl.CompressiveLinearRegression().fit_sketch(s)
    _close(last, LinearRegression().fit(columns[:, :7], columns[:, 7]))
    for arguments, message in [
        ({"targets": 9}, "targets"),
        ({"targets": [1, 1]}, "twice"),
        ({"targets": [1], "predictors": [1, 2]}, "both"),
        ({"targets": np.arange(8)}, "left"),
        ({"targets": [0.5]}, "column numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            sl.CompressiveLinearRegression().fit_sketch(s, **arguments)


def test_principal_components():
    X, Y = _data("correlated and badly scaled")
    from sklearn.decomposition import PCA

    ours = sl.CompressiveLinearRegression(n_components=3).fit(X, Y)
    pca = PCA(3).fit(X)
    theirs = LinearRegression(tol=1e-13).fit(pca.transform(X), Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(pca.transform(X)), atol=1e-7)
    assert ours.rank_ == 3


def test_a_compressed_sketch_predicts_what_its_components_carry():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(5000, 3))
    X = F @ rng.normal(size=(3, 60)) + 0.1 * rng.normal(size=(5000, 60)) + 1.0
    y = F @ [1.0, -1.0, 2.0] + 0.1 * rng.normal(size=5000)
    reg = sl.CompressiveLinearRegression(sketch_size=1200, random_state=0).fit(X, y)
    assert not reg.sketch_.features.is_exact
    best = LinearRegression().fit(X, y).score(X, y)
    assert reg.score(X, y) > best - 0.01
    assert reg.r2_ == pytest.approx(reg.score(X, y), abs=0.02)
    assert np.isnan(reg.standard_errors_).all()


def test_bad_arguments_are_named():
    X, Y = _data("plain", n=20)
    for parameters, message in [
        ({"alpha": -1.0}, "alpha"),
        ({"n_components": 7}, "n_components"),
        ({"features": sl.QuadraticFeatures.draw(dim=3)}, "3 columns"),
    ]:
        with pytest.raises(ValueError, match=message):
            sl.CompressiveLinearRegression(**parameters).fit(X, Y)
    with pytest.raises(TypeError, match="Sketch"):
        sl.CompressiveLinearRegression().fit_sketch(X)
    with pytest.raises(TypeError, match="quadratic"):
        sl.CompressiveLinearRegression().fit_sketch(sl.sketch(X, sl.FourierFeatures.draw(dim=6, size=4)))
    with pytest.raises(ValueError, match="empty"):
        sl.CompressiveLinearRegression().fit_sketch(sl.Sketch.empty(sl.QuadraticFeatures.draw(dim=3)))
    stream = sl.CompressiveLinearRegression().partial_fit(X, Y)
    with pytest.raises(ValueError, match="first batch"):
        stream.partial_fit(X, Y[:, 0])


@pytest.mark.parametrize(("n", "p"), [(60, 20), (200, 5)])
def test_what_is_explained_in_new_rows_is_estimated(n, p):
    """Mean over 100 sets of rows: the true share, given the coefficients, within four standard errors."""
    rng, found, true = np.random.default_rng(0), [], []
    for _ in range(100):
        b, X = rng.normal(size=p) / np.sqrt(p), rng.normal(size=(n, p))
        reg = sl.CompressiveLinearRegression().fit(X, X @ b + rng.normal(size=n))
        missed = 1.0 + float(((reg.coef_ - b) ** 2).sum()) + float(reg.intercept_) ** 2
        found.append(float(reg.new_r2_))
        true.append(1.0 - missed / (1.0 + float(b @ b)))
        assert reg.new_r2_ < reg.r2_
    apart = np.array(found) - np.array(true)
    assert abs(apart.mean()) < 4.0 * apart.std() / np.sqrt(len(apart))
    model = sl.Model.of(reg)
    assert sl.Model.from_json(model.to_json()).new_r2 == reg.new_r2_
    assert "R² in new rows (cross-validation)" in [what for _, what in model.numbers()]
