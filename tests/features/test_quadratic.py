import pickle

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features.quadratic import VARIANTS as ALL
from sketchlearn.features.quadratic import _normal_table

VARIANTS = [v for v in ALL if v != "hadamard"]  # structured ones have tests of their own, in more columns
RANDOM = [v for v in VARIANTS if v != "exact"]


def test_directions_are_the_same_everywhere():
    phi = sl.QuadraticFeatures.draw(dim=5, size=7, seed=11)
    assert phi.fingerprint == "312335913a0f39068cf5690adbd992f1"
    assert phi.directions[0].tolist() == [0, -16, -17, 27, -9]


def test_entries_are_standard_normal_up_to_their_steps():
    table = _normal_table().astype(float)
    assert table.sum() == 0
    unit = table / table.std()
    assert abs((unit**4).mean() - 3.0) < 0.01  # cut off at 4.3 standard deviations, in steps of 1/29


@pytest.mark.parametrize("variant", RANDOM)
def test_mean_squares_are_those_of_theory(variant):
    """E |M(S)|^2 for a fixed symmetric S, over many directions (Monte Carlo error about 1.5 %, four of them)."""
    d, m = 6, 40_000
    rng = np.random.default_rng(0)
    U = rng.normal(size=(d, 2))
    S = U @ U.T
    phi = sl.QuadraticFeatures.draw(dim=d, size=m, seed=1, variant=variant)
    y = phi(U.T).sum(0)  # the features of the columns of U add up to the measurements of U U'
    frobenius, trace = (S**2).sum(), np.trace(S) ** 2
    expected = {
        "gaussian": 2 * frobenius + trace,
        "sphere": (2 * frobenius + trace) / (d * (d + 2)),
        "orthogonal": (2 * frobenius + trace) / (d * (d + 2)),
        "complex": frobenius + trace,
        "difference": frobenius,
    }[variant]
    assert np.mean(y**2) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("radius", [None, 8.0])
def test_sketch_and_features_agree_and_centring_needs_no_second_pass(variant, radius):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5)) + 1.0
    size = None if variant == "exact" else 12
    phi = sl.QuadraticFeatures.draw(dim=5, size=size, variant=variant, seed=2, radius=radius, center=np.full(5, 0.5))
    s = sl.sketch(X, phi)
    # on the grid: rows are rounded to 2**-15 of the radius (exact), features to 2**-22 of their bound
    tolerance = 1e-6 if radius is None else 2e-4
    np.testing.assert_allclose(s.mean, phi(X).mean(0), atol=tolerance * np.abs(s.mean).max())
    np.testing.assert_allclose(phi.row_mean_from_sums(s.sums, s.weight), X.mean(0), atol=tolerance)
    plain = sl.QuadraticFeatures.draw(dim=5, size=size, variant=variant, seed=2)
    centred = plain(X - X.mean(0)).mean(0)
    got = phi.centred_mean_from_sums(s.sums, s.weight)
    np.testing.assert_allclose(got, centred, atol=4 * tolerance * np.abs(centred).max())


def test_rows_are_clipped_to_the_radius():
    phi = sl.QuadraticFeatures.draw(dim=3, size=5, variant="gaussian", radius=2.0, seed=0)
    far, edge = np.array([[300.0, 0.0, 400.0]]), np.array([[1.2, 0.0, 1.6]])
    assert (sl.sketch(far, phi).sums == sl.sketch(edge, phi).sums).all()
    np.testing.assert_allclose(phi(far), phi(edge))
    huge = sl.sketch(np.full((1, 3), 1e6), phi)
    assert (np.abs(huge.sums) <= phi.entry_bound).all()


def test_variances_are_those_of_normal_data():
    """400 repeats give a variance to about 7 %; the mean over 30 features is held to 15 %."""
    rng = np.random.default_rng(0)
    for variant in ("gaussian", "sphere", "complex", "exact"):
        size = None if variant == "exact" else 30
        phi = sl.QuadraticFeatures.draw(dim=8, size=size, variant=variant, seed=0)
        means = np.array([phi(rng.normal(size=(100, 8)) + 0.5).mean(0) for _ in range(400)])
        s = sl.sketch(rng.normal(size=(20_000, 8)) + 0.5, phi)
        predicted = s.standard_errors**2 * 200
        # the two squares of a complex direction are taken as independent, which in 8 columns they are not quite
        margin = 0.4 if variant == "complex" else 0.15
        assert np.mean(means.var(0) / predicted) == pytest.approx(1.0, abs=margin), variant


