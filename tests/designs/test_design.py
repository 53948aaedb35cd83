import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.designs import default_size, register_design, request, tasks
from sketchlearn.designs.kmeans import narrowest, resolution_radius, rounded_moments
from sketchlearn.designs.scale import RULES, expected_separation

PILOT = np.random.default_rng(0).normal(size=(500, 4)) * 3 + 7


def test_defaults_and_explanation():
    phi = sl.design(PILOT, n_components=6, seed=2)
    assert (phi.dim, phi.size, phi.seed) == (4, 240, 2)
    assert phi.radial.name == "multiscale"
    assert phi.directions == "orthogonal"
    np.testing.assert_allclose(phi.center, PILOT.mean(0), atol=0.3)
    assert "6 components in 4 dimensions" in phi.reason
    assert sl.design(PILOT, n_components=6, seed=2) == phi
    assert sl.design(PILOT[:, :1], n_components=2).size == 100
    assert sl.design(PILOT, n_components=6, size=77).size == 77


def test_radii_cover_the_data_and_the_separation():
    phi = sl.design(PILOT, n_components=10, size=2000)
    spread = np.sqrt(PILOT.var(0).mean())
    radii = phi.norms * spread
    assert 0.6 < radii.min() < 0.8
    assert 40 < radii.max() < 75
    # masses of the law: log(knee / low) before the knee, 1/2 after it
    tail = 0.5 / (0.5 + np.log(resolution_radius(10, 4) / 0.7))
    assert np.mean(radii > resolution_radius(10, 4)) == pytest.approx(tail, abs=0.03)


def test_expected_separation_by_simulation():
    rng = np.random.default_rng(0)
    from scipy.spatial.distance import pdist

    for k, d in ((20, 2), (30, 5)):
        simulated = np.mean([pdist(rng.normal(size=(k, d))).min() for _ in range(400)])
        assert expected_separation(k, d) == pytest.approx(simulated, rel=0.12)


def test_the_map_does_not_depend_on_the_order_of_the_pilot():
    assert sl.design(PILOT, n_components=3) == sl.design(PILOT[::-1], n_components=3)
    weights = np.random.default_rng(1).integers(1, 4, 500).astype(float)
    a = rounded_moments(PILOT, weights)
    b = rounded_moments(np.repeat(PILOT, weights.astype(int), 0))
    assert a[1] == b[1]
    np.testing.assert_array_equal(a[0], b[0])


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_the_literature(rule):
    phi = sl.design(PILOT, n_components=4, scale=rule)
    assert phi.radial.name == "adapted"
    assert rule in phi.reason
    wider = sl.design(PILOT * 10, n_components=4, scale=rule)
    assert wider.scale / phi.scale == pytest.approx(10, rel=0.05)  # scale-equivariant
    assert sl.design(PILOT, n_components=4, scale=rule, radial="gaussian").radial.name == "gaussian"


def test_without_looking_at_a_row():
    phi = sl.design(bounds=([0, 0], [1, 2]), n_components=5)
    assert phi.dim == 2
    np.testing.assert_allclose(phi.center, [0.5, 1.0])
    assert "no row looked at" in phi.reason
    assert sl.design(bounds=(0, 1), dim=3, n_components=5).dim == 3
    assert sl.design(scale=2.0, dim=3, n_components=5).dim == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing to design from"),
        ({"sample": PILOT, "bounds": ([0], [1])}, "not both"),
        ({"sample": PILOT, "scale": 2.0}, "name of a rule"),
        ({"sample": PILOT, "scale": "magic"}, "choose"),
        ({"sample": PILOT, "task": "magic"}, "task"),
        ({"sample": PILOT, "n_components": 0}, "n_components"),
        ({"sample": PILOT, "size": -5}, "size"),
        ({"sample": PILOT[:0]}, "rows"),
        ({"sample": np.full((3, 2), np.nan)}, "row 0"),
        ({"bounds": ([0, 0], [1, 0])}, "column 1"),
        ({"bounds": (0, 1)}, "dim"),
        ({"bounds": 5}, "pair"),
        ({"scale": 2.0}, "dim"),
        ({"scale": -2.0, "dim": 2}, "positive"),
        ({"scale": "separation", "dim": 2}, "sample"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        sl.design(**arguments)


def test_frames_give_their_names_to_the_map():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(500, 3)) * [1, 5, 9], columns=["a", "b", "c"])
    for task in ("kmeans", "gmm", "pca"):
        phi = sl.design(frame, n_components=2, task=task)
        assert phi.columns == ("a", "b", "c")
        assert sl.sketch(frame[["c", "a", "b"]], phi) == sl.sketch(frame, phi)
    assert sl.design(frame.to_numpy(), n_components=2).columns is None
    assert sl.design(frame.rename(columns={"b": "a"}), n_components=2).columns is None


