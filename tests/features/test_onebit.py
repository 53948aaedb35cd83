"""Features of one bit: counts, correction, noise, wire format, decoding."""

import itertools

import numpy as np
import pytest
import reference  # noqa: F401  # makes "numpy" a tier

import sketchlearn as sl
from sketchlearn.decoders import Mixture, harmonics
from sketchlearn.features import encoding
from sketchlearn.features.reading import Signs
from sketchlearn.kernels import Plan, tiers
from sketchlearn.kernels.fourier import SignSummer


def draw(d=3, m=200, **options):
    return sl.FourierFeatures.draw(dim=d, size=m, scale=1.0, seed=5, quantized=True, **options)


def test_sums_are_plain_counts():
    phi = draw()
    X = np.random.default_rng(0).normal(size=(1000, 3))
    s = sl.sketch(X, phi)
    t = X @ phi.frequencies.T + np.pi * phi.dither.astype(float)
    # a phase within rounding of the edge may fall to either side
    edge = np.minimum(np.abs(np.cos(t)), np.abs(np.sin(t))) < 1e-5
    assert np.abs(s.sums[0] - (np.cos(t) < 0).sum(0)).max() <= edge.sum(0).max()
    assert np.abs(s.sums[1] - (np.sin(t) < 0).sum(0)).max() <= edge.sum(0).max()
    np.testing.assert_allclose(s.mean, phi(X).mean(0), atol=5e-3)
    assert sl.sketch(X[:10], phi) + sl.sketch(X[10:], phi) == s
    assert phi.entry_bound == 1


def test_tiers_count_alike():
    rng = np.random.default_rng(1)
    arrays = {
        "half_turns": rng.normal(size=(37, 6)).astype(np.float32),
        "dither": (2 * rng.uniform(size=37)).astype(np.float32),
        "center": np.zeros(6),
        "rms": np.full(6, np.pi),
    }
    X = rng.normal(size=(300, 6)) * np.where(np.arange(300) % 5, 1.0, 100.0)[:, None]
    plan = Plan("signs", 6, (2, 37), np.dtype(np.int64), arrays)
    found = [
        SignSummer(plan, tiers.module_of("", tier)).sum_rows(X, weights).sums
        for weights, tier in itertools.product((None, rng.integers(0, 4, 300)), (*tiers.TIERS, "numpy"))
    ]
    for a, b in ((0, 1), (0, 2), (3, 4), (3, 5)):
        np.testing.assert_array_equal(found[a], found[b])


@pytest.mark.parametrize("center", [None, [4.0, 4.0, 4.0]])
def test_correction_is_unbiased_over_dithers(center):
    """The first harmonic of the square wave is 4 / pi; the mean over dithers of what the others add is zero."""
    X = np.random.default_rng(2).normal(size=(50, 3)) + (0 if center is None else 4)
    # given the frequencies, the errors of all features are independent: so are their dithers
    phi = sl.FourierFeatures.draw(dim=3, size=8000, scale=1.0, seed=0, quantized=True, center=center)
    errors = sl.sketch(X, phi).mean - np.exp(1j * X @ phi.frequencies.T).mean(0)
    for part in (errors.real, errors.imag):
        assert abs(part.mean()) < 3 * part.std() / np.sqrt(len(part))
    assert np.abs(errors).mean() < 0.2


def test_variances_are_those_of_many_samples():
    """Over samples of rows and dithers the squared error is what the sketch says, on average."""
    told, seen = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        phi = sl.FourierFeatures.draw(dim=2, size=600, scale=0.7, radial="adapted", seed=seed, quantized=True)
        s = sl.sketch(rng.normal(size=(2000, 2)), phi)
        truth = np.exp(-0.5 * phi.norms**2)
        told.append(s.variances.mean())
        seen.append((np.abs(s.mean - truth) ** 2).mean())
    assert np.mean(told) == pytest.approx(np.mean(seen), rel=0.35)
    sampling = s.features.feature_variances(s.sums, float(s.weight)) / 2000
    assert (s.variances >= sampling).all()


def test_impossible_counts_are_refused():
    phi = draw()
    s = sl.sketch(np.zeros((5, 3)), phi)
    assert phi.impossible(s.sums, 5) is None
    assert "would be negative in" in phi.impossible(s.sums + 6, 5)
    with pytest.raises(ValueError, match="never added"):
        s - sl.sketch(np.ones((5, 3)), phi)


