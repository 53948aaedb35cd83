"""Attacks on our own release: what worst-case neighbours reveal, measured, never exceeds what is claimed.

Two datasets that differ by one row are released many times.  An event is chosen on one half of the releases (the
outcomes that the likelihood ratio finds most telling) and counted on the other half; Clopper-Pearson bounds of both
probabilities give a lower bound of epsilon that is wrong once in ten million runs, all events and both bounds counted.
"""

import math

import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.privacy import noise
from sketchlearn.privacy.mechanism import choose_mechanism, draw
from sketchlearn.privacy.sensitivity import row_bounds

RELEASES = 50_000  # of each neighbour
CONFIDENCE = 1e-9


def lower_bound(ours, theirs, scores, delta):
    """The largest epsilon that the releases of two neighbours prove, over several events."""
    half = len(ours) // 2
    best = 0.0
    a, b = scores(ours), scores(theirs)
    for share in (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01):
        limit = np.quantile(a[:half], 1 - share)
        k, j, n = int((a[half:] >= limit).sum()), int((b[half:] >= limit).sum()), len(a) - half
        low = stats.beta.ppf(CONFIDENCE, k, n - k + 1) if k else 0.0
        high = stats.beta.ppf(1 - CONFIDENCE, j + 1, n - j) if j < n else 1.0
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


def worst_rows(phi):
    """Rows whose phases are all near 45 degrees, or at the opposite: the worst for sums of absolute values."""
    rows = np.linspace(-4000, 4000, 400_001)[:, None]
    score = (phi(rows).real + phi(rows).imag).sum(1)
    return rows[np.argmax(score)], rows[np.argmin(score)]


def releases(phi, rows, chosen, times=RELEASES):
    """Many releases of the same small sketch: (times, sums and number of rows), noise drawn by the library."""
    s = sl.sketch(rows, phi) if len(rows) else sl.Sketch.empty(phi)
    size = phi.size
    values = s.sums.ravel().astype(np.int64)
    if chosen.name == "discrete-gaussian":
        stack = np.append(values, s.weight * chosen.count_multiplier)
        return noise.add_gaussian(np.tile(stack, (times, 1)), chosen.scale)
    if chosen.name == "circular-discrete-laplace":
        pairs = np.repeat(s.sums[:, None, :], times, axis=1).reshape(2, -1)
        sums = noise.add_circular(pairs, chosen.scale).reshape(2, times, size).transpose(1, 0, 2)
        sums = sums.reshape(times, -1)
    else:
        sums = noise.add_laplace(np.tile(values, (times, 1)), chosen.scale)
    if chosen.count_scale is None:
        return sums
    count = noise.add_laplace(np.full((times, 1), s.weight, np.int64), chosen.count_scale)
    return np.hstack([sums, count])


def log_ratio(chosen, here, there, size):
    """Log likelihood ratio of a release of one dataset against another, up to a constant."""

    def of(out, center):
        off = out.astype(float) - center
        if chosen.name == "discrete-gaussian":
            return -(off**2).sum(1) / (2 * chosen.scale**2)
        sums, rest = off[:, : 2 * size], off[:, 2 * size :]
        if chosen.name == "circular-discrete-laplace":
            energy = np.hypot(sums[:, :size], sums[:, size:]).sum(1) / chosen.scale
        else:
            energy = np.abs(sums).sum(1) / chosen.scale
        return -energy - (np.abs(rest).sum(1) / chosen.count_scale if rest.shape[1] else 0.0)

    return lambda out: of(out, here) - of(out, there)


