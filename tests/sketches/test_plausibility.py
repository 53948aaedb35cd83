"""Sums that no rows have are refused whatever the other fields say, and no sum wraps."""

from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sketches.accumulator import _Sums
from sketchlearn.sketches.origin import PLAIN
from sketchlearn.sketches.record import PrivacyRecord

PHI = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)
MAPS = [
    PHI,
    sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0, quantized=True),
    sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0, features_per_row=5),
    sl.QuadraticFeatures.draw(dim=2, size=2, seed=1, variant="sphere", radius=9.0),
    sl.QuadraticFeatures.draw(dim=2, seed=1, radius=9.0),
    sl.QuarticFeatures.draw(dim=2, size=20, seed=1, radius=9.0),
]
RECORD = PrivacyRecord("gaussian", 1.0, 0.0, "add-remove", 1, 1e6, 1.0, "0")


def _one(phi=PHI, **fields):
    return replace(sl.sketch(np.ones((1, phi.dim)), phi), **fields)


def _large(phi, value=2**60):
    return np.full(phi.sums_shape, value, phi.sums_dtype)


@pytest.mark.parametrize("fields", [{}, {"noise": 1e-3}, {"noise": 1e300}, {"privacy": RECORD}])
@pytest.mark.parametrize("value", [2**60, -(2**60), -(2**63)])
@pytest.mark.parametrize("phi", MAPS, ids=lambda phi: type(phi).__name__)
def test_files_with_sums_that_no_rows_have_are_refused(tmp_path, phi, value, fields):
    (tmp_path / "x.sketch").write_bytes(_one(phi, sums=_large(phi, value), **fields).to_bytes())
    with pytest.raises(sl.SketchFileError, match="no rows can have these sums"):
        sl.load(tmp_path / "x.sketch")


@pytest.mark.parametrize("phi", MAPS, ids=lambda phi: type(phi).__name__)
def test_sums_under_noise_are_what_they_were(phi):
    """Noise takes sums beyond what rows have, and files of it can be read."""
    exact = sl.sketch(np.random.default_rng(0).uniform(-1, 1, (3, 2)), phi)
    noise = np.rint(np.random.default_rng(1).normal(0, 1e3, phi.sums_shape)).astype(np.int64)
    for sketch in (
        replace(exact, sums=exact.sums + noise, privacy=RECORD),
        exact.with_noise(1.0),
        exact.with_noise(1e4),
    ):
        assert sl.Sketch.from_bytes(sketch.to_bytes()) == sketch


@pytest.mark.parametrize(
    "runs", [[[10**12, 1.0]], [[21, 1.0]], [[20, float("1e400")]], [[20.0, 1.0]], [[-1, 1.0], [21, 1.0]], 3, [3]]
)
def test_records_tell_the_noise_of_their_own_sums(runs):
    """A few bytes that ask for terabytes of variances are refused at reading."""
    forged = replace(RECORD, details={"variances": runs})
    with pytest.raises((sl.SketchFileError, ValueError)):
        sl.Sketch.from_bytes(_one(privacy=forged).to_bytes())
    fine = _one(privacy=replace(RECORD, details={"variances": [[10, 1e6], [10, 4e6]]}))
    assert sl.Sketch.from_bytes(fine.to_bytes()) == fine


def test_noise_that_sums_can_not_hold_is_refused_before_it_is_written():
    with pytest.raises(OverflowError, match="more than 64-bit sums can hold"):
        _one().with_noise(1e300)
    loud = _one().with_noise(5e20)
    assert sl.Sketch.from_bytes(loud.to_bytes()) == loud
    with pytest.raises(OverflowError, match="more than 64-bit sums can hold"):
        sl.merge([loud] * 200)


@pytest.mark.parametrize("sign", [1, -1])
def test_merging_sums_that_would_wrap_is_an_error(sign):
    loud = _one(sums=_large(PHI, sign * (2**62 + 1)), noise=1e18)
    for others in ([loud], [loud] * 3):
        with pytest.raises(OverflowError, match="beyond what 64-bit integers hold"):
            sl.merge([loud, *others])
    half = sl.sketch([[0.0, 0.0]], PHI, sample_weight=[0.5])  # finer units: the sums are shifted
    with pytest.raises(OverflowError, match="beyond what 64-bit integers hold"):
        loud + half
    with pytest.raises(OverflowError, match="beyond what 64-bit integers hold"):
        loud - _one(sums=_large(PHI, -sign * (2**62 + 1)), noise=1e18)


def test_accumulating_sums_that_would_wrap_is_an_error_and_changes_nothing():
    sums = _Sums.of(_one(sums=_large(PHI, 2**62)), 0)
    with pytest.raises(OverflowError, match="beyond what 64-bit integers hold"):
        sums.add(_Sums.of(_one(sums=_large(PHI, 2**62)), 0), 1, PLAIN)
    assert sums.weight == 1
    assert (sums.sums == 2**62).all()


def test_an_accumulator_holds_no_noise(monkeypatch):
    made = sl.Accumulator(PHI)
    made.update(np.ones((3, 2)))
    assert sl.Accumulator.from_bytes(made.to_bytes()) == made
    exact = _Sums.exact
    monkeypatch.setattr(_Sums, "exact", lambda self: exact(self).with_noise(1.0))  # a forged state
    with pytest.raises(sl.SketchFileError, match="not an accumulator"):
        sl.Accumulator.from_bytes(made.to_bytes())
