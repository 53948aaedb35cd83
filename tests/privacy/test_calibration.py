import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketchlearn.privacy.calibration import (
    analytic_sigma,
    composed_gaussian,
    concentrated_delta,
    concentrated_epsilon,
    concentrated_sigma,
    discrete_guarantee,
    gaussian_delta,
    gaussian_noise,
    laplace_scale,
)

# sigma / sensitivity of the analytic Gaussian mechanism
GOLDEN = {
    (0.001, 1e-5): 1724.26, (0.001, 1e-8): 3619.15, (0.01, 1e-5): 243.785, (0.01, 1e-8): 412.357,
    (0.1, 1e-5): 30.7496, (0.1, 1e-8): 45.9374, (0.5, 1e-5): 7.03183, (0.5, 1e-8): 9.86353,
    (1.0, 1e-5): 3.73063, (1.0, 1e-6): 4.224679, (1.0, 1e-8): 5.10031, (2.0, 1e-5): 1.99381,
    (10.0, 1e-5): 0.499889, (50.0, 1e-5): 0.149761, (50.0, 1e-8): 0.169029,
}  # fmt: skip
epsilons = st.floats(math.log(1e-3), math.log(50.0)).map(math.exp)
deltas = st.floats(math.log(1e-12), math.log(1e-2)).map(math.exp)


@pytest.mark.parametrize(("epsilon", "delta"), GOLDEN)
def test_golden_values(epsilon, delta):
    assert f"{analytic_sigma(epsilon, delta):.6g}" == f"{GOLDEN[epsilon, delta]:.6g}"


def test_the_noise_at_one_and_a_millionth():
    unit = 2000 * 2**44
    noise = gaussian_noise(1.0, 1e-6, unit, 4001)
    assert noise.sigma / math.sqrt(unit) == pytest.approx(4.224679, abs=1e-6)
    assert noise.concentrated / math.sqrt(unit) == pytest.approx(4.5309, abs=1e-4)


