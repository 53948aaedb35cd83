import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import sketchlearn as sl
from sketchlearn.privacy import combine, privatize
from sketchlearn.privacy.federated import Round, aggregate, masked, shared_secrets, total

NAMES = ["north", "east", "south", "west"]


@pytest.fixture
def phi():
    return sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=0)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(8000, 2))


@given(
    st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=3, max_size=3), min_size=2, max_size=6),
    st.text(max_size=5),
)
def test_masks_cancel_exactly(vectors, name):
    names = [str(i) for i in range(len(vectors))]
    keys = shared_secrets(names)
    sent = [masked(np.array(v, np.int64), me, keys[me], name) for v, me in zip(vectors, names, strict=True)]
    assert total(sent).tolist() == np.sum(vectors, axis=0).tolist()


def test_a_masked_vector_looks_uniform_whatever_is_behind_it():
    keys = shared_secrets(NAMES)
    for value in (0, 123_456_789):
        sent = masked(np.full(20_000, value, np.int64), "north", keys["north"], "monday")
        assert stats.kstest(sent.astype(float) * 2.0**-64, "uniform").pvalue > 1e-9
        low = np.bincount((sent & np.uint64(15)).astype(int), minlength=16)
        assert stats.chisquare(low).pvalue > 1e-9


def test_no_mask_serves_twice():
    keys = shared_secrets(NAMES)
    zero = np.zeros(50, np.int64)
    a, b = (masked(zero, "north", keys["north"], name) for name in ("monday", "tuesday"))
    assert (a != b).all()


def test_secure_aggregation_with_noise_in_parts(phi, rows):
    """The total has the noise of one release, and each holder's vector says nothing."""
    agreed = Round.agreed(phi, 1.0, 1e-6, holders=4, honest=4, name="monday")
    keys = shared_secrets(NAMES)
    parts = {name: sl.sketch(rows[i::4], phi) for i, name in enumerate(NAMES)}
    whole = sl.merge(parts.values())
    offs, counts = [], []
    for _ in range(20):
        result = aggregate(agreed, [agreed.contribution(parts[n], n, keys[n]) for n in NAMES])
        offs.append((result.sums - whole.sums).astype(float))
        counts.append(result.count - whole.count)
    record = result.privacy
    central = privatize(whole, 1.0, 1e-6, public_map=True).privacy
    assert (record.epsilon, record.delta) == (1.0, 1e-6)
    assert record.sums_variance == pytest.approx(central.sums_variance)
    assert np.mean(np.square(offs)) == pytest.approx(record.sums_variance, rel=0.15)
    assert np.std(counts) < 3 * np.sqrt(record.weight_variance)
    assert record.details["parts"] == 4


def test_fewer_honest_holders_more_noise(phi, rows):
    agreed = Round.agreed(phi, 1.0, 1e-6, holders=4, honest=2, name="monday")
    keys = shared_secrets(NAMES)
    parts = {name: sl.sketch(rows[i::4], phi) for i, name in enumerate(NAMES)}
    result = aggregate(agreed, [agreed.contribution(parts[n], n, keys[n]) for n in NAMES])
    central = privatize(sl.merge(parts.values()), 1.0, 1e-6, public_map=True)
    assert result.privacy.sums_variance == pytest.approx(2 * central.privacy.sums_variance)
    off = (result.sums - sl.merge(parts.values()).sums).astype(float)
    assert np.mean(off**2) == pytest.approx(result.privacy.sums_variance, rel=0.8)


def test_every_holder_on_its_own_costs_more_noise(phi, rows):
    own = [privatize(sl.sketch(rows[i::4], phi), 1.0, 1e-6, public_map=True) for i in range(4)]
    together = combine(own, users="disjoint")
    assert together.privacy.epsilon == 1.0
    assert together.privacy.sums_variance == pytest.approx(4 * own[0].privacy.sums_variance)


def test_what_the_round_refuses(phi, rows):
    agreed = Round.agreed(phi, 1.0, 1e-6, holders=4, honest=4, name="monday")
    keys = shared_secrets(NAMES)
    s = sl.sketch(rows, phi)
    with pytest.raises(ValueError, match="masks of the rest stay on"):
        aggregate(agreed, [agreed.contribution(s, "north", keys["north"])])
    with pytest.raises(ValueError, match="needs a secret with each"):
        agreed.contribution(s, "north", {"east": keys["north"]["east"]})
    with pytest.raises(ValueError, match="honest must be"):
        Round.agreed(phi, 1.0, 1e-6, holders=2, honest=3, name="monday")
    with pytest.raises(ValueError, match="private already"):
        agreed.contribution(privatize(s, 1.0, public_map=True), "north", keys["north"])
    other = sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=1)
    with pytest.raises(sl.IncompatibleSketchError):
        agreed.contribution(sl.sketch(rows, other), "north", keys["north"])
    with pytest.raises(ValueError, match="public number of rows"):
        Round.agreed(phi, 1.0, 1e-6, holders=2, honest=2, name="monday", relation="replace-one")


def test_one_without_the_others_learns_nothing(phi, rows):
    """An aggregator that misses one holder's vector is left with a uniform mask, not with a sum."""
    agreed = Round.agreed(phi, 1.0, 1e-6, holders=4, honest=4, name="monday")
    keys = shared_secrets(NAMES)
    sent = [agreed.contribution(sl.sketch(rows[i::4], phi), n, keys[n]) for i, n in enumerate(NAMES)]
    partial = total(sent[:3]).astype(float)
    assert np.abs(partial).mean() > 2.0**60
