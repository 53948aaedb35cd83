"""A release of a random part of the rows: coins that nobody knows, and what they are worth."""

import math

import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.privacy import Ledger, RepeatedReleaseWarning, privatize
from sketchlearn.privacy.amplification import of_sample
from sketchlearn.privacy.calibration import analytic_sigma, gaussian_delta

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
N = 40_000
ROWS = np.random.default_rng(0).normal(size=(N, 2))


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_each_row_has_a_coin_of_its_own(engine):
    rows = np.tile([[1.0, 2.0]], (N, 1))  # equal rows: a hash would take all or none
    counts = [sl.sketch(rows, PHI, sample=0.25, engine=engine).count for _ in range(2)]
    deviation = math.sqrt(N * 0.25 * 0.75)
    assert all(abs(count - N / 4) < 5 * deviation for count in counts)
    assert counts[0] != counts[1] or sl.sketch(rows, PHI, sample=0.25).count != counts[0]


def test_the_sketch_remembers_and_nothing_else_passes_for_a_sample():
    s = sl.sketch(ROWS, PHI, sample=0.1)
    assert sl.Sketch.from_bytes(s.to_bytes()).origin.sampled == 0.1
    assert (s + sl.sketch(ROWS + 1, PHI, sample=0.1)).origin.sampled == 0.1
    whole = sl.sketch(ROWS, PHI)
    for other, share in ((whole, 0.1), (s, 0.2), (s + whole, 0.1), (whole - whole, 0.1)):
        with pytest.raises(ValueError, match=r"was not sampled|is a sample of 0.1"):
            privatize(other, 1.0, sample=share, public_map=True)
    for wrong in ({"relation": "replace-one"}, {"records_per_user": 2}):
        with pytest.raises(ValueError, match="only with relation='add-remove'"):
            privatize(s, 1.0, sample=0.1, public_map=True, **wrong)
    plain = privatize(s, 1.0, public_map=True)  # without a word the promise for all rows holds all the more
    assert "sample" not in plain.privacy.details


@pytest.mark.parametrize("share", [0.5, 0.1, 0.001])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_the_guarantee_of_the_sample_is_one_of_all_rows(share, epsilon):
    inner, wider = of_sample(epsilon, 1e-9, share)
    assert math.log1p(share * math.expm1(inner)) <= epsilon
    assert math.log1p(share * math.expm1(inner)) > epsilon * (1 - 1e-9)
    assert wider * share <= 1e-9 * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_amplification_is_tight_for_gaussian_noise(share):
    """The mixture of both neighbours, integrated: delta is reached, and no smaller noise would do."""
    epsilon, delta = 1.0, 1e-5
    inner, wider = of_sample(epsilon, delta, share)
    for factor, holds in ((1.0, True), (0.98, False)):
        sigma = factor * analytic_sigma(inner, wider)
        x = np.linspace(-30 * sigma, 30 * sigma + 1, 2_000_001)
        with_row = share * stats.norm.pdf(x, 1, sigma) + (1 - share) * stats.norm.pdf(x, 0, sigma)
        without = stats.norm.pdf(x, 0, sigma)
        for p, q in ((with_row, without), (without, with_row)):
            found = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
            if holds:
                assert found <= delta * 1.001
        found = np.maximum(with_row - math.exp(epsilon) * without, 0).sum() * (x[1] - x[0])
        assert found == pytest.approx(share * gaussian_delta(sigma, inner), rel=1e-3)
        assert (found <= delta * 1.001) == holds


def test_a_release_says_what_it_is_of(tmp_path):
    book = Ledger(tmp_path / "l.json", 1.0, 1e-6)
    s = sl.sketch(ROWS, PHI, sample=0.1)
    made = privatize(s, 1.0, 1e-6, sample=0.1, public_map=True, ledger=book, dataset="x")
    assert (made.privacy.epsilon, made.privacy.delta) == (1.0, 1e-6)
    assert made.privacy.details["sample"]["epsilon"] == pytest.approx(2.9, abs=0.01)
    assert "margin" not in made.privacy.details
    assert made.privacy.details["rho"] is None  # a mixture of normal laws is none
    assert book.spent("x").epsilon == 1.0
    whole = privatize(sl.sketch(ROWS, PHI), 1.0, 1e-6, public_map=True)
    assert made.privacy.sums_variance < 0.2 * whole.privacy.sums_variance
    with pytest.raises(ValueError, match="released only once"):
        privatize(s, 1.0, 1e-6, sample=0.1, public_map=True)
    with pytest.warns(RepeatedReleaseWarning):
        privatize(s, 1.0, 1e-6, public_map=True)


def test_sampling_does_not_help():
    """The literature's finding: the noise of the averages is no smaller, and the sample has an error of its own."""
    exact = sl.sketch(ROWS, PHI)
    for epsilon in (0.1, 1.0, 4.0):
        errors = []
        for share in (None, 0.1):
            found = []
            for _ in range(4):
                s = exact if share is None else sl.sketch(ROWS, PHI, sample=share)
                made = privatize(replaced(s), epsilon, 1e-7, sample=share, public_map=True)
                found.append(np.mean(np.abs(made.mean - exact.mean) ** 2))
            errors.append(np.mean(found))
        assert errors[1] > 0.9 * errors[0]


def replaced(s):
    from sketchlearn.privacy.release import _released

    _released.clear()
    return s


def test_what_makes_no_sample_is_refused(tmp_path):
    for wrong in (0.0, 1.0, -0.5, True, "half"):
        with pytest.raises(ValueError, match="sample must be a number above 0 and below 1"):
            sl.sketch(ROWS, PHI, sample=wrong)
    with pytest.raises(ValueError, match="rows are sampled one by one"):
        sl.sketch(ROWS, PHI, sample=0.5, user=np.arange(N), max_rows_per_user=1)
    with pytest.raises(ValueError, match="sampled rows have weight 1"):
        sl.sketch(ROWS, PHI, sample=0.5, sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="too large for a sample"):
        privatize(sl.sketch(ROWS, PHI, sample=0.01), 1.0, 0.05, sample=0.01, public_map=True)
    np.save(tmp_path / "x.npy", ROWS)
    with pytest.raises(ValueError, match="can't be resumed"):
        sl.sketch(tmp_path / "x.npy", PHI, sample=0.5, checkpoint=tmp_path / "c")


def test_on_the_command_line(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    phi, exact, out = (str(tmp_path / name) for name in ("map.json", "s.sketch", "p.sketch"))
    assert main(["design", "--lower=-5,-5", "--upper=5,5", "-k", "2", "-o", phi]) == 0
    assert main(["sketch", str(tmp_path / "x.npy"), "-f", phi, "--sample", "0.1", "-o", exact]) == 0
    command = ["privatize", exact, "-f", phi, "-o", out, "--epsilon", "1", "--delta", "1e-6"]
    assert main([*command, "--sample", "0.2"]) == 4
    assert main([*command, "--sample", "0.1"]) == 0
    assert sl.load(out).privacy.details["sample"]["share"] == 0.1
