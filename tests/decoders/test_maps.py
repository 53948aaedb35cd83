"""Mixtures of linear maps: many targets of a few predictors, from products of features."""

import numpy as np
import pytest
from scipy.optimize import check_grad

import sketchlearn as sl
from sketchlearn.decoders.mixtures.maps import Gates, Normal
from sketchlearn.designs.regression_maps import design_maps, maps_size
from sketchlearn.models.mixture import Mixture


def bent(n=6000, targets=12, seed=0):
    """Targets that are sums of the predictors and of one absolute value, with noise of 0.2."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) * [1.0, 30.0] + [5.0, -100.0]
    u = (x - [5.0, -100.0]) / [1.0, 30.0]
    mixing = rng.normal(size=(3, targets))
    clean = np.column_stack([u, 2.0 * np.abs(u[:, 0])]) @ mixing + 7.0
    return x, clean + 0.2 * rng.normal(size=clean.shape), clean


@pytest.fixture(scope="module")
def fitted():
    x, y, _ = bent()
    return sl.CompressiveMixtureRegressor(3, covariance="diag", random_state=0).fit(x, y)


def test_normal_equations_are_those_of_the_rows():
    x, y, _ = bent(2000, 3)
    rows = np.column_stack([x, y])
    phi, _ = design_maps(rows, [0, 1], 2)
    normal = Normal.of(sl.sketch(rows, phi), np.array([0, 1]), np.array([2, 3, 4]))
    F = normal.features((x - normal.center) / normal.units)
    targets = y - normal.middle
    np.testing.assert_allclose(normal.inner, F.T @ F / len(x), atol=1e-4)
    np.testing.assert_allclose(normal.across, F.T @ targets / len(x), atol=5e-3 * targets.std())
    np.testing.assert_allclose(normal.squares, (targets**2).mean(0), rtol=5e-3)


def test_gradient():
    rng = np.random.default_rng(0)
    x, y, _ = bent(1000, 3)
    rows = np.column_stack([x, y])
    phi, _ = design_maps(rows, [0, 1], 2, size=20)
    normal = Normal.of(sl.sketch(rows, phi), np.array([0, 1]), np.array([2, 3, 4]))
    gates = Gates(normal, rng.normal(size=(500, 2)), normal.across, 2)
    shapes = np.stack([np.eye(2), 0.5 * np.eye(2)])
    start = Gates.numbers(Mixture(np.array([0.4, 0.6]), rng.normal(size=(2, 2)), shapes))
    start = start + 0.1 * rng.normal(size=start.shape)
    error = check_grad(lambda v: gates.loss(v)[0], lambda v: gates.loss(v)[1], start, epsilon=1e-6)
    assert error < 1e-4 * np.linalg.norm(gates.loss(start)[1]) + 1e-5


def test_predictions_are_near_the_truth(fitted):
    x, y, clean = bent(seed=0)
    error = np.mean((fitted.predict(x) - clean) ** 2)
    assert error < 0.01 * clean.var()
    assert fitted.predict(x).shape == y.shape
    low, high = fitted.predict_interval(x[:500], 0.9)
    held = (low < y[:500]) & (y[:500] < high)
    assert held.mean() > 0.88  # (6000 numbers of 500 rows: standard deviation at most 0.014)
    far = np.abs(x[:500, 0] - 5.0) > 0.4  # from the bend, where several components agree
    assert held[far].mean() > 0.88


def test_same_as_full_covariances_of_few_columns():
    rng = np.random.default_rng(1)
    side = np.where(rng.random(8000) < 0.5, -1.0, 1.0)
    x = (3.0 * side + rng.normal(size=8000))[:, None]
    y = np.column_stack([-side * x[:, 0], x[:, 0]]) + 0.5 * rng.normal(size=(8000, 2))
    full, diag = (sl.CompressiveMixtureRegressor(2, covariance=c, random_state=0).fit(x, y) for c in ("full", "diag"))
    new = np.linspace(-5.0, 5.0, 41)[:, None]
    new = new[np.abs(new[:, 0]) > 1.0]
    np.testing.assert_allclose(diag.predict(new), full.predict(new), atol=0.1)
    np.testing.assert_allclose(diag.predict(new, return_std=True)[1], full.predict(new, return_std=True)[1], atol=0.1)


def test_parts_and_files_give_the_same_model(fitted, tmp_path):
    x, y, _ = bent()
    phi = fitted.sketch_.features
    halves = sl.CompressiveMixtureRegressor(3, covariance="diag", features=phi, random_state=0)
    halves.partial_fit(x[:2500], y[:2500]).partial_fit(x[2500:], y[2500:])
    assert halves.sketch_ == fitted.sketch_
    fitted.sketch_.save(tmp_path / "all.sketch")
    again = sl.CompressiveMixtureRegressor(3, covariance="diag", random_state=0)
    again.fit_sketch(sl.load(tmp_path / "all.sketch"), targets=range(2, 14))
    np.testing.assert_array_equal(again.predict(x[:9]), fitted.predict(x[:9]))
    loaded = sl.Model.from_json(fitted.to_model().to_json())
    np.testing.assert_allclose(loaded.predict(x[:9]), fitted.predict(x[:9]), rtol=1e-9)


@pytest.mark.slow
def test_some_of_the_targets(fitted):
    one = sl.CompressiveMixtureRegressor(3, covariance="diag", random_state=0)
    one.fit_sketch(fitted.sketch_, targets=4, predictors=[0, 1])
    x, _, clean = bent()
    assert one.predict(x).shape == (len(x),)
    assert np.mean((one.predict(x) - clean[:, 2]) ** 2) < 0.02 * clean[:, 2].var()


def test_clear_errors(fitted):
    with pytest.raises(ValueError, match="column 2 is no predictor"):
        sl.CompressiveMixtureRegressor(2, covariance="diag").fit_sketch(fitted.sketch_, targets=3, predictors=[0, 2])
    with pytest.raises(TypeError, match="covariance='diag'"):
        sl.CompressiveMixtureRegressor(2).fit_sketch(fitted.sketch_, targets=3)
    plain = sl.sketch(np.zeros((9, 3)), sl.FourierFeatures.draw(dim=3, size=9, scale=1.0))
    with pytest.raises(TypeError, match="products of Fourier features"):
        sl.CompressiveMixtureRegressor(2, covariance="diag").fit_sketch(plain)
    with pytest.raises(ValueError, match="covariance"):
        sl.CompressiveMixtureRegressor(2, covariance="tied").fit(np.zeros((9, 2)), np.zeros(9))


def test_too_few_rows_are_not_certified():
    x, y, _ = bent(60)
    found = sl.CompressiveMixtureRegressor(3, covariance="diag", random_state=0).fit(x, y)
    assert not found.reliable_
    assert "too few" in found.verdict_


def test_frequencies_have_the_shapes_of_the_components():
    """Two thin components that cross: no metric makes both round."""
    rng = np.random.default_rng(2)
    side = rng.random(6000) < 0.5
    x = (
        rng.normal(size=(6000, 2)) * np.where(side[:, None], [1.0, 0.02], [0.02, 1.0])
        + np.where(side, 0.0, 1.0)[:, None]
    )
    y = np.where(side[:, None], x[:, :1], -x[:, 1:]) * [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=(6000, 3))
    phi, why = design_maps(np.column_stack([x, y])[:2000], [0, 1], 2, seed=1)
    assert "2 components of the pilot" in why
    assert sl.FeatureMap.from_recipe(phi.recipe()) == phi
    found = sl.CompressiveMixtureRegressor(2, covariance="diag", features=phi, random_state=0).fit(x, y)
    widths = np.sqrt([np.linalg.eigvalsh(c[:2, :2])[0] for c in found.mixture_.full_covariances()])
    np.testing.assert_allclose(widths, 0.02, rtol=0.25)
    clean = np.where(side[:, None], x[:, :1], -x[:, 1:]) * [1.0, 2.0, 3.0]
    # rows where both components lie can't be told apart; 3 % of them do
    assert np.median(np.abs(found.predict(x) - clean)) < 0.02


def test_size():
    assert maps_size(1, 1) == 10