@pytest.mark.parametrize("options", [{}, {"structure": "gr2"}])
@pytest.mark.parametrize("m", [1, 3, 200])
def test_encoded_rows_add_up_to_the_sketch(m, options):
    phi = draw(m=m, **options)
    X = np.random.default_rng(3).normal(size=(37, 3)) * 50
    message = phi.encode(X)
    assert len(message) == encoding.HEADER.size + -(-37 * 2 * m // 8)
    together = sl.Sketch.from_encoded([message], phi)
    one_by_one = sl.Sketch.from_encoded([phi.encode(row[None]) for row in X], phi)
    whole = sl.sketch(X, phi)
    for s in (together, one_by_one):
        np.testing.assert_array_equal(s.sums, whole.sums)
        assert s.count == 37
        assert not s.has_box
        assert sl.Sketch.from_bytes(s.to_bytes()) == s
    assert sl.Sketch.from_encoded([], phi) == sl.Sketch.empty(phi)
    assert sl.Sketch.from_encoded([phi.encode(np.empty((0, 3)))], phi).count == 0


def test_layout_of_a_message():
    """Bit b of a row is bit b % 8 of byte b // 8: cosines first, then sines; rows follow without a gap."""
    phi = draw(m=3)
    X = np.random.default_rng(3).normal(size=(2, 3))
    message = phi.encode(X)
    assert message[:8] == b"\x89SKBITS\n"
    assert int.from_bytes(message[8:12], "little") == 1
    assert int.from_bytes(message[12:16], "little") == 3
    assert int.from_bytes(message[16:24], "little") == 2
    assert message[24:40].hex() == phi.fingerprint
    bits = int.from_bytes(message[40:], "little")
    expected = [b for row in X for b in sl.sketch(row[None], phi).sums.ravel()]
    assert [bits >> i & 1 for i in range(12)] == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m[:30], "truncated"),
        (lambda m: b"x" + m[1:], "magic"),
        (lambda m: m[:8] + b"\x09" + m[9:], "version 9"),
        (lambda m: m[:-1], "not what"),
        (lambda m: m[:24] + bytes(16) + m[40:], "another map"),
    ],
)
def test_damaged_messages_are_refused(change, words):
    phi = draw(m=8)
    with pytest.raises(sl.SketchFileError, match=words):
        sl.Sketch.from_encoded([change(phi.encode(np.zeros((2, 3))))], phi)


def test_only_quantised_rows_are_encoded():
    with pytest.raises(ValueError, match="quantized=True"):
        sl.FourierFeatures.draw(dim=3, size=8, scale=1.0, seed=0).encode(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="row 1 holds NaN"):
        draw().encode([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]])
    with pytest.raises(ValueError, match="3 columns"):
        draw().encode(np.zeros((2, 4)))


def test_one_row_moves_the_counts_by_no_more_than_it_may():
    phi = draw()
    sums = sl.sketch(np.random.default_rng(0).normal(size=(1, 3)), phi).sums
    assert np.abs(sums).sum() <= phi.row_bounds_l1 == 400
    assert (sums**2).sum() <= phi.row_bounds_squared == 400


def test_clusters_are_found_from_bits():
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(4, 6)) * 4
    X = centers[rng.integers(4, size=4000)] + rng.normal(size=(4000, 6))
    phi = sl.design(X[:500], n_components=4, size=300, seed=0, quantized=True)
    s = sl.Sketch.from_encoded([phi.encode(X)], phi)
    solution = sl.decode(s, 4, random_state=0)
    distance = np.sqrt(((solution.centers[:, None] - centers) ** 2).sum(2)).min(0)
    assert distance.max() < 0.5
    assert solution.reliable


def far_clusters(seed=0, k=4, d=3, n=4000):
    """Centres thirty standard deviations of a cluster apart: harmonics are as strong as they get."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 30
    labels = rng.integers(k, size=n)
    return centers[labels] + rng.normal(size=(n, d)), centers, np.bincount(labels) / n


def test_harmonics_follow_from_a_mixture():
    X, centers, weights = far_clusters()
    phi = sl.design(X[:500], n_components=4, size=400, seed=0)
    bits = phi.redrawn(quantized=True)
    seen, truth = sl.sketch(X, bits), sl.sketch(X, phi).mean
    mixture = Mixture(weights, centers, np.ones(4))
    plain, added, left = harmonics.characteristic_values(bits, mixture, np.zeros(4))
    assert (left == 0).all()
    assert np.abs(plain - truth).max() < 0.1  # sampling
    distortion = np.abs(seen.mean - truth).std()
    assert np.abs(seen.mean - truth - added).std() < 0.25 * distortion
    told = bits.distortion_variances(seen.sums, float(seen.weight))
    assert np.sqrt(told.mean()) == pytest.approx(np.sqrt((np.abs(seen.mean - truth) ** 2).mean()), rel=0.2)
    clean, share = harmonics.cleaned(seen, seen, mixture)
    assert share < 0.1
    assert (clean.variances <= seen.variances).all()
    # of means that are not known at all nothing follows
    nothing = harmonics.characteristic_values(bits, mixture, np.full(4, 1e6))[1]
    assert np.abs(nothing).max() < 1e-12


@pytest.mark.parametrize("bounds", [False, True])
def test_clusters_far_apart_are_found_from_bits(bounds):
    X, centers, _ = far_clusters()
    low, high = X.min(0), X.max(0)
    common = {"n_components": 4, "size": 150, "seed": 0, "quantized": True}  # 12.5 k d
    phi = sl.design(bounds=(2 * low - high, 2 * high - low), **common) if bounds else sl.design(X[:500], **common)
    solution = sl.decode(sl.sketch(X, phi), 4, random_state=0)
    nearest = ((X[:, None] - solution.centers) ** 2).sum(2).min(1).mean()
    assert nearest < 1.05 * ((X[:, None] - centers) ** 2).sum(2).min(1).mean()


def test_dither_is_drawn_with_the_map():
    phi = draw()
    assert isinstance(phi._reading, Signs)
    assert phi.random_array().shape == (200, 4)
    np.testing.assert_array_equal(
        phi.half_turns, sl.FourierFeatures.draw(dim=3, size=200, scale=1.0, seed=5).half_turns
    )
    assert 0 <= phi.dither.min() < phi.dither.max() <= 2
    assert sl.FourierFeatures.draw(dim=3, size=8, scale=1.0, seed=0).dither is None
