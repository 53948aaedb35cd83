"""A map defined by its features alone works with everything; what maps share, they share."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.features.base import register

TWO = 2.0**22


@register
@dataclass(frozen=True, eq=False, repr=False)
class Steps(sl.FeatureMap):
    """Which side of a random hyperplane a row is on: plus or minus one."""

    kind = "test-steps"
    dim: int
    size: int
    seed: int = 0

    def draw_array(self):
        return np.random.Generator(np.random.PCG64(self.seed)).normal(size=(self.size, self.dim)).astype(np.float32)

    def __call__(self, X):
        return self.grid_features(np.asarray(X, float)) / TWO

    def grid_features(self, X):
        total = np.zeros((len(X), self.size))
        for k in range(self.dim):  # in the order of the columns, so that batches change no bit
            total += X[:, k, None] * self.random_array()[:, k]
        return np.where(total >= 0, 2**22, -(2**22))


@register
@dataclass(frozen=True, eq=False, repr=False)
class Cosines(sl.FeatureMap):
    """Nothing but features in float64, and a parameter that is an array."""

    kind = "test-cosines"
    dim: int
    size: int
    shift: np.ndarray

    def draw_array(self):
        return np.arange(self.size * self.dim, dtype=np.float32).reshape(self.size, self.dim) / 7

    def __call__(self, X):
        return np.cos((np.asarray(X) - self.shift) @ self.random_array().T.astype(float))


MAPS = [Steps(3, 17, 5), Cosines(3, 4, np.array([0.1, 0.2, 0.3]))]


@pytest.mark.parametrize("phi", MAPS)
def test_a_map_of_features_alone_sketches_merges_and_travels(phi, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    weights = rng.integers(0, 4, 700)
    whole = sl.sketch(X, phi, sample_weight=weights)
    np.testing.assert_allclose(whole.mean, np.average(phi(X), 0, weights), atol=1e-6)
    assert sl.sketch(X[:300], phi) + sl.sketch(X[300:], phi) == sl.sketch(X, phi)
    for batch in (1, 7, 250):
        parts = [sl.sketch(X[i : i + batch], phi, sample_weight=weights[i : i + batch]) for i in range(0, 700, batch)]
        assert sl.merge(parts).to_bytes() == whole.to_bytes()
    rest = sl.sketch(X, phi) - sl.sketch(X[:300], phi)
    np.testing.assert_array_equal(rest.sums, sl.sketch(X[300:], phi).sums)
    for embed in (False, True):
        whole.save(tmp_path / "a.sketch", embed_frequencies=embed)
        loaded = sl.load(tmp_path / "a.sketch")
        assert loaded == whole
        assert type(loaded.features) is type(phi)
    again = pickle.loads(pickle.dumps(phi.with_columns(["a", "b", "c"])))
    assert again.columns == ("a", "b", "c")
    assert again.fingerprint == phi.fingerprint
    assert phi.kind in phi.describe()
    X[5] = np.nan
    assert sl.sketch(X, phi, on_invalid="skip").skipped == 1
    with pytest.raises(ValueError, match="row 5 "):
        sl.sketch(X, phi)
    table = sl.sketch(X[10:], phi, group_by=np.arange(690) % 3)
    assert table.union() == sl.sketch(X[10:], phi)


def test_sums_that_no_rows_have_are_refused():
    a, b = MAPS[0], MAPS[0].replace(seed=6)
    s = sl.sketch(np.ones((3, 3)), a)
    with pytest.raises(ValueError, match="never added"):
        s - sl.Sketch(a, -s.sums, 1, 0, s.lower, s.upper)
    with pytest.raises(sl.IncompatibleSketchError, match="seed 5 vs 6"):
        s + sl.sketch(np.ones((3, 3)), b)


def test_features_of_the_wrong_shape_are_named():
    @dataclass(frozen=True, eq=False, repr=False)
    class Wrong(Steps):
        kind = "test-wrong"

        def grid_features(self, X):
            return np.zeros((len(X), self.size + 1))

    with pytest.raises(ValueError, match=r"shape \(2, 4\), expected \(2, 3\)"):
        Wrong(2, 3).sum_rows(np.zeros((2, 2)))


def test_old_recipes_are_read_and_unknown_ones_refused(monkeypatch):
    recipe = MAPS[0].recipe()
    monkeypatch.setattr(Steps, "recipe_version", 2)
    monkeypatch.setattr(
        Steps, "recipe_versions", {1: lambda p: {**{k: v for k, v in p.items() if k != "s"}, "seed": p["s"]}, 2: dict}
    )
    old = {k: v for k, v in recipe.items() if k != "seed"} | {"s": 5}
    assert sl.FeatureMap.from_recipe(old) == MAPS[0]
    assert MAPS[0].recipe()["version"] == 2
    for version in (3, True, None, "1"):
        with pytest.raises(ValueError, match=r"not known to this version of the library \(it knows 1, 2\)"):
            sl.FeatureMap.from_recipe({**recipe, "version": version})
    with pytest.raises(ValueError, match="fields of a test-steps recipe"):
        sl.FeatureMap.from_recipe({**recipe, "version": 2, "more": 1})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5), st.integers(0, 12))
def test_the_algebra_of_whole_sums(numbers, bits):
    phi, sums = MAPS[0], np.array(numbers)
    wide = phi.shift_sums(sums, bits)
    np.testing.assert_array_equal(phi.shift_sums(wide, -bits), sums)
    np.testing.assert_array_equal(phi.add_sums(sums, phi.negate_sums(sums)), 0 * sums)
    common = phi.common_bits(wide)
    assert common >= bits
    assert common == 63 or any((n << bits) >> common & 1 for n in numbers)


def test_the_algebra_of_float_sums():
    phi = sl.QuadraticFeatures.draw(dim=2)
    sums = np.random.default_rng(0).normal(size=phi.sums_shape)
    np.testing.assert_array_equal(phi.shift_sums(phi.shift_sums(sums, 5), -5), sums)
    assert phi.common_bits(sums) == 63


@pytest.mark.parametrize(
    "phi",
    [
        sl.FourierFeatures.draw(dim=2, size=6, scale=1.0, seed=0, center=[3.0, 1.0]),
        sl.QuadraticFeatures.draw(dim=2, size=2, variant="sphere", radius=4.0),
        sl.QuadraticFeatures.draw(dim=2, size=2, variant="complex", radius=4.0),
        sl.QuadraticFeatures.draw(dim=2, radius=4.0),
        sl.QuadraticFeatures.draw(dim=2, size=2, variant="gaussian"),
        Steps(2, 6),
    ],
    ids=lambda phi: phi.describe(),
)
def test_release_variances_are_those_of_noisy_means(phi):
    rng = np.random.default_rng(1)
    s = sl.sketch(rng.normal(size=(4000, 2)) + np.array([1.0, 0.0]), phi)
    scale = np.abs(s.sums[..., : phi.size]).mean() / 30
    means = []
    for _ in range(4000):
        noise = np.rint(scale * rng.normal(size=s.sums.shape)) if phi.sums_dtype.kind == "i" else (
            scale * rng.normal(size=s.sums.shape) * np.array([[1.0], [0.0]])
        )  # fmt: skip
        means.append(phi.mean_from_sums(s.sums + noise.astype(phi.sums_dtype), s.weight + 100 * rng.normal()))
    got = phi.release_variances(s.sums, float(s.weight), scale**2, 100.0**2)
    want = np.var(means, axis=0)
    assert got.shape == (phi.size,)
    np.testing.assert_allclose(got, want, rtol=0.12)