@settings(max_examples=150, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_agrees_with_dp_accounting_and_is_never_smaller(epsilon, delta):
    accounting = pytest.importorskip("dp_accounting")
    reference = accounting.get_sigma_gaussian(epsilon, delta)
    sigma = analytic_sigma(epsilon, delta)
    assert sigma == pytest.approx(reference, rel=1e-6)
    assert sigma >= reference * (1 - 1e-12)


@settings(max_examples=150, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_the_condition_holds_in_eighty_digits(epsilon, delta):
    """The analytic condition evaluated far more precisely than it was solved."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(80):
        s, e = mpmath.mpf(analytic_sigma(epsilon, delta)), mpmath.mpf(epsilon)
        low, high = 1 / (2 * s) - e * s, -1 / (2 * s) - e * s
        exact = mpmath.ncdf(low) - mpmath.exp(e) * mpmath.ncdf(high)
        assert exact <= mpmath.mpf(delta)
        assert exact >= mpmath.mpf(delta) * (1 - mpmath.mpf("1e-6"))
        assert abs(exact / mpmath.mpf(gaussian_delta(float(s), epsilon)) - 1) < 1e-9


@settings(max_examples=100, deadline=None)
@given(epsilon=epsilons, delta=deltas, features=st.integers(1, 20_000))
def test_what_the_discrete_noise_guarantees_is_what_was_asked_for(epsilon, delta, features):
    squared, dimensions = features * 2**44, 2 * features + 1
    noise = gaussian_noise(epsilon, delta, squared, dimensions)
    assert noise.sigma == min(noise.analytic, noise.concentrated)
    assert noise.sigma >= analytic_sigma(epsilon, delta) * math.sqrt(squared) * (1 - 1e-12)
    assert noise.sigma <= (1 + 1e-6) * analytic_sigma(epsilon, delta) * math.sqrt(squared)
    assert discrete_guarantee(noise.sigma, epsilon, squared, dimensions) <= delta
    assert Fraction(noise.rho) >= Fraction(squared) / (2 * Fraction(noise.sigma) ** 2)


@pytest.mark.parametrize("sensitivity", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_one_discrete_number_against_its_exact_privacy_loss(sensitivity, epsilon):
    """Small noise, where discrete is not continuous: summed up over all outcomes."""
    delta = 1e-4
    noise = gaussian_noise(epsilon, delta, sensitivity**2, 1)
    reach = math.ceil(40 * noise.sigma) + sensitivity
    weights = {
        y: math.exp(-(y**2) / (2 * noise.sigma**2)) for y in range(-reach - sensitivity, reach + sensitivity + 1)
    }
    whole = math.fsum(weights.values())
    exact = (
        math.fsum(max(0.0, weights[y] - math.exp(epsilon) * weights[y - sensitivity]) for y in range(-reach, reach + 1))
        / whole
    )
    assert exact <= delta


@pytest.mark.parametrize("releases", [2, 5, 20])
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.3, 1), (1.0, 2), (1.0, 100)])
def test_several_discrete_numbers_against_their_exact_privacy_loss(releases, epsilon, sensitivity):
    """The loss of all is a function of the sum of the noises, whose law is a convolution."""
    delta = 1e-4
    noise = gaussian_noise(epsilon, delta, sensitivity**2, 1)
    claimed = composed_gaussian([noise.rho] * releases, [noise.margin] * releases, [(epsilon, delta)] * releases, delta)
    reach = math.ceil(12 * noise.sigma)
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * noise.sigma**2))
    law = one = one / one.sum()
    for _ in range(releases - 1):
        law = np.convolve(law, one)
    sums = np.arange(len(law)) - releases * reach
    loss = (2.0 * sensitivity * sums + releases * sensitivity**2) / (2.0 * noise.sigma**2)
    spent = float((law * np.maximum(-np.expm1(claimed - loss), 0.0)).sum())
    assert spent <= delta * (1 + 1e-9)
    if sensitivity == 100:  # where the margin is small: no less would be enough
        less = float((law * np.maximum(-np.expm1(0.99 * claimed - loss), 0.0)).sum())
        assert less > delta


@pytest.mark.parametrize("variance", [0.3, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("parts", [2, 3, 6])
def test_sums_of_discrete_gaussians_are_within_their_bound(variance, parts):
    """The factor of Kairouz, Liu and Steinke, by the exact law of the sum; at the scale of sums it is 1."""
    reach = math.ceil(12 * math.sqrt(variance))
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    total = one
    for _ in range(parts - 1):
        total = np.convolve(total, one)
    y = np.arange(len(total)) - parts * reach
    whole = np.exp(-(y**2) / (2 * variance * parts))
    near = np.abs(y) <= 5 * math.sqrt(variance * parts)
    ratio = np.log(total[near] / total.sum()) - np.log(whole[near] / whole.sum())
    bound = 10 * math.fsum(math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in range(1, parts))
    assert np.abs(ratio).max() <= bound + 1e-6  # tails that are cut off
    assert 10 * parts * math.exp(-(math.pi**2) * 8.0**2) < 1e-270  # rounds ask for a scale of 8 of each holder


def test_small_noise_falls_back_to_the_concentrated_bound():
    noise = gaussian_noise(20.0, 1e-3, 1, 1000)
    assert noise.sigma == noise.concentrated < noise.analytic


@settings(max_examples=80, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_concentrated_conversions_agree_with_each_other(epsilon, delta):
    sigma = concentrated_sigma(epsilon, delta)
    rho = 0.5 / sigma**2
    assert concentrated_delta(rho, epsilon) <= delta
    assert concentrated_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6)
    assert sigma >= analytic_sigma(epsilon, delta)


def test_concentrated_bound_against_opendp():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=float)
    for sigma in (0.5, 2.0, 10.0):
        measure = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma))
        for delta in (1e-9, 1e-6, 1e-3):
            theirs = measure.map(1.0).epsilon(delta)
            assert concentrated_epsilon(0.5 / sigma**2, delta) == pytest.approx(theirs, rel=1e-3)


@given(
    epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=50).filter(lambda e: e > 0),
    length=st.integers(1, 2**60),
)
def test_laplace_scales_are_rounded_up(epsilon, length):
    scale = laplace_scale(epsilon, length)
    assert length / Fraction(scale) <= epsilon
    assert length / Fraction(math.nextafter(scale, 0.0)) > epsilon or length / epsilon == Fraction(scale)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_impossible_guarantees_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        analytic_sigma(epsilon, delta)


def test_pure_epsilon_needs_a_positive_one():
    with pytest.raises(ValueError, match="epsilon must be positive"):
        laplace_scale(Fraction(0), 1)


def test_nothing_released_costs_nothing():
    assert concentrated_epsilon(0.0, 1e-6) == 0.0
    assert concentrated_delta(0.0, 1.0) == 0.0
    assert concentrated_epsilon(0.1, 0.0) == math.inf
