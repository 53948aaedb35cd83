import numpy as np
import pytest
from scipy import integrate, special, stats

from sketchlearn.features.radial import LAWS, MixedLaw, MultiscaleLaw, RadialLaw

U = np.linspace(1e-9, 1 - 1e-9, 2001)


def test_gaussian_is_chi():
    for d in (1, 2, 3, 10, 100, 2000):
        np.testing.assert_allclose(stats.chi(d).cdf(LAWS["gaussian"]().quantile(U, d)), U, atol=1e-12)


def test_folded_is_half_normal():
    np.testing.assert_allclose(LAWS["folded"]().quantile(U, 5), stats.halfnorm.ppf(U), rtol=1e-10, atol=1e-15)


def test_adapted_radius_has_its_exact_distribution():
    """With t = R^2/2 the density is sqrt(1 + t/2) exp(-t): incomplete gamma functions."""
    r = LAWS["adapted"]().quantile(U, 7)
    cdf = 1 - special.gammaincc(1.5, 2 + r**2 / 2) / special.gammaincc(1.5, 2)
    np.testing.assert_allclose(cdf, U, atol=1e-12)
    assert LAWS["adapted"]().second_moment(7) == pytest.approx(2.3039157776, rel=1e-9)


def test_weighted_law_is_a_mixture_of_chis():
    for d in (1, 4, 30):
        p = np.array([1, 2, 1 + 2 / d]) / (4 + 2 / d)
        r = LAWS["weighted"]().quantile(U, d)
        cdf = sum(p[i] * stats.chi(d + 2 * i).cdf(r) for i in range(3))
        np.testing.assert_allclose(cdf, U, atol=1e-10)
        second = sum(p[i] * (d + 2 * i) for i in range(3))
        assert LAWS["weighted"]().second_moment(d) == pytest.approx(second, rel=1e-9)


@pytest.mark.parametrize("decay", [1.0, 2.0, 3.0])
def test_multiscale_matches_its_density(decay):
    law = MultiscaleLaw(low=0.7, knee=3.0, high=64.0, decay=decay)

    def density(r):
        return np.where(r < 3.0, 1.0, (r / 3.0) ** -decay) / r

    mass = integrate.quad(density, 0.7, 64, points=[3.0])[0]
    for u in (0.1, 0.5, 0.8, 0.99):
        r = law.quantile(np.array([u]), 2)[0]
        assert integrate.quad(density, 0.7, r, points=[min(3.0, r)])[0] / mass == pytest.approx(u, abs=1e-8)
    second = integrate.quad(lambda r: r**2 * density(r), 0.7, 64, points=[3.0])[0] / mass
    assert law.second_moment(2) == pytest.approx(second, rel=1e-8)


def test_mixed_law_is_a_mixture_of_its_parts():
    law = MixedLaw(share=0.3, inner=4.0, low=0.7, knee=3.0, high=64.0, decay=2.0)
    wide, adapted = MultiscaleLaw(low=0.7, knee=3.0, high=64.0, decay=2.0), LAWS["adapted"]()
    u = np.array([0.1, 0.25, 0.4, 0.9])
    expected = [*wide.quantile(u[:2] / 0.3, 5), *(4.0 * adapted.quantile((u[2:] - 0.3) / 0.7, 5))]
    np.testing.assert_allclose(law.quantile(u, 5), expected, rtol=1e-12)
    assert law.broad(u).tolist() == [True, True, False, False]
    second = 0.3 * wide.second_moment(5) + 0.7 * 16 * adapted.second_moment(5)
    assert law.second_moment(5) == pytest.approx(second, rel=1e-12)


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.0}, {"inner": 0.0}, {"low": 5.0}])
def test_mixed_law_refuses_impossible_parameters(wrong):
    with pytest.raises(ValueError, match="law needs"):
        MixedLaw(**wrong)


@pytest.mark.parametrize("name", LAWS)
def test_recipes_round_trip(name):
    law = LAWS[name]()
    assert RadialLaw.from_recipe(law.to_recipe()) == law


@pytest.mark.parametrize(
    "recipe",
    [
        None,
        {},
        {"law": "gauss"},
        {"law": "adapted", "x": 1},
        {"law": "multiscale"},
        {**MultiscaleLaw().to_recipe(), "low": True},
    ],
)
def test_foreign_recipes_are_refused(recipe):
    with pytest.raises(ValueError, match="radial law"):
        RadialLaw.from_recipe(recipe)
