import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.privacy import combine, compose, divided, privatize
from sketchlearn.privacy.calibration import TAIL, gaussian_delta, gaussian_noise
from sketchlearn.privacy.composition import Spent, loss_distribution_epsilon
from sketchlearn.privacy.mechanism import choose_mechanism
from sketchlearn.privacy.sensitivity import row_bounds

spendings = st.lists(st.builds(Spent, st.floats(1e-3, 5.0), st.sampled_from([0.0, 1e-9, 1e-6])), min_size=1, max_size=8)


@given(spendings)
def test_adding_is_never_less_than_any_part(parts):
    total = compose(parts)
    assert total.epsilon >= max(p.epsilon for p in parts)
    assert total.epsilon <= math.fsum(p.epsilon for p in parts) * (1 + 1e-12)
    assert total.delta <= math.fsum(p.delta for p in parts) * (1 + 1e-12)


@given(st.integers(2, 200), st.floats(0.01, 1.0))
def test_the_better_way_is_taken(count, epsilon):
    parts = [Spent(epsilon)] * count
    basic, other = compose(parts), compose(parts, 1e-6)
    assert other.epsilon <= basic.epsilon
    assert other.by in ("adding", "zero-concentrated")
    assert other.rho == pytest.approx(count * epsilon**2 / 2)


def test_unknown_concentration_is_not_invented():
    total = compose([Spent(1.0, 1e-6), Spent(1.0, 1e-6)], 1e-5)
    assert (total.epsilon, total.delta, total.rho, total.by) == (2.0, 2e-6, None, "adding")
    assert compose([]).epsilon == 0.0


@pytest.fixture
def parts():
    phi = sl.FourierFeatures.draw(dim=1, size=30, scale=1.0, seed=0)
    exact = [sl.sketch(np.full((1000 * (i + 1), 1), float(i)), phi) for i in range(3)]
    return [privatize(s, e, 1e-6, public_map=True) for s, e in zip(exact, (1.0, 2.0, 0.5), strict=True)]


def test_disjoint_users_have_the_weakest_guarantee_of_the_parts(parts):
    total = combine(parts, users="disjoint")
    assert total.privacy.epsilon == 2.0
    assert total.privacy.delta == 1e-6
    assert total.count == sum(p.count for p in parts)
    assert (total.sums == sum(p.sums for p in parts)).all()
    assert total.privacy.sums_variance == pytest.approx(sum(p.privacy.sums_variance for p in parts))
    assert total.privacy.weight_variance == pytest.approx(sum(p.privacy.weight_variance for p in parts))
    assert total.privacy.details["composition"] == "parallel"
    assert total.privacy.details["parts"] == 3


def test_the_same_users_spend_on_every_part(parts):
    total = combine(parts, users="same").privacy
    assert 2.0 < total.epsilon <= 3.5
    assert total.details["composition"] == "sequential"
    assert total.details["rho"] == pytest.approx(sum(p.privacy.details["rho"] for p in parts))


def test_the_caller_says_which(parts):
    with pytest.raises(ValueError, match="users='perhaps'"):
        combine(parts, users="perhaps")
    with pytest.raises(TypeError):
        combine(parts)
    with pytest.raises(ValueError, match="nothing to combine"):
        combine([], users="same")
    assert combine(parts[:1], users="same") is parts[0]


def test_exact_and_private_sketches_do_not_mix(parts):
    exact = sl.sketch([[0.0]], parts[0].features)
    with pytest.raises(ValueError, match="an exact sketch and a private one"):
        combine([parts[0], exact], users="disjoint")


def test_different_protections_do_not_mix(parts):
    exact = sl.sketch([[0.0]], parts[0].features)
    other = privatize(exact, 1.0, relation="replace-one", public_map=True)
    with pytest.raises(ValueError, match="protect different things"):
        combine([parts[0], other], users="disjoint")
    elsewhere = sl.FourierFeatures.draw(dim=1, size=30, scale=1.0, seed=1)
    with pytest.raises(sl.IncompatibleSketchError):
        combine([parts[0], privatize(sl.sketch([[0.0]], elsewhere), 1.0, public_map=True)], users="disjoint")


def test_quadratic_records_keep_both_variances():
    phi = sl.QuadraticFeatures.draw(dim=2, radius=1.0)
    a, b = (privatize(sl.sketch(np.full((100, 2), 0.1 * i), phi), 1.0, 1e-6, public_map=True) for i in (1, 2))
    both = combine([a, b], users="disjoint").privacy.details["variances"]
    assert both == [[n, 2 * v] for n, v in a.privacy.details["variances"]]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.7, 0.2, 0.1]])
def test_a_divided_budget_is_spent_and_not_more(epsilon, shares):
    phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    each = [choose_mechanism(bounds, 50, e, 1e-6, mechanism="gaussian").spent for e in divided(epsilon, 1e-6, shares)]
    together = compose(each, 1e-6)
    assert together.by == "Gaussian"
    assert epsilon * (1 - 1e-4) < together.epsilon <= epsilon
    assert sum(s.epsilon for s in each) > 1.2 * epsilon  # what adding them would say
    with pytest.raises(ValueError, match="add up to 1"):
        divided(1.0, 1e-6, [0.7, 0.7])


def test_the_far_tail_of_discrete_noise_is_counted_at_the_epsilon_of_all():
    """Mixed releases at a delta far below theirs: their tails weigh exp(epsilon) as much, whatever epsilon that is."""
    pytest.importorskip("dp_accounting")
    noise = gaussian_noise(1.0, 1e-2, 2**50, 10)
    gaussian = Spent(1.0, 1e-2, noise.rho, margin=noise.margin)
    for delta in (1e-6, 1e-9, 3e-10):
        total = loss_distribution_epsilon([gaussian, Spent(0.1)], delta)
        tail = TAIL * 1e-2 * math.exp(total - 1.0)
        # the Gaussian release alone spends no more
        assert gaussian_delta(1.0 / math.sqrt(2.0 * noise.rho), total) + tail <= delta
    for delta in (1e-10, 1e-13):  # less than the tail at the epsilon that it would take
        assert loss_distribution_epsilon([gaussian, Spent(0.1)], delta) == math.inf
