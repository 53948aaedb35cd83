"""What was never added, or was taken out before, can't be taken out: as far as sums and the record tell."""

import json
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sketches import parts as module
from sketchlearn.sketches.parts import Parts

PHI = sl.FourierFeatures.draw(dim=2, size=6, scale=1.0, seed=5)
X = np.random.default_rng(0).uniform(size=(100, 2))
WIDE = sl.sketch([[-9.0, -9.0], [9.0, 9.0]], PHI)
"""Makes the box so large that it tells nothing."""


def _days(n, phi=PHI):
    return [sl.sketch(X[10 * i : 10 * i + 10], phi) for i in range(n)]


@pytest.mark.parametrize(
    "phi",
    [
        PHI,
        sl.QuadraticFeatures.draw(dim=2, size=3, seed=0, variant="sphere", radius=20.0),
        sl.QuadraticFeatures.draw(dim=2, size=3, seed=0, variant="sphere"),
        sl.QuadraticFeatures.draw(dim=2, seed=0),
    ],
)
def test_as_many_other_rows_leave_no_empty_sketch(phi):
    wide = np.array([[-9.0, -9.0], [9.0, 9.0]])
    a, b = sl.sketch(np.r_[X[:50], wide], phi), sl.sketch(np.r_[X[50:], wide], phi)
    with pytest.raises(ValueError, match="never added: it has as many rows, 52, but others"):
        a - b
    assert (a - a).count == 0
    assert not (a - a).sums.any()


def test_a_file_of_no_rows_has_no_sums():
    for phi in (PHI, sl.QuadraticFeatures.draw(dim=2, seed=0, radius=3.0)):
        none = sl.Sketch.empty(phi)
        with pytest.raises(sl.SketchFileError, match="no rows"):
            sl.Sketch.from_bytes(replace(none, sums=none.sums + 1).to_bytes())


def test_a_part_comes_out_once():
    a, b, c = _days(3)
    week = a.tracked() + b + c
    rest = week - b
    assert rest == replace(a + c, lower=week.lower, upper=week.upper)
    with pytest.raises(ValueError, match="already removed"):
        rest - b
    assert [rest.parts.knows(day) for day in (a, b, c)] == [True, False, True]
    again = rest + b  # and may come out again after it came back
    assert again.parts.knows(b)
    assert (again - b).parts.knows(b) is False
    twice = week + b
    assert (twice - b - b).count == 20
    with pytest.raises(ValueError, match="already removed"):
        twice - b - b - b


def test_sums_of_parts_are_known_by_their_parts():
    a, b, c = _days(3)
    week, two = sl.merge([a.tracked(), b, c]), a.tracked() + b
    assert week.parts.knows(two)
    with pytest.raises(ValueError, match="already removed"):
        week - two - a
    assert (week - two - c).count == 0
    plain = a + b  # a sum that keeps no record is no part, and has none
    assert week.parts.knows(plain) is None
    nested = plain.tracked() + c
    assert nested.parts.knows(plain)
    assert nested.parts.knows(a) is None
    assert nested.parts.knows(two)  # the same rows as plain


def test_what_can_not_be_known_is_told_and_remembered():
    whole = (sl.sketch(X, PHI) + WIDE).tracked()
    some = sl.sketch(X[:10], PHI)
    assert whole.parts.knows(some) is None
    rest = whole - some
    assert rest.count == 92
    with pytest.raises(ValueError, match="already removed"):
        rest - some
    for back in (rest + some, some + rest):
        assert back.parts.knows(some) is None  # as at first
        assert back - some == rest


def test_sketches_without_a_record_are_what_they_were():
    a, b = _days(2)
    for s in (a, a + b, a + b - b, sl.Sketch.empty(PHI)):
        assert s.parts is None
        assert struct.unpack("<8sIIQ", s.to_bytes()[:24])[1] == 1
    assert a.tracked() == a
    assert hash(a.tracked()) == hash(a)
    assert (a + b) - b - a == sl.sketch(X[:20], PHI) - sl.sketch(X[:20], PHI)


def test_the_record_travels():
    a, b = _days(2)
    both = a.tracked() + b - a
    for copy in (sl.Sketch.from_bytes(both.to_bytes()), pickle.loads(pickle.dumps(both))):
        assert copy.parts == both.parts
        assert copy == both
    assert "1 known to be in, 1 taken out" in repr(both)
    # somebody who doesn't know the record may change the sums and write it back: then it says nothing
    data = replace(both, parts=None, extra={"parts": (a.tracked() + a).parts.to_json(a)}).to_bytes()
    assert sl.Sketch.from_bytes(data).parts is None


@pytest.mark.parametrize(
    "bad",
    [
        [], {"of": "", "forgotten": False}, {"of": "", "forgotten": False, "parts": ["x"]},
        {"of": "", "forgotten": False, "parts": ["0" * 16, "0" * 16]}, {"of": "", "forgotten": 1, "parts": []},
        {"of": "", "forgotten": False, "parts": [f"{i:016x}" for i in range(1025)]},
        {"of": "", "forgotten": False, "parts": ["0" * 16 + "+1"]}, {"of": "", "forgotten": False, "parts": [3]},
    ],
)  # fmt: skip
def test_damaged_records_are_refused(bad):
    data = replace(_days(1)[0], extra={"parts": bad}).to_bytes()
    with pytest.raises(sl.SketchFileError, match="record of parts"):
        sl.Sketch.from_bytes(data)


def test_records_are_bounded_and_say_so(monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 4)
    days = _days(10)
    window = days[0].tracked()
    for new, old in zip(days[1:], days, strict=False):  # a sliding window forgets what is long gone
        window = window + new - old
    assert len(window.parts.times) == 4
    assert window.parts.forgotten
    assert window.parts.knows(days[-1])
    assert window.parts.knows(days[-2]) is False
    assert window.parts.knows(days[0]) is None
    many = Parts.together(Parts.of(day) for day in days)
    assert (len(many.times), many.forgotten) == (4, True)
    assert json.loads(json.dumps(many.to_json(days[0])))["forgotten"]