@pytest.mark.parametrize(
    ("mechanism", "relation", "epsilon", "delta", "least"),
    [
        pytest.param("laplace", "add-remove", 1.0, 0.0, 1 / 2, marks=pytest.mark.slow),
        ("laplace", "replace-one", 2.0, 0.0, 1 / 2),
        pytest.param("gaussian", "add-remove", 1.0, 1e-2, 1 / 3, marks=pytest.mark.slow),
        pytest.param("gaussian", "replace-one", 3.0, 1e-3, 1 / 3, marks=pytest.mark.slow),
    ],
)
def test_no_attack_finds_more_than_epsilon(mechanism, relation, epsilon, delta, least):
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    chosen = choose_mechanism(bounds, phi.size, epsilon, delta, relation, 1, mechanism)
    high, low = worst_rows(phi)
    base = np.zeros((3, 1))
    first = np.vstack([base, high[None]])
    second = base if relation == "add-remove" else np.vstack([base, low[None]])
    a, b = (releases(phi, rows, chosen) for rows in (first, second))
    centers = []
    for rows in (first, second):
        s = sl.sketch(rows, phi)
        last = [s.weight * (chosen.count_multiplier or 1)] if a.shape[1] > 2 * phi.size else []
        centers.append(np.append(s.sums.ravel(), last).astype(float))
    if chosen.name == "discrete-gaussian" and not chosen.count_multiplier:
        centers = [np.append(c[: 2 * phi.size], 0.0) for c in centers]
    scores = log_ratio(chosen, *centers, phi.size)
    found = max(
        lower_bound(a, b, scores, delta),
        lower_bound(b, a, lambda out: -scores(out), delta),
    )
    assert found <= epsilon
    assert found > least * epsilon  # the attack has teeth: it finds a good part of what is allowed


def test_an_attack_finds_too_little_noise():
    """The same attack on noise for half of the sensitivity: caught."""
    phi = sl.FourierFeatures.draw(dim=1, size=1, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    wrong = choose_mechanism(bounds, phi.size, 4.0, 0.0, "replace-one", 1, "laplace")
    high, low = worst_rows(phi)
    a, b = (releases(phi, row[None], wrong, 20_000) for row in (high, low))
    scores = log_ratio(wrong, *(sl.sketch(row[None], phi).sums.ravel().astype(float) for row in (high, low)), phi.size)
    assert lower_bound(a, b, scores, 0.0) > 2.0


# -- floating point --------------------------------------------------------------------------


def odd_share(values):
    """Share of numbers that are not a multiple of 2**-53: the event of the precision attack."""
    return np.mean(np.mod(np.asarray(values) * 2.0**53, 1.0) != 0.0)


def test_the_precision_attack_breaks_floating_point_noise():
    rng = np.random.default_rng(0)
    zero, one = 0.0 + rng.laplace(size=50_000), 1.0 + rng.laplace(size=50_000)
    assert odd_share(zero) > 0.2
    assert odd_share(one) == 0.0


def test_the_precision_attack_finds_nothing_here():
    """Releases are integers, and their last digits don't depend on the data."""
    phi = sl.FourierFeatures.draw(dim=1, size=80, scale=1.0, seed=0)
    bounds = row_bounds(phi)
    for delta in (0.0, 1e-6):
        chosen = choose_mechanism(bounds, phi.size, 1.0, delta)
        a, b = (
            np.concatenate([draw(sl.sketch(rows, phi).sums, len(rows), bounds, chosen)[0].ravel() for _ in range(20)])
            for rows in (np.zeros((1, 1)), np.array([[0.0], [1.234]]))
        )
        assert a.dtype == b.dtype == np.int64
        assert odd_share(a) == odd_share(b) == 0.0
        for digits in (2, 8, 64, 256):
            table = np.stack([np.bincount(np.mod(v, digits), minlength=digits) for v in (a, b)])
            assert stats.chi2_contingency(table).pvalue > 1e-9


def test_averages_of_a_private_sketch_are_made_from_integers_alone():
    """Equal integers give equal averages: post-processing sees nothing but what was released."""
    phi = sl.FourierFeatures.draw(dim=1, size=8, scale=1.0, seed=0)
    s = sl.privatize(sl.sketch([[0.3], [0.4]], phi), 1.0, public_map=True)
    other = sl.Sketch(phi, s.sums, s.weight, 0, s.lower, s.upper, 0, privacy=s.privacy)
    assert s.mean.tobytes() == other.mean.tobytes()
