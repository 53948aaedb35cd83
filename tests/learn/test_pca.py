import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import check_estimator

import sketchlearn as sl


@pytest.mark.parametrize("estimator", [sl.CompressivePCA(), sl.CompressivePCA(n_components=1, whiten=True)])
def test_scikit_learn_accepts_it(estimator):
    check_estimator(estimator, on_skip=None)


def _rows(n=2000, d=80, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.05 * rng.normal(size=(n, d)) + rng.normal(size=d)


def test_from_all_products_it_is_pca():
    X = load_digits().data
    ours, theirs = sl.CompressivePCA(n_components=10).fit(X), PCA(10, svd_solver="full").fit(X)
    assert ours.sketch_.features.is_exact
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_", "noise_variance_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(ours.components_ * theirs.components_, axis=1)), 1.0, rtol=1e-9)
    back = ours.inverse_transform(ours.transform(X))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(X)), atol=1e-8)


def test_from_a_compressed_sketch_it_is_nearly_pca():
    X = _rows()
    ours, theirs = sl.CompressivePCA(n_components=3, sketch_size=8 * 3 * 80, random_state=0).fit(X), PCA(3).fit(X)
    assert not ours.sketch_.features.is_exact
    assert ours.sketch_.features.size == 8 * 3 * 80
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.01)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=0.01)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-5)
    # decoding stops within a small part of the sampling noise: a thousandth of the mean variance of a column
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, abs=0.001 * X.var(0).mean())
    overlap = np.linalg.svd(ours.components_ @ theirs.components_.T)[1]
    assert overlap.min() > 0.999
    white = sl.CompressivePCA(n_components=3, whiten=True, random_state=0).fit(X)
    np.testing.assert_allclose(white.transform(X).std(0), 1.0, rtol=0.02)
    np.testing.assert_allclose(white.inverse_transform(white.transform(X)), X, atol=0.5)


def test_streams_and_sketches_give_the_same():
    X = _rows()
    whole = sl.CompressivePCA(n_components=3, random_state=0).fit(X)
    stream = sl.CompressivePCA(n_components=3, random_state=0)
    for part in np.array_split(X, 5):
        stream.partial_fit(part)
    assert "components_" not in vars(stream)
    np.testing.assert_allclose(stream.components_, whole.components_, atol=1e-3)
    other = sl.CompressivePCA(n_components=2).fit_sketch(whole.sketch_)
    assert other.components_.shape == (2, 80)
    assert other.n_features_in_ == 80
    again = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(again.transform(X[:5]), stream.transform(X[:5]))


def test_the_number_of_components_can_be_read_off_the_sketch():
    X = _rows()
    for features in (None, sl.QuadraticFeatures.draw(dim=80)):
        assert sl.CompressivePCA(n_components="auto", features=features, random_state=0).fit(X).n_components_ == 3
    noise = np.random.default_rng(0).normal(size=(2000, 40))
    assert sl.CompressivePCA(n_components="auto").fit(noise).n_components_ == 1
    part = sl.CompressivePCA(n_components=0.9).fit(load_digits().data)
    assert part.n_components_ == PCA(0.9).fit(load_digits().data).n_components_


def test_kernel_pca_separates_circles():
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 600), np.repeat([1.0, 3.0], 300)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + 0.05 * rng.normal(size=(600, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=30, scale=2.5, radial="gaussian", seed=0)
    pca = sl.CompressivePCA(n_components=4, embedding=phi, random_state=0).fit(X)
    Z = pca.transform(X)
    assert Z.shape == (600, 4)
    # one threshold on one component tells the circles apart; no linear component of the plane can
    apart = max(abs(np.corrcoef(Z[:, j], radius)[0, 1]) for j in range(4))
    assert apart > 0.8
    assert pca.n_features_in_ == 2
    weighted = sl.CompressivePCA(n_components=4, embedding=phi, random_state=0).fit(X, sample_weight=np.full(600, 2.0))
    np.testing.assert_allclose(weighted.sketch_.mean, pca.sketch_.mean, rtol=1e-9)
    streamed = sl.CompressivePCA(n_components=4, embedding=phi, random_state=0).fit(iter(np.array_split(X, 5)))
    np.testing.assert_allclose(streamed.sketch_.mean, pca.sketch_.mean, rtol=1e-9)
    assert streamed.n_features_in_ == 2
    assert sl.CompressivePCA(n_components=4, embedding=phi).fit_sketch(pca.sketch_).n_features_in_ == 2
    with pytest.raises(ValueError, match="inverse"):
        pca.inverse_transform(Z)
    with pytest.raises(ValueError, match="embedded"):
        sl.CompressivePCA(embedding=phi).fit_sketch(sl.sketch(X, sl.QuadraticFeatures.draw(dim=2)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 1.5}, "n_components"),
        ({"n_components": "many"}, "n_components"),
        ({"n_components": 9}, "min"),
        ({"features": sl.QuadraticFeatures.draw(dim=3)}, "3 columns"),
        ({"decoder": "magic", "n_components": 1, "features": sl.QuadraticFeatures.draw(dim=4, size=8)}, "decoder"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        sl.CompressivePCA(**parameters).fit(np.random.default_rng(0).normal(size=(20, 4)))


def test_bad_sketches_are_named():
    with pytest.raises(TypeError, match="Sketch"):
        sl.CompressivePCA().fit_sketch(np.eye(3))
    with pytest.raises(TypeError, match="quadratic"):
        sl.CompressivePCA().fit_sketch(sl.sketch([[1.0]], sl.FourierFeatures.draw(dim=1, size=4)))
    fitted = sl.CompressivePCA(n_components=2).fit(np.random.default_rng(0).normal(size=(20, 4)))
    with pytest.raises(ValueError, match="2 columns"):
        fitted.inverse_transform(np.zeros((1, 3)))


def test_standardized_columns_are_those_of_scikit_learn(tmp_path):
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 4)) @ rng.normal(size=(4, 6)) * [1.0, 10.0, 100.0, 1e-3, 1.0, 5.0] + 3.0
    X[:, 5] = 2.0  # constant
    ours = sl.CompressivePCA(3, standardize=True).fit(X)  # (no warning about units: they don't matter)
    scaler = StandardScaler().fit(X)
    theirs = PCA(3).fit(scaler.transform(X))
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-4)
    signs = np.sign((ours.components_ * theirs.components_).sum(1))
    np.testing.assert_allclose(ours.components_, signs[:, None] * theirs.components_, atol=1e-3)
    np.testing.assert_allclose(ours.transform(X), signs * theirs.transform(scaler.transform(X)), atol=1e-2)
    np.testing.assert_allclose(sl.CompressivePCA(standardize=True).fit(X).inverse_transform(
        sl.CompressivePCA(standardize=True).fit(X).transform(X)), X, atol=1e-2)  # fmt: skip
    np.testing.assert_allclose(ours.scale_[:5], X.std(0)[:5], rtol=1e-4)
    model = ours.to_model()
    model.save(tmp_path / "pca.json")
    again = sl.Model.load(tmp_path / "pca.json")
    np.testing.assert_allclose(again.transform(X[:5]), ours.transform(X[:5]), rtol=1e-6, atol=1e-9)
    with pytest.raises(sl.InputError, match="all products of columns"):
        sl.CompressivePCA(2, sketch_size=12, standardize=True).fit(X)
