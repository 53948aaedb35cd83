import pickle

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from sketchlearn.features import AdaptedFeatures, FeatureMap


def tilted():
    """Two components whose narrow directions differ."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    shapes = np.array([np.diag([4.0, 0.0025]), turn @ np.diag([4.0, 0.0025]) @ turn.T])
    return sl.Mixture(np.array([0.7, 0.3]), np.array([[0.0, 0.0], [3.0, 1.0]]), shapes)


def joint(**changes):
    return sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, radial="multiscale", seed=0, **changes)


def test_frequencies_have_the_widths_and_shapes_of_the_components():
    truth = tilted()
    phi = sl.design(previous=truth, task="gmm", n_components=2, size=600, seed=3)
    assert isinstance(phi, AdaptedFeatures)
    assert (phi.size, phi.joint.size, [part.size for part in phi.parts]) == (600, 200, [200, 200])
    np.testing.assert_array_equal(np.flatnonzero(phi.broad), np.arange(200))
    natural = phi.parts[0].radial.second_moment(2) / 2
    for part, shape in zip(phi.parts, truth.covariances, strict=True):
        # whitened by the component, its frequencies are those of a round one of width 1
        spread = part.frequencies.T @ part.frequencies / part.size
        root = np.linalg.cholesky(shape)
        np.testing.assert_allclose(root.T @ spread @ root, natural * np.eye(2), atol=0.15 * natural)
    assert phi.provenance == "an earlier model"
    assert "2 components of an earlier model" in phi.reason


def test_units_of_the_columns_are_those_of_the_frequencies_of_all_scales():
    units = joint().standardized([0.0, 0.0], [1.0, 50.0])
    phi = AdaptedFeatures.of(units, [joint()])
    np.testing.assert_array_equal(phi.spread, [1.0, 50.0])
    np.testing.assert_array_equal(FeatureMap.from_recipe(phi.recipe()).spread, [1.0, 50.0])


def test_the_reason_counts_one_component():
    phi = sl.design(previous=sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1)), task="gmm", n_components=1)
    assert phi.reason.startswith("100 features for 1 full component: ")
    assert "of 1 component of an earlier model" in phi.reason


def test_the_map_travels_and_its_sketches_add(tmp_path):
    phi = sl.design(previous=tilted(), task="gmm", n_components=2, size=90)
    X = tilted().sample(500, 0)[0]
    whole = sl.sketch(X, phi)
    assert sl.sketch(X[:200], phi) + sl.sketch(X[200:], phi) == whole
    np.testing.assert_allclose(whole.mean, phi(X).mean(0), atol=1e-6)
    assert FeatureMap.from_recipe(phi.recipe()) == phi
    for embed in (False, True):
        whole.save(tmp_path / "a.sketch", embed_frequencies=embed)
        assert sl.load(tmp_path / "a.sketch") == whole
    named = pickle.loads(pickle.dumps(phi.with_columns(["a", "b"])))
    assert named.columns == ("a", "b")
    assert named.fingerprint == phi.fingerprint


def test_anything_with_a_mixture_is_a_previous_model():
    X = np.random.default_rng(0).normal(size=(4000, 2)) + np.repeat([[0.0], [6.0]], 2000, axis=0)
    fitted = sl.CompressiveGaussianMixture(2, random_state=0).fit(X)
    ask = {"task": "gmm", "n_components": 2, "size": 100}
    assert sl.design(previous=fitted, **ask) == sl.design(previous=fitted.solution_, **ask)
    assert sl.design(previous=fitted, **ask) == sl.design(previous=fitted.solution_.mixture, **ask)
    named = sl.decode(sl.sketch(X, fitted.sketch_.features.with_columns(["x", "y"])), 2, task="gmm", random_state=0)
    assert sl.design(previous=named, **ask).columns == ("x", "y")
    light = sl.Mixture(np.array([1.0, 0.0]), np.zeros((2, 2)), np.ones((2, 2)))
    assert len(sl.design(previous=light, **ask).parts) == 1


def test_rows_are_prepared_as_for_the_earlier_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 40)) + np.repeat(3.0 * rng.normal(size=(2, 40)), 2000, axis=0)
    first = sl.CompressiveGaussianMixture(2, projection=3, random_state=0).fit(X)
    phi = sl.design(previous=first, task="gmm", n_components=2)
    assert phi.projection == first.sketch_.features.projection
    assert (phi.inputs, phi.dim) == (40, 3)
    assert FeatureMap.from_recipe(phi.recipe()) == phi
    second = sl.CompressiveGaussianMixture(2, features=phi, random_state=0).fit(X)
    assert second.score(X) > first.score(X) - 0.05
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "kind": ["a", "b"] * 2000})
    encoder = sl.Encoder.fit(table)
    known = sl.design(table, task="gmm", n_components=1, encoder=encoder)
    model = sl.decode(sl.sketch(table, known), 1, task="gmm", random_state=0)
    again = sl.design(previous=model, task="gmm", n_components=1)
    assert (again.encoder, again.columns) == (encoder, known.columns)
    assert sl.sketch(table, again).count == 4000


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_a_mixture_of_scikit_learn_is_a_previous_model(kind):
    X = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 3.0] + np.repeat([[0.0], [9.0]], 250, axis=0)
    peer = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    shapes = np.repeat(peer.covariances_[None], 2, 0) if kind == "tied" else peer.covariances_
    same = sl.Mixture(peer.weights_, peer.means_, shapes)
    ask = {"task": "gmm", "n_components": 2, "size": 100, "covariance_type": kind}
    assert sl.design(previous=peer, **ask) == sl.design(previous=same, **ask)
    assert sl.design(previous=peer, task="gmm", n_components=2, size=100) == sl.design(previous=peer, **ask)


def test_a_second_sketch_of_the_same_size_tells_shapes_that_the_first_does_not():
    """Excess nats of a row, measured by `benchmarks/adapted.py`: medians .43 and .10 at three per parameter."""
    rng = np.random.default_rng(1)
    turns = np.linalg.qr(rng.normal(size=(4, 4, 4)))[0]
    shapes = np.einsum("kab,b,kcb->kac", turns, np.array([0.05, 0.05, 1.0, 2.0]) ** 2, turns)
    truth = sl.Mixture(np.full(4, 0.25), 2.5 * rng.normal(size=(4, 4)), shapes)
    X, fresh = (rng.permutation(truth.sample(n, rng)[0]) for n in (20_000, 5000))
    ask = {"task": "gmm", "n_components": 4, "covariance_type": "full", "size": 240}
    found = []
    phi = sl.design(X[:2000], **ask)
    for _ in range(2):
        model = sl.decode(sl.sketch(X, phi), 4, task="gmm", covariance_type="full", random_state=0)
        found.append(float((truth.log_density(fresh) - model.mixture.log_density(fresh)).mean()))
        phi = sl.design(previous=model, **ask)
    assert found[1] < 0.5 * found[0]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: AdaptedFeatures.of(joint(), []), "at least one"),
        (lambda: AdaptedFeatures.of(joint(), [joint(quantized=True)]), "plain"),
        (lambda: AdaptedFeatures.of(joint(), [sl.FourierFeatures.draw(dim=3, size=5)]), "same columns"),
        (
            lambda: AdaptedFeatures.of(joint().with_projection(sl.Projection.draw(dim=9, size=2)), [joint()]),
            "projection",
        ),
        (lambda: sl.design(previous=tilted(), task="gmm", sample_weight=np.ones(3)), "instead of a sample"),
        (lambda: sl.design(previous=tilted(), task="gmm", explain=True), "instead of a sample"),
        (
            lambda: sl.design(previous=sl.Mixture(np.ones(1), np.full((1, 2), np.nan), np.ones(1)), task="gmm"),
            "NaN or infinity",
        ),
        (lambda: sl.design(previous=tilted(), task="kmeans"), "task='gmm'"),
        (lambda: sl.design(np.zeros((5, 2)), previous=tilted(), task="gmm"), "instead of a sample"),
        (lambda: sl.design(previous=tilted(), task="gmm", quantized=True), "instead of a sample"),
        (lambda: sl.design(previous=tilted(), task="gmm", size=1), "at least two"),
        (lambda: sl.design(previous=sl.Mixture(np.ones(1), np.zeros((1, 2)), np.zeros(1)), task="gmm"), "no component"),
        (lambda: sl.design(previous=tilted(), task="gmm", covariance_type="round"), "covariance_type"),
    ],
)
def test_what_makes_no_sense_is_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def test_other_objects_and_recipes_are_refused():
    with pytest.raises(TypeError, match="must be a mixture"):
        sl.design(previous=np.zeros((3, 2)), task="gmm")
    recipe = sl.design(previous=tilted(), task="gmm", n_components=2, size=90).recipe()
    for wrong in ({"parts": "none"}, {"parts": []}, {"size": 91}, {"joint": recipe}):
        with pytest.raises(ValueError, match=r".+"):
            FeatureMap.from_recipe(recipe | wrong)
