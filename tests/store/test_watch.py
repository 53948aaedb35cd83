"""Checks, change points and identities over time."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.store.identities import follow, matched
from sketchlearn.store.periods import Period, moment, readable
from sketchlearn.store.watch import change_points, level_of

PHI = sl.FourierFeatures.draw(dim=2, size=60, scale=1.5, seed=0).with_columns(["a", "b"])


def days(shifts, rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return {f"day {i}": sl.sketch(rng.normal((0.0, s), size=(rows, 2)), PHI) for i, s in enumerate(shifts)}


def test_two_changes_are_found_on_their_days():
    found = change_points(days([0.0] * 4 + [1.0] * 3 + [0.0] * 4))
    assert [(c.period, c.columns[0].column) for c in found] == [("day 4", "b"), ("day 7", "b")]
    assert found[0].columns[0].shift > 0 > found[1].columns[0].shift


@pytest.mark.slow
def test_quiet_sequences_have_few_changes():
    # 40 sequences at alpha = 0.05: more than 7 false ones have a probability below 0.001
    false = sum(bool(change_points(days([0.0] * 8, rows=100, seed=s), alpha=0.05)) for s in range(40))
    assert false <= 7


def test_the_level_of_a_check_is_spent_evenly():
    assert level_of(Period.of("1h"), 0.1, Period.of("1d")) == pytest.approx(0.1 / 24)
    assert level_of(Period.of("1y"), 0.1, Period.of("1mo")) == 0.1
    with pytest.raises(ValueError, match="alpha"):
        level_of(Period.of("1h"), 0.0, Period.of("1d"))


def test_centres_out_of_reach_are_births_and_deaths():
    before = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    after = np.array([[0.3, 0.1], [0.0, 10.2], [30.0, 30.0]])
    assert matched(before, after) == [(0, 0), (1, 2)]
    assert matched(before, before[::-1]) == [(0, 2), (1, 1), (2, 0)]


def test_clusters_keep_their_identities():
    rng = np.random.default_rng(0)
    phi = sl.FourierFeatures.draw(dim=2, size=80, scale=3.0, seed=0)
    start, speed = np.array([[-8.0, 0.0], [8.0, 0.0], [0.0, 9.0]]), np.array([[0.3, 0.2], [-0.2, 0.3], [0.1, -0.3]])
    sketches = {}
    for day in range(5):
        at = start + day * speed
        sketches[str(day)] = sl.sketch(at[rng.integers(0, 3, 3000)] + rng.normal(size=(3000, 2)), phi)
    found = follow(sketches, 3)
    for day, clusters in enumerate(found):
        at = start + day * speed
        first = {number: np.argmin(((start - c) ** 2).sum(1)) for number, c in
                 zip(found[0].identities, found[0].centers, strict=True)}  # fmt: skip
        now = {number: np.argmin(((at - c) ** 2).sum(1)) for number, c in
               zip(clusters.identities, clusters.centers, strict=True)}  # fmt: skip
        assert now == first
    assert not any(c.born or c.died for c in found)


@pytest.mark.parametrize(
    ("text", "at", "start", "stop"),
    [
        ("1h", "2024-02-29T13:45", "2024-02-29T13:00:00", "2024-02-29T14:00:00"),
        ("1w", "2024-02-29", "2024-02-26", "2024-03-04"),
        ("1mo", "2024-02-29", "2024-02-01", "2024-03-01"),
        ("1q", "2024-02-29", "2024-01-01", "2024-04-01"),
        ("1y", "1969-07-20T20:17", "1969-01-01", "1970-01-01"),
        ("1d", "2024-03-01T00:30+01:00", "2024-02-29", "2024-03-01"),
    ],
)
def test_buckets_of_time(text, at, start, stop):
    period = Period.of(text)
    found = int(period.floor(moment(at)))
    assert (readable(found), readable(int(period.after(found)))) == (start, stop)


def test_which_buckets_fit_into_others():
    fits = [("1h", "1d"), ("1d", "1w"), ("1d", "1mo"), ("1mo", "1y"), ("12h", "1mo")]
    assert all(Period.of(a).divides(Period.of(b)) for a, b in fits)
    assert not any(
        Period.of(a).divides(Period.of(b)) for a, b in [("1w", "1mo"), ("7h", "1d"), ("1mo", "1d"), ("1w", "8d")]
    )
