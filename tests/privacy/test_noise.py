import math

import numpy as np
import pytest
from scipy import stats

from sketchlearn.privacy import InsecureNoiseWarning, insecure_noise, noise


def probabilities(samples, low, high):
    """Observed counts of the integers from low to high, and of what lies outside."""
    inside = np.bincount(np.clip(samples, low - 1, high + 1) - low + 1, minlength=high - low + 3)
    return inside


def fits(observed, expected):
    keep = expected * observed.sum() > 8
    o = np.append(observed[keep], observed[~keep].sum())
    e = np.append(expected[keep], expected[~keep].sum()) * observed.sum()
    if e[-1] < 8:
        o[-2], e[-2], o, e = o[-2] + o[-1], e[-2] + e[-1], o[:-1], e[:-1]
    return stats.chisquare(o, e * (o.sum() / e.sum())).pvalue


@pytest.mark.parametrize("secure", [True, False])
def test_gaussian_noise_has_its_law(secure):
    n, sigma = 40_000, 3.0
    if secure:
        samples = noise.add_gaussian(np.zeros(n, np.int64), sigma)
    else:
        with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
            samples = noise.add_gaussian(np.zeros(n, np.int64), sigma)
    y = np.arange(-200, 201)
    p = np.exp(-(y**2) / (2 * sigma**2))
    p /= p.sum()
    expected = np.concatenate([[0.0], p[np.abs(y) <= 15], [0.0]])
    expected[0] = expected[-1] = p[y > 15].sum()
    assert fits(probabilities(samples, -15, 15), expected) > 1e-9


@pytest.mark.parametrize("secure", [True, False])
def test_laplace_noise_has_its_law(secure):
    n, b = 40_000, 3.0
    if secure:
        samples = noise.add_laplace(np.zeros(n, np.int64), b)
    else:
        with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
            samples = noise.add_laplace(np.zeros(n, np.int64), b)
    y = np.arange(-300, 301)
    p = np.exp(-np.abs(y) / b)
    p /= p.sum()
    expected = np.concatenate([[p[y < -20].sum()], p[np.abs(y) <= 20], [p[y > 20].sum()]])
    assert fits(probabilities(samples, -20, 20), expected) > 1e-9


@pytest.mark.parametrize("scale", [0.7, 2.5])
def test_circular_noise_has_its_law(scale):
    n = 40_000
    x, y = noise.add_circular(np.zeros((2, n), np.int64), scale)
    reach = 12
    grid = np.arange(-80, 81)
    p = np.exp(-np.hypot(grid[:, None], grid[None, :]) / scale)
    p /= p.sum()
    inside = (np.abs(x) <= reach) & (np.abs(y) <= reach)
    observed = np.zeros((2 * reach + 1, 2 * reach + 1))
    np.add.at(observed, (x[inside] + reach, y[inside] + reach), 1)
    part = p[80 - reach : 81 + reach, 80 - reach : 81 + reach]
    assert fits(np.append(observed.ravel(), n - inside.sum()), np.append(part.ravel(), 1 - part.sum())) > 1e-9


def test_circular_noise_is_added_to_pairs():
    values = np.array([[1000, -2000], [3, 4]], np.int64)
    noisy = noise.add_circular(values, 0.05)  # all but no noise
    assert (noisy == values).all()
    with pytest.raises(ValueError, match="pairs"):
        noise.add_circular(np.zeros((3, 2), np.int64), 1.0)
    with pytest.raises(OverflowError, match="64-bit"):
        noise.add_circular(np.zeros((2, 2), np.int64), 2.0**56)


def test_close_decisions_are_made_in_exact_arithmetic(monkeypatch):
    """Every proposal sent down the slow path gives the decision of the fast one, and ties are drawn out."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(-50, 51, size=(2, 300))
    scale, box = 7.0, math.nextafter(7.0 * math.sqrt(2.0), math.inf)
    bits = rng.integers(0, 2**63, 300, dtype=np.int64).astype(np.uint64) * np.uint64(2)
    chance = np.exp(np.abs(pairs).sum(0) / box - np.hypot(*pairs) / scale)
    fast = bits * 2.0**-64 < chance
    slow = [noise._decide(int(b), int(x), int(y), scale, box) for b, x, y in zip(bits, *pairs, strict=True)]
    assert (fast == slow).all()
    # the probability of (0, 0) is one: whatever the bits
    assert noise._decide(2**64 - 1, 0, 0, scale, box)
    # first 64 bits equal to those of the probability: more bits decide
    p = math.exp(5 / box - 5 / scale)
    asked = []
    monkeypatch.setattr(noise.os, "urandom", lambda n: asked.append(n) or bytes(n))
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(5) / Decimal(box) - Decimal(5) / Decimal(scale)).exp()
        tie = int(exact * 2**64)
    assert noise._decide(tie, 5, 0, scale, box)  # zeros follow: below
    assert asked
    assert tie * 2.0**-64 == pytest.approx(p, abs=1e-15)


def test_noise_stays_at_the_ends_of_the_range():
    ends = np.array([2**63 - 1, -(2**63)], np.int64)
    for add in (noise.add_laplace, noise.add_gaussian):
        out = add(np.tile(ends, 50), 1e6).reshape(50, 2)
        assert (out[:, 0] > 0).all()
        assert (out[:, 1] < 0).all()
    out = noise.add_circular(np.tile(ends, (2, 25)), 1e6)
    assert (np.sign(out) == np.sign(np.tile(ends, (2, 25)))).all()


def test_noise_is_never_the_same_twice():
    zeros = np.zeros(50, np.int64)
    assert (noise.add_gaussian(zeros, 1e6) != noise.add_gaussian(zeros, 1e6)).any()


def test_a_seed_is_loud_and_local():
    assert not noise.is_insecure()
    with pytest.warns(InsecureNoiseWarning, match="nothing that is released here is private"), insecure_noise(3):
        told, a = noise.generator(), noise.add_laplace(np.zeros(20, np.int64), 10.0)
    assert "NOT PRIVATE" in told
    with pytest.warns(InsecureNoiseWarning), insecure_noise(3):
        b = noise.add_laplace(np.zeros(20, np.int64), 10.0)
    assert (a == b).all()
    assert not noise.is_insecure()


def test_the_flag_of_opendp_is_put_back(monkeypatch):
    flags = pytest.importorskip("opendp.mod")
    monkeypatch.setattr(flags, "GLOBAL_FEATURES", set())
    noise.add_laplace(np.zeros(2, np.int64), 1.0)
    assert "contrib" not in flags.GLOBAL_FEATURES
    flags.enable_features("contrib")
    noise.add_laplace(np.zeros(2, np.int64), 1.0)
    assert "contrib" in flags.GLOBAL_FEATURES