@pytest.mark.parametrize("task", ["kmeans", "gmm", "stable", "pca", "regression"])
def test_the_default_size_is_the_one_that_is_taken(task):
    for k in (1, 7):
        assert default_size(k, 4, task) == sl.design(PILOT, n_components=k, task=task).size
    with pytest.raises(ValueError, match="choose one of"):
        default_size(3, 4, "magic")


def test_a_new_task_brings_its_designer(monkeypatch):
    monkeypatch.setattr(request, "_TASKS", dict(request._TASKS))

    @register_design("test-coarse", size=lambda k, d, shape: 3 * k)
    def coarse(request):
        request.refuse("radial", why="has no radial law")
        return sl.FourierFeatures.draw(request.rows().shape[1], request.size or 3 * request.n_components), "a guess"

    assert "test-coarse" in tasks()
    assert sl.design(PILOT, n_components=4, task="test-coarse").reason == "a guess"
    assert default_size(4, 2, "test-coarse") == sl.design(PILOT, n_components=4, task="test-coarse").size == 12
    with pytest.raises(ValueError, match="'test-coarse' has no radial law"):
        sl.design(PILOT, task="test-coarse", radial="gaussian")


def _nested(apart, rng, each=3, d=4):
    far = np.repeat(np.eye(d)[:2] * apart, each, axis=0)
    centers = far + rng.normal(size=(2 * each, d)) * 6
    return centers[rng.integers(2 * each, size=2000)] + rng.normal(size=(2000, d))


@pytest.mark.filterwarnings("ignore::sketchlearn.exceptions.DataWarning")
def test_clusters_inside_clusters_lengthen_the_radii():
    rng = np.random.default_rng(0)
    for apart, longer in ((20.0, False), (2000.0, True)):
        pilot = _nested(apart, rng)
        phi = sl.design(pilot, n_components=6, seed=0)
        plain = sl.design(rng.normal(size=(500, 4)), n_components=6, seed=0)
        assert ("narrower than that" in phi.reason) == longer
        assert (phi.size > plain.size) == longer
        reach = np.sqrt((phi.frequencies**2).sum(1)).max() * narrowest(pilot, 6)[0]
        assert reach > 1.0
    # a size that was asked for stays
    assert sl.design(_nested(2000.0, rng), n_components=6, size=300).size == 300


def test_the_narrowest_width_is_that_of_a_sizeable_cluster():
    rng = np.random.default_rng(1)
    X = np.vstack(
        [rng.normal(size=(400, 3)), 100 + 0.1 * rng.normal(size=(200, 3)), 500 + 1e-4 * rng.normal(size=(4, 3))]
    )
    assert narrowest(X, 3)[0] == pytest.approx(0.1, rel=0.2)
    np.testing.assert_allclose(narrowest(X[rng.permutation(len(X))], 3), narrowest(X, 3), rtol=1e-9)
    assert narrowest(X[:5], 3) is None
    assert narrowest(np.ones((50, 2)), 3) is None
    weights = rng.integers(1, 3, len(X)).astype(float)
    repeated = np.repeat(X[:300], weights[:300].astype(int), axis=0)
    assert narrowest(X[:300], 2, weights[:300])[0] == narrowest(repeated, 2)[0]
    assert narrowest(X, 3, weights + 0.5)[0] == pytest.approx(0.1, rel=0.2)
    many = rng.integers(1, 9, len(X)).astype(float)  # 2700 rows in all, of which a thousand are linked
    assert narrowest(X, 3, many) == narrowest(np.repeat(X, many.astype(int), axis=0), 3)
