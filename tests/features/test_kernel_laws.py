"""Laws of kernels with a name: the kernel they give, the same numbers for ever, and laws of one's own."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features import CauchyLaw, FourierFeatures, MaternLaw, RadialLaw, register_law

SCALE = 1.5
ROOT = np.sqrt(np.array([3.0, 5.0])) / SCALE
KERNELS = {
    "gaussian": lambda r: np.exp(-(r**2) / (2 * SCALE**2)),
    "laplace": lambda r: np.exp(-r / SCALE),
    "matern": lambda r: (1 + ROOT[0] * r) * np.exp(-ROOT[0] * r),
    MaternLaw(2.5): lambda r: (1 + ROOT[1] * r + (ROOT[1] * r) ** 2 / 3) * np.exp(-ROOT[1] * r),
    "cauchy": lambda r: 1 / (1 + r**2 / (2 * SCALE**2)),
}


@pytest.mark.parametrize("law", KERNELS, ids=str)
@pytest.mark.parametrize("dim", [1, 2, 7, 30])
def test_features_give_the_kernel(law, dim):
    rng = np.random.default_rng(dim)
    X = rng.normal(size=(8, dim)) / np.sqrt(dim)
    X[0] += 100.0  # far rows are far from all others, and as near to themselves
    r = np.linalg.norm(X[:, None] - X[None], axis=2)
    size = 10_000
    phi = sl.FourierFeatures.draw(dim=dim, size=size, scale=SCALE, radial=law, directions="iid", radii="iid", seed=4)
    # an entry is an average of cosines, whose variance is below 1
    np.testing.assert_allclose(phi.kernel(X), KERNELS[law](r), atol=5 / np.sqrt(size))
    np.testing.assert_allclose(phi.kernel(X, X[:3]), phi.kernel(X)[:, :3], atol=1e-9)
    stratified = sl.FourierFeatures.draw(dim=dim, size=size, scale=SCALE, radial=law, seed=4)
    np.testing.assert_allclose(stratified.kernel(X), KERNELS[law](r), atol=5 / np.sqrt(size))


@pytest.mark.parametrize("law", ["laplace", "matern", "cauchy"])
def test_quantiles_rise_and_are_those_of_the_law(law):
    from scipy import stats

    u = (np.arange(2000) + 0.5) / 2000
    for dim in (1, 3, 50):
        phi_law = sl.FourierFeatures.draw(dim=dim, size=4, radial=law).radial
        radii = phi_law.quantile(u, dim)
        assert (np.diff(radii) > 0).all()
        if law != "cauchy":
            freedom = {"laplace": 1.0, "matern": 3.0}[law]
            np.testing.assert_allclose(radii, np.sqrt(dim * stats.f(dim, freedom).ppf(u)), rtol=1e-6)
    # in one dimension Cauchy's kernel 1 / (1 + r^2 / 2) has Laplace's law: exponential of rate sqrt(2)
    expected = -np.log1p(-u) / np.sqrt(2)
    np.testing.assert_allclose(CauchyLaw().quantile(u, 1), expected, rtol=2e-3, atol=1e-4)


HASHES = {
    "laplace": "de1ce144f9635e87",
    "matern": "759f82b2a7bb8d08",
    "cauchy": "15765566a02ca894",
}


@pytest.mark.parametrize("law", HASHES)
def test_numbers_never_change(law):
    phi = sl.FourierFeatures.draw(dim=3, size=100, scale=1.0, radial=law, seed=0)
    assert hashlib.sha256(phi.random_array().tobytes()).hexdigest()[:16] == HASHES[law]
    assert sl.FeatureMap.from_recipe(phi.recipe()).fingerprint == phi.fingerprint


def test_a_law_of_ones_own():
    @register_law
    @dataclass(frozen=True)
    class TwoRings(RadialLaw):
        inner: float = 0.5
        name = "test-two-rings"

        def quantile(self, u, dim):
            return np.where(u < 0.5, self.inner, 2.0)

        def second_moment(self, dim):
            return 0.5 * self.inner**2 + 2.0

    phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, radial="test-two-rings", seed=0)
    X = np.random.default_rng(0).normal(size=(500, 2))
    s = sl.sketch(X, phi)
    assert sl.Sketch.from_bytes(s.to_bytes()) == s
    lengths = np.linalg.norm(phi.frequencies, axis=1)
    assert len(np.unique(lengths.round(4))) == 2
    assert np.isclose((lengths**2).mean(), 2.0)


def test_a_scale_for_each_column():
    scales, X = np.array([0.5, 2.0, 10.0]), np.random.default_rng(1).normal(size=(6, 3))
    phi = sl.FourierFeatures.draw(dim=3, size=10_000, scale=scales, radial="gaussian", seed=0)
    squares = ((X[:, None] - X[None]) ** 2 / scales**2).sum(2)
    np.testing.assert_allclose(phi.kernel(X), np.exp(-squares / 2), atol=5 / 100)
    with pytest.raises(ValueError, match="every column needs a positive one, got 0"):
        sl.FourierFeatures.draw(dim=2, size=4, scale=[1.0, 0.0])
    with pytest.raises(ValueError, match="one number with a whitening"):
        sl.FourierFeatures.draw(dim=2, size=4, scale=[1.0, 2.0], whitening=np.eye(2))


def test_laws_that_are_none_are_refused():
    with pytest.raises(TypeError, match="frozen dataclass derived from RadialLaw"):
        register_law(FourierFeatures)

    @dataclass(frozen=True)
    class Nameless(MaternLaw):
        pass

    with pytest.raises(TypeError, match="Nameless needs a name of its own"):
        register_law(Nameless)

    @dataclass(frozen=True)
    class Taken(MaternLaw):
        name = "gaussian"

    with pytest.raises(ValueError, match="there is a radial law 'gaussian' already"):
        register_law(Taken)
    with pytest.raises(ValueError, match="smoothness must be at least"):
        MaternLaw(0.2)
    recipe = sl.FourierFeatures.draw(dim=1, size=2, radial="laplace").recipe()
    with pytest.raises(ValueError, match="register_law makes it known"):
        sl.FeatureMap.from_recipe({**recipe, "radial": {"law": "somebody's"}})
