import json
import pickle
import tracemalloc

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features.radial import LAWS

# If one of these changes, sketches made by earlier versions can no longer be decoded: bump recipe_version instead.
GOLDEN = {
    ("gaussian", "orthogonal", "stratified"): "a155473cb672bf42c0b0fab216fd88d3",
    ("folded", "iid", "iid"): "3395378a06cbdad559c451f5878ca545",
    ("adapted", "orthogonal", "stratified"): "27dae0f215ba424bf943765dd9bd1c4c",
    ("weighted", "iid", "stratified"): "85940ebf696bfe3cc8b4f8ff30b366c6",
    ("multiscale", "orthogonal", "iid"): "a6362aa07cb16476078e3239119b6bb5",
    ("mixed", "orthogonal", "stratified"): "8e6f3eb002dbf4ac3361d82eed2b1228",
}


@pytest.mark.parametrize("key", GOLDEN, ids="-".join)
def test_frequencies_are_pinned_for_ever(key):
    radial, directions, radii = key
    phi = sl.FourierFeatures.draw(
        dim=7, size=100, scale=1.5, radial=radial, seed=11, directions=directions, radii=radii
    )
    assert phi.fingerprint == GOLDEN[key]


@pytest.mark.parametrize("radial", [name for name in LAWS if name not in ("laplace", "matern")])
@pytest.mark.parametrize("dim", [1, 2, 10, pytest.param(100, marks=pytest.mark.slow)])
def test_scale_convention(radial, dim):
    """E|w|^2 = d / scale^2 for every law whose kernel has no length scale of its own."""
    phi = sl.FourierFeatures.draw(dim=dim, size=20_000, scale=2.5, radial=radial, seed=0)
    squares = phi.norms**2 * 2.5**2 / dim
    assert abs(squares.mean() - 1) < 5 * squares.std() / np.sqrt(len(squares))


@pytest.mark.parametrize("directions", ["orthogonal", "iid"])
def test_gaussian_features_approximate_the_gaussian_kernel(directions):
    phi = sl.FourierFeatures.draw(dim=5, size=20_000, scale=1.3, radial="gaussian", seed=4, directions=directions)
    x = np.random.default_rng(0).normal(size=(2, 5))
    a, b = phi(x)
    kernel = np.exp(-((x[0] - x[1]) ** 2).sum() / (2 * 1.3**2))
    assert abs(np.vdot(a, b).real / phi.size - kernel) < 5 / np.sqrt(phi.size)


def test_weighted_features_have_the_gaussian_mean_kernel():
    d, scale = 4, 1.0
    phi = sl.FourierFeatures.draw(dim=d, size=40_000, scale=scale, radial="weighted", seed=4)
    w = phi.importance_weights
    s = scale * np.sqrt(LAWS["weighted"]().second_moment(d) / d)
    np.testing.assert_allclose(w, 1 + s**2 * phi.norms**2 / d, rtol=1e-5)
    x = np.random.default_rng(0).normal(size=(2, d))
    a, b = phi(x) / w
    kernel = np.exp(-((x[0] - x[1]) ** 2).sum() / (2 * s**2))
    assert abs(np.vdot(a, b).real / phi.size * (4 + 2 / d) - kernel) < 25 / np.sqrt(phi.size)


def test_orthogonal_blocks_are_orthogonal():
    phi = sl.FourierFeatures.draw(dim=6, size=18, scale=1.0, seed=0)
    unit = phi.frequencies / phi.norms[:, None]
    for i in range(0, 18, 6):
        np.testing.assert_allclose(unit[i : i + 6] @ unit[i : i + 6].T, np.eye(6), atol=1e-6)


def test_stratified_radii_have_one_per_stratum():
    phi = sl.FourierFeatures.draw(dim=3, size=200, scale=1.0, radial="adapted", seed=0)
    quantiles = np.sort(phi.norms) * np.sqrt(LAWS["adapted"]().second_moment(3) / 3)
    edges = LAWS["adapted"]().quantile(np.arange(1, 200) / 200, 3)
    assert (np.searchsorted(edges, quantiles) == np.arange(200)).mean() > 0.99  # float32 at the edges


def test_whitening_is_applied_before_the_features():
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(3, 3)), rng.normal(size=(10, 3))
    plain = sl.FourierFeatures.draw(dim=3, size=50, scale=1.0, seed=0)
    white = sl.FourierFeatures.draw(dim=3, size=50, scale=1.0, seed=0, whitening=A)
    np.testing.assert_allclose(white(X), plain(X @ A.T), atol=1e-5)


def test_the_centre_is_invisible_and_keeps_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) + 1e4
    phi = sl.FourierFeatures.draw(dim=5, size=64, scale=1.0, seed=0)
    centred = sl.FourierFeatures.draw(dim=5, size=64, scale=1.0, seed=0, center=np.full(5, 1e4))
    np.testing.assert_array_equal(phi.frequencies, centred.frequencies)
    np.testing.assert_allclose(sl.sketch(X, centred).mean, phi(X).mean(0), atol=1e-6)
    np.testing.assert_allclose(sl.sketch(X, phi).mean, phi(X).mean(0), atol=1e-6)
    assert phi != centred


def test_recipes_are_small_and_complete():
    phi = sl.FourierFeatures.draw(dim=3, size=500, scale=1.0, seed=9, center=[1, 2, 3], whitening=np.eye(3))
    text = json.dumps(phi.recipe())
    assert len(text) < 600
    again = sl.FeatureMap.from_recipe(json.loads(text))
    assert again == phi
    assert hash(again) == hash(phi)
    assert again.fingerprint == phi.fingerprint
    copy = pickle.loads(pickle.dumps(phi))
    assert copy == phi
    assert len(pickle.dumps(phi)) < 1000


def test_a_redraw_that_differs_is_an_error():
    phi = sl.FourierFeatures.draw(dim=3, size=50, scale=1.0, seed=9).expecting("0" * 32)
    with pytest.raises(sl.SketchFileError, match="fingerprint"):
        _ = phi.frequencies


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"size": -1}, "size"),
        ({"scale": 0.0}, "scale"),
        ({"scale": np.nan}, "scale"),
        ({"scale": 1e-300}, "float32"),
        ({"scale": "wide"}, "scale"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"radial": "uniform"}, "radial"),
        ({"directions": "random"}, "directions"),
        ({"radii": "random"}, "radii"),
        ({"center": [1.0]}, "center"),
        ({"whitening": np.full((3, 3), np.nan)}, "whitening"),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        _ = sl.FourierFeatures.draw(**{"dim": 3, "size": 5, "scale": 1.0, **change}).half_turns


@pytest.mark.parametrize("edit", [{"kind": "cosine"}, {"version": 99}, {"dim": True}, {"seed": None}, {"extra": 1}])
def test_foreign_recipes_are_refused(edit):
    recipe = sl.FourierFeatures.draw(dim=3, size=5, scale=1.0).recipe()
    with pytest.raises(ValueError, match=r"."):
        sl.FeatureMap.from_recipe({**recipe, **edit})


def test_wrong_columns_are_refused():
    phi = sl.FourierFeatures.draw(dim=3, size=5, scale=1.0)
    with pytest.raises(ValueError, match="3 columns"):
        phi(np.zeros((2, 4)))


@pytest.mark.parametrize("directions", ["orthogonal", "iid"])
def test_drawing_needs_little_more_memory_than_the_map(directions):
    phi = sl.FourierFeatures.draw(dim=512, size=8192, scale=1.0, seed=0, directions=directions)
    tracemalloc.start()
    drawn = phi.draw_array()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * drawn.nbytes
