"""A private sketch for every period of a store: the tree of sums, kept in the store's own tables."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.privacy import Ledger

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
DAYS = 10
N = 3000


def _rows(day):
    return np.random.default_rng(day).normal(size=(N, 2))


def _filled(place, days=DAYS):
    store = sl.Store(place)
    for day in range(days):
        when = np.full(N, np.datetime64("2024-05-01") + day)
        store.ingest(_rows(day), PHI, time=when, every="1d", source=f"day {day}")
    return store


OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "periods": 16, "first": "2024-05-01", "public_map": True}


def _close(s, first, last):
    exact = sl.merge([sl.sketch(_rows(day), PHI) for day in range(first, last)])
    off = (s.sums - exact.sums).ravel()
    deviation = np.sqrt(s.privacy.sums_variance)
    assert np.abs(off).max() < 6 * deviation
    assert off.std() > 0.5 * deviation
    assert abs(s.count - exact.count) < 6 * np.sqrt(s.privacy.weight_variance)
    assert (s.privacy.epsilon, s.privacy.delta) == (1.0, 1e-6)
    assert not s.has_box


def test_every_run_of_days_is_released_once(place):
    store = _filled(place)
    public = store.publish("visitors", **OPTIONS)
    assert public.advance("2024-05-01T12:00") == 0  # the first day is not over
    assert public.advance("2024-05-04") == 3
    early = public.sketch()
    assert public.advance("2024-05-04") == 0
    assert public.sketch() == early  # nothing is drawn again
    again = sl.Store(place).published("visitors")  # another process
    assert again.advance("2024-05-11") == 7
    assert again.sketch(until="2024-05-04") == early
    for first, last in ((0, 10), (0, 1), (3, 7), (9, 10)):
        days = [str(np.datetime64("2024-05-01") + i) for i in (first, last)]
        _close(public.sketch(*days), first, last)
    assert list(public.timeline()) == [str(np.datetime64("2024-05-01") + i) for i in range(10)]
    assert public.facts()["done"] == 10
    assert list(store.datasets()) == ["main"]  # no query sees the nodes
    assert store.query().count == DAYS * N
    assert [line["what"] for line in store.journal()] == ["publish"]


def test_it_is_the_release_that_the_class_makes(place):
    from sketchlearn.privacy import ContinualRelease, InsecureNoiseWarning, insecure_noise

    def by_hand():
        stream = ContinualRelease(PHI, 1.0, 1e-6, periods=16, public_map=True)
        return [stream.add(sl.sketch(_rows(day), PHI)) for day in range(5)][-1]

    def by_store(store):
        public = store.publish("x", **OPTIONS)
        public.advance("2024-05-06")
        return public

    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        expected = by_hand()
    store = _filled(place, 5)
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        public = by_store(store)
    assert np.array_equal(public.sketch().sums, expected.sums)
    assert "NOT PRIVATE" in public.sketch().privacy.details["noise"]


def test_exact_cells_may_go_when_they_were_released(place):
    store = _filled(place)
    public = store.publish("visitors", **OPTIONS)
    public.advance("2024-05-06")
    store.retain("1d", now="2024-05-06")  # open sums of higher levels are kept beside
    public.advance("2024-05-09")
    _close(public.sketch(until="2024-05-09"), 0, 8)
    store.rollup("1w")
    with pytest.raises(ValueError, match="rolled up with others before it was released"):
        public.advance("2024-05-11")
    assert public.facts()["done"] == 8  # nothing half done


def test_a_crash_loses_no_day_and_releases_none_twice(place, monkeypatch):
    store = _filled(place)
    public = store.publish("visitors", **OPTIONS)
    public.advance("2024-05-03")
    before = public.sketch()
    real, calls = type(public)._write, []

    def dies(self, *arguments):
        real(self, *arguments)
        calls.append(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(public), "_write", dies)
        with pytest.raises(KeyboardInterrupt):
            public.advance("2024-05-06")
    assert calls
    assert public.sketch() == before
    assert public.facts()["done"] == 2
    assert public.advance("2024-05-06") == 3
    _close(public.sketch(), 0, 5)


def test_the_budget_is_spent_once_at_the_beginning(place, tmp_path):
    store = _filled(place, 3)
    book = Ledger(tmp_path / "l.json", 1.0, 1e-6)
    store.publish("visitors", **OPTIONS, ledger=book, ledger_name="people").advance("2024-05-04")
    assert book.spent("people").epsilon == 1.0
    with pytest.raises(sl.BudgetError):
        store.publish("again", **OPTIONS, ledger=book, ledger_name="people")
    with pytest.raises(ValueError, match="nothing was published under the name 'again'"):
        store.published("again")


def test_what_makes_no_sense_is_refused(place):
    store = _filled(place, 3)
    for wrong, words in (
        ({"public_map": False}, "confirm it with public_map=True"),
        ({"first": "2024-05-01T03:00"}, "not the start of a period"),
        ({"periods": 0}, "periods must be"),
        ({"features": sl.FourierFeatures.draw(dim=2, size=30, scale=2.0, seed=0)}, "different feature maps"),
    ):
        with pytest.raises(ValueError, match=words):
            store.publish("x", **{**OPTIONS, **wrong})
    known = PHI.chosen_from("other data: a census")
    public = store.publish("x", **{**OPTIONS, "public_map": False, "features": known, "periods": 2})
    with pytest.raises(ValueError, match="published already"):
        store.publish("x", **OPTIONS)
    with pytest.raises(ValueError, match="no period there"):
        public.sketch()
    assert public.advance("2024-05-09") == 2  # no more than were promised
    with pytest.raises(ValueError, match="another name, with another budget"):
        public.advance("2024-05-09")
    assert "a census" in public.sketch().privacy.details["map"]
    with pytest.raises(ValueError, match="not the edge of a period"):
        public.sketch("2024-04-01")
    store.ingest(_rows(0), PHI, dataset="timeless")
    with pytest.raises(ValueError, match="have no time"):
        store.publish("y", dataset="timeless", **OPTIONS)


def test_bounded_users_are_held_to_what_was_promised(place):
    store = sl.Store(place)
    when = np.full(N, np.datetime64("2024-05-01"))
    options = {"user": np.arange(N) % 100, "max_rows_per_user": 3}
    store.ingest(_rows(0), PHI, time=when, every="1d", source="a", **options)
    public = store.publish("x", **OPTIONS)
    with pytest.raises(ValueError, match="up to 3 rows of one user"):
        public.advance("2024-05-02")
    assert store.publish("y", **OPTIONS, records_per_user=3).advance("2024-05-02") == 1


def test_the_command_line_publishes(tmp_path, capsys):
    place, out = str(tmp_path / "s.duckdb"), tmp_path / "week.sketch"
    _filled(place)
    command = ["store", "publish", place, "visitors", "--epsilon", "1", "--delta", "1e-6", "--periods", "16"]
    assert main([*command, "--first", "2024-05-01", "--public-map"]) == 0
    assert "without a ledger" in capsys.readouterr().err
    assert main(["store", "advance", place, "visitors", "--until", "2024-05-11"]) == 0
    assert main(["store", "released", place, "visitors", "-o", str(out), "--since", "2024-05-04"]) == 0
    s = sl.load(out)
    assert s.privacy.epsilon == 1.0
    assert abs(s.count - 7 * N) < 1000