def test_recipes_travel():
    for variant in VARIANTS:
        size = None if variant == "exact" else 6
        phi = sl.QuadraticFeatures.draw(dim=3, size=size, variant=variant, radius=1.5, center=[1.0, 2.0, 3.0], seed=9)
        again = sl.FeatureMap.from_recipe(phi.recipe())
        assert again == phi == pickle.loads(pickle.dumps(phi))
        assert again.fingerprint == phi.fingerprint
        s = sl.sketch([[1.0, 2.0, 3.0], [1.1, 1.9, 3.2]], phi)
        assert sl.Sketch.from_bytes(s.to_bytes(embed_frequencies=True)) == s
        assert variant in repr(phi)
        assert variant in phi.describe()


@pytest.mark.parametrize(("dim", "size"), [(1, 3), (2, 4), (7, 18), (100, 250), (200, 450)])
def test_bases_are_orthonormal_up_to_rounding(dim, size):
    phi = sl.QuadraticFeatures.draw(dim=dim, size=size, variant="orthogonal", seed=2)
    q = phi.directions / np.sqrt(phi.squared_norms)[:, None]
    for start in range(0, size, dim):
        gram = q[start : start + dim] @ q[start : start + dim].T
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=0.15 if dim < 10 else 0.02)
    if dim > 1:  # other bases are others
        assert np.abs(q[:dim] @ q[dim : 2 * dim].T).max() < 0.999
    if dim > 10:  # entries of a uniform direction: fourth moment 3 d / (d + 2), Monte Carlo error below 0.1
        assert np.mean((q * np.sqrt(dim)) ** 4) == pytest.approx(3 * dim / (dim + 2), abs=0.1)
    again = sl.QuadraticFeatures.draw(dim=dim, size=max(1, size - 1), variant="orthogonal", seed=2)
    np.testing.assert_array_equal(again.directions, phi.directions[: size - 1])


def test_compression_only_where_it_compresses():
    assert sl.QuadraticFeatures.draw(dim=10, size=54).variant == "sphere"
    assert sl.QuadraticFeatures.draw(dim=10, size=55).is_exact
    assert sl.QuadraticFeatures.draw(dim=10, size=900).size == 55
    assert sl.QuadraticFeatures.draw(dim=10, size=900, variant="gaussian").size == 900


def test_many_directions_are_widened_some_at_a_time(monkeypatch):
    import sketchlearn.kernels.quadratic as module

    X = np.random.default_rng(0).normal(size=(50, 6))
    for variant in ("sphere", "difference"):
        for radius in (None, 3.0):
            make = lambda v=variant, r=radius: sl.QuadraticFeatures.draw(dim=6, size=20, variant=v, radius=r)  # noqa: E731
            want = sl.sketch(X, make())
            with monkeypatch.context() as patch:
                patch.setattr(module, "_KEPT_ENTRIES", 0)
                patch.setattr(module, "_GROUP_ENTRIES", 6 * 7)
                got = sl.sketch(X, make())
            np.testing.assert_allclose(got.sums, want.sums, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 3, "size": 0}, "size"),
        ({"dim": 3, "size": 2, "variant": "cubic"}, "variant"),
        ({"dim": 3, "variant": "sphere"}, "size"),
        ({"dim": 3, "size": 2, "variant": "exact"}, "6 features"),
        ({"dim": 3, "radius": -1.0}, "radius"),
        ({"dim": 3, "radius": "big"}, "radius"),
        ({"dim": 3, "center": [1.0]}, "center"),
        ({"dim": 3, "seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        sl.QuadraticFeatures.draw(**arguments)


def test_bad_recipes_and_arrays_are_refused():
    phi = sl.QuadraticFeatures.draw(dim=3, size=4)
    recipe = phi.recipe()
    with pytest.raises(ValueError, match="fields"):
        sl.FeatureMap.from_recipe({**recipe, "extra": 1})
    with pytest.raises(ValueError, match="6, not 4"):
        sl.FeatureMap.from_recipe({**recipe, "variant": "exact"})
    with pytest.raises(ValueError, match="embedded"):
        phi.with_random_array(np.zeros((4, 3), np.float32))
    with pytest.raises(ValueError, match="columns"):
        phi([[1.0, 2.0]])
    with pytest.raises(ValueError, match="different numbers"):
        _ = phi.expecting("0" * 32).directions
