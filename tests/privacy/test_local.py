import decimal
import math

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.local import HEADER, Collector, Encoder, collect
from sketchlearn.privacy import InsecureNoiseWarning, insecure_noise

EPSILONS = [0.1, 1.0, 1.33, 1.35, 2.0, 5.0]


def one_bit(dim=1, size=10, scale=1.0, seed=0):
    return sl.FourierFeatures.draw(dim=dim, size=size, scale=scale, seed=seed, quantized=True)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_likelihood_ratio_is_exactly_what_is_promised(epsilon):
    """The probability of the truth over that of a lie: at most exp(epsilon), and within 1e-15 of it."""
    device = Encoder(one_bit(), epsilon)
    with decimal.localcontext() as context:
        context.prec = 80
        p = decimal.Decimal(device.truth) / 2**64
        ratio = p / ((1 - p) / (device.alternatives - 1))
        limit = decimal.Decimal(epsilon).exp()
        assert ratio <= limit
        assert ratio / limit > 1 - decimal.Decimal("1e-15")


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_answers_have_these_probabilities(epsilon):
    """A hundred thousand answers of one row about one feature, drawn with the system's generator."""
    phi, n = one_bit(size=1), 100_000
    device = Encoder(phi, epsilon)
    said = np.frombuffer(device.encode(np.full((n, 1), 0.3))[HEADER.size :], [("feature", "<u4"), ("answer", "u1")])
    truth = device.truth * 2.0**-64
    for question in range(device.choices):
        mine = said["answer"][said["feature"] == question]
        assert abs(len(mine) / n - 1 / device.choices) < 7 * math.sqrt(0.25 / n)
        counts = np.sort(np.bincount(mine, minlength=device.alternatives) / len(mine))
        assert counts[-1] == pytest.approx(truth, abs=7 * math.sqrt(0.25 / len(mine)))
        lie = (1 - truth) / (device.alternatives - 1)
        assert np.abs(counts[:-1] - lie).max() < 7 * math.sqrt(lie / len(mine))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_averages_are_right_with_the_variance_that_the_record_says(epsilon):
    phi = one_bit(dim=2, size=40)
    rows = np.random.default_rng(0).normal(size=(40_000, 2))
    exact = sl.sketch(rows, phi)
    found = [collect([Encoder(phi, epsilon).encode(rows)], phi, epsilon) for _ in range(20)]
    off = np.array([s.mean - exact.mean for s in found])
    claimed = np.mean([s.variances - exact.variances for s in found])
    # the mean of 800 squared errors (each a sum of two) is off by 1 / sqrt(800) at most sevenfold
    assert np.mean(np.abs(off) ** 2) == pytest.approx(claimed, rel=7 / math.sqrt(800))
    assert np.abs(off.mean(0)).max() < 6 * math.sqrt(claimed / 20)
    assert found[0].count == 40_000


def test_messages_add_up_in_any_order():
    phi = one_bit()
    device = Encoder(phi, 1.0)
    messages = [device.encode(np.full((i + 1, 1), 0.1 * i)) for i in range(20)]
    assert collect(messages, phi, 1.0) == collect(messages[::-1], phi, 1.0)
    assert sl.Sketch.from_bytes(collect(messages, phi, 1.0).to_bytes()) == collect(messages, phi, 1.0)


def test_centres_from_answers_alone(seeded):
    """Three clusters, a quarter of a million devices, epsilon = 2: the centres, and a promise about single rows."""
    rng = np.random.default_rng(0)
    centres = np.array([[-2.0, -2.0], [2.0, -1.0], [0.0, 2.5]])
    rows = centres[rng.integers(0, 3, 250_000)] + 0.3 * rng.normal(size=(250_000, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=60, scale=1.2, seed=0, quantized=True)
    s = collect([Encoder(phi, 2.0).encode(rows)], phi, 2.0)
    model = sl.CompressiveKMeans(3, random_state=0).fit_sketch(s)
    distances = np.linalg.norm(model.cluster_centers_[:, None] - centres[None], axis=2).min(0)
    assert distances.max() < 0.25
    said = " ".join(s.privacy.explain().split())
    assert "nothing else ever left it" in said
    assert sl.Model.of(model).privacy.epsilon == 2.0


def test_seeded_answers_are_marked():
    phi = one_bit()
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        message = Encoder(phi, 1.0).encode([[0.0]] * 10)
    s = collect([message, Encoder(phi, 1.0).encode([[0.0]])], phi, 1.0)
    assert s.privacy.explain().startswith("WARNING")


def test_what_is_refused():
    phi = one_bit()
    for features in (sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0), "map"):
        with pytest.raises(ValueError, match="quantized=True"):
            Encoder(features, 1.0)
    for epsilon in (0.0, -1.0, math.nan, math.inf, "1"):
        with pytest.raises(ValueError, match="epsilon must be"):
            Encoder(phi, epsilon)
    device = Encoder(phi, 1.0)
    with pytest.raises(ValueError, match="columns"):
        device.encode([[1.0, 2.0]])
    with pytest.raises(ValueError, match="NaN"):
        device.encode([[np.nan]])
    server = Collector(phi, 1.0)
    with pytest.raises(ValueError, match="no answer"):
        server.sketch()
    good = device.encode([[0.5]])
    bad = [good[:10], good[:-1], b"x" + good[1:], Encoder(phi, 2.0).encode([[0.5]])]
    bad += [Encoder(one_bit(seed=1), 1.0).encode([[0.5]]), good[:-1] + b"\x07"]
    for message in bad:
        with pytest.raises(sl.SketchFileError, match="local answers"):
            server.add(message)
    assert server.answers == 0
