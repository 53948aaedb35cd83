import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.privacy import Ledger, compose, ledger, private_design, privatize
from sketchlearn.privacy.calibration import analytic_sigma
from sketchlearn.privacy.composition import Spent, loss_distribution_epsilon
from sketchlearn.privacy.ledger import describe


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


def entries(path, dataset="people"):
    account = Ledger(path).datasets.get(dataset)
    return account.entries if account else ()


def test_spends_until_nothing_is_left(path):
    book = Ledger(path, epsilon=1.0, delta=1e-6)
    book.spend("people", 0.6, what="first")
    book.spend("others", 0.9, what="another dataset has its own budget")
    with pytest.raises(sl.BudgetError, match=r"has spent epsilon=0.6.*would spend epsilon=1.2"):
        book.spend("people", 0.6, what="second")
    book.spend("people", 0.4, what="third")
    assert book.left("people") == pytest.approx(0.0, abs=1e-12)
    assert [e.what for e in entries(path)] == ["first", "third"]
    with pytest.raises(sl.BudgetError):
        book.spend("people", 1e-6, what="a little")


def test_delta_is_a_budget_too(path):
    book = Ledger(path, epsilon=10.0)
    with pytest.raises(sl.BudgetError):
        book.spend("people", 0.1, 1e-9, what="Gaussian noise without any delta to spend")


def test_many_gaussians_compose_better_than_by_adding(path):
    book = Ledger(path, epsilon=2.0, delta=1e-6)
    for _ in range(100):
        book.spend("people", 0.1, 1e-8, rho=0.0004, what="a small release")
    total = book.spent("people")
    assert total.by == "zero-concentrated"
    assert total.epsilon < 1.4 < 10.0
    assert total.delta == 1e-6


def test_tenths_add_up(path):
    book = Ledger(path, epsilon=1.0)
    for _ in range(10):
        book.spend("people", 0.1, what="a tenth")
    with pytest.raises(sl.BudgetError):
        book.spend("people", 0.1, what="one too many")


def test_survives_in_the_file(path):
    Ledger(path, epsilon=1.0).spend("people", 0.75, what="yesterday")
    again = Ledger(path)
    assert again.epsilon == 1.0
    assert again.spent("people").epsilon == 0.75
    assert "budget.json" in repr(again)
    with pytest.raises(ValueError, match="a budget is set once"):
        Ledger(path, epsilon=5.0)
    with pytest.raises(ValueError, match="a budget is set once"):
        Ledger(path, delta=0.1)
    shown = describe(again)
    assert shown["datasets"]["people"]["left"] == 0.25
    assert json.dumps(shown)


def test_a_new_ledger_needs_a_budget(path):
    with pytest.raises(sl.LedgerFileError, match="give its budget"):
        Ledger(path)
    with pytest.raises(ValueError, match="epsilon must be positive"):
        Ledger(path, epsilon=0.0)
    with pytest.raises(ValueError, match="delta must be"):
        Ledger(path, epsilon=1.0, delta=2.0)


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"format": "sketchlearn-ledger", "version": 9}'])
def test_a_damaged_ledger_is_never_an_empty_one(path, text):
    path.write_text(text)
    with pytest.raises(sl.LedgerFileError, match="nothing will be spent"):
        Ledger(path, epsilon=1.0)


@pytest.mark.parametrize("change", [
    lambda v: v["entries"][0].update(epsilon=-1.0),
    lambda v: v["entries"][0].update(delta=2.0),
    lambda v: v["entries"][0].update(rho=-1.0),
    lambda v: v["entries"][0].update(margin=-1.0),
    lambda v: v["entries"][0].update(relation="none"),
    lambda v: v.update(epsilon=0.0),
    lambda v: v["entries"][0].pop("epsilon"),
])  # fmt: skip
def test_impossible_entries_are_noticed(path, change):
    Ledger(path, epsilon=1.0).spend("people", 0.5, what="first")
    value = json.loads(path.read_text())
    change(value)
    before = value["start"]
    for line in value["entries"]:  # somebody who makes the hashes fit
        before = line["hash"] = ledger._digest(before, {k: v for k, v in line.items() if k != "hash"})
    path.write_text(json.dumps(value))
    with pytest.raises(sl.LedgerFileError):
        Ledger(path)


# -- who spends without being seen -----------------------------------------------------------


def test_two_names_of_one_file_are_one_ledger(tmp_path, path):
    """A link and its target: 1.5 of 1.0 could be spent."""
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.75, what="first")
    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(sl.BudgetError):
        Ledger(tmp_path / "link.json").spend("people", 0.75, what="second")
    Ledger(tmp_path / "link.json").spend("people", 0.25, what="third")
    assert (tmp_path / "link.json").is_symlink()
    assert book.left("people") == pytest.approx(0.0, abs=1e-12)
    os.link(path, tmp_path / "hard.json")
    with pytest.raises(sl.LedgerFileError, match="hard link"):
        Ledger(tmp_path / "hard.json").spend("people", 1e-9, what="fourth")


@pytest.mark.parametrize("again", [False, True])
def test_a_deleted_ledger_does_not_start_empty(path, again):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 1.0, what="all")
    path.unlink()
    with pytest.raises(sl.LedgerFileError, match="the ledger is missing"):
        (Ledger(path, epsilon=1.0) if again else book).spend("people", 1.0, what="all, again")
    assert not path.exists()


@pytest.mark.parametrize("again", [False, True])
def test_an_earlier_state_is_noticed(path, again):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.5, what="first")
    early = path.read_bytes()
    book.spend("people", 0.5, what="second")
    path.write_bytes(early)
    with pytest.raises(sl.LedgerFileError, match="entries are missing"):
        (Ledger(path) if again else book).spend("people", 0.5, what="second, again")


@pytest.mark.parametrize("edit", [
    lambda v: v["entries"][0].update(epsilon=0.01),
    lambda v: v["entries"][1].update(dataset="others"),
    lambda v: v["entries"].pop(0),
    lambda v: v["entries"].reverse(),
    lambda v: v.update(epsilon=2.0),
    lambda v: v.update(entries=[]),
])  # fmt: skip
def test_edits_are_noticed(path, edit):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.5, what="first")
    book.spend("people", 0.25, what="second")
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    with pytest.raises(sl.LedgerFileError, match=r"hash does not match|entries are missing"):
        Ledger(path)


@pytest.mark.parametrize("name", ["People", " people ", "PEOPLE", "peo ple", "people\u3000"])
def test_names_are_one_whatever_their_case_and_spaces(path, name):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.75, what="first")
    with pytest.raises(sl.BudgetError):
        book.spend(name, 0.75, what="second")
    assert book.left(name) == 0.25


# -- what is charged, and when ---------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(50, 1, size=(3000, 2))
BOUNDS = ([0, 0], [100, 100])


def test_a_pilot_that_is_refused_has_spent_nothing(path):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.5, what="first")
    with pytest.raises(sl.BudgetError):
        private_design(ROWS, bounds=BOUNDS, epsilon=0.8, ledger=book, dataset="people")
    assert book.left("people") == 0.5


def test_a_pilot_without_a_ledger_is_charged_with_the_release(path):
    phi, pilot = private_design(ROWS, bounds=BOUNDS, epsilon=0.4, n_components=2, size=40)
    book = Ledger(path, epsilon=1.0)
    s = sl.sketch(ROWS, phi)
    with pytest.raises(sl.BudgetError):
        privatize(s, 0.7, pilot=pilot, ledger=book, dataset="people")
    assert book.left("people") == 1.0  # all or nothing
    released = privatize(s, 0.5, pilot=pilot, ledger=book, dataset="people")
    assert book.left("people") == pytest.approx(0.1)
    assert released.privacy.epsilon == pytest.approx(0.9)


def test_a_pilot_is_charged_once(path):
    book = Ledger(path, epsilon=1.0)
    phi, pilot = private_design(
        ROWS, bounds=BOUNDS, epsilon=0.4, n_components=2, size=40, ledger=book, dataset="people"
    )
    assert book.left("people") == pytest.approx(0.6)
    privatize(sl.sketch(ROWS, phi), 0.5, pilot=pilot, ledger=book, dataset="People")
    assert book.left("people") == pytest.approx(0.1)
    other = Ledger(path.with_name("other.json"), epsilon=1.0)
    privatize(sl.sketch(ROWS, phi), 0.5, pilot=pilot, ledger=other, dataset="people")
    assert other.left("people") == pytest.approx(0.1)


def test_a_pilot_belongs_to_its_map():
    phi, pilot = private_design(ROWS, bounds=BOUNDS, epsilon=0.4, n_components=2, size=40)
    other = sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, seed=0)
    with pytest.raises(ValueError, match="does not come from it"):
        privatize(sl.sketch(ROWS, other), 0.5, pilot=pilot)
    with pytest.raises(ValueError, match="does not come from it"):
        privatize(sl.sketch(ROWS, phi), 0.5, pilot=privatize(sl.sketch(ROWS, other), 1.0, public_map=True).privacy)
    named = phi.with_columns(["x", "y"])
    assert privatize(sl.sketch(ROWS, named), 0.5, pilot=pilot).privacy.epsilon == pytest.approx(0.9)


@pytest.mark.parametrize("delta", [0.0, 1e-14])
def test_noise_that_does_not_fit_is_refused_before_it_is_charged(path, delta):
    book = Ledger(path, epsilon=1.0, delta=1e-5)
    phi = sl.FourierFeatures.draw(dim=1, size=50, scale=1.0, seed=0)
    with pytest.raises(OverflowError):
        privatize(sl.sketch([[0.0]], phi), 1e-12, delta, public_map=True, ledger=book, dataset="people")
    assert book.left("people") == 1.0


def test_ten_gaussian_releases_compose_exactly(path):
    """zCDP asks for 0.981; the exact value of ten shifts of a normal law is 0.909 (by privacy loss too)."""
    book = Ledger(path, epsilon=0.92, delta=1e-6)
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
    for i in range(10):
        s = sl.sketch(ROWS + i, phi)
        privatize(s, 0.3, 1e-7, mechanism="gaussian", public_map=True, ledger=book, dataset="people")
    total = book.spent("people")
    assert total.by == "Gaussian"
    assert total.epsilon == pytest.approx(0.9094, abs=2e-4)
    parts = [Spent(e.epsilon, e.delta, e.rho, margin=e.margin) for e in entries(path)]
    assert loss_distribution_epsilon(parts, 1e-6) == pytest.approx(total.epsilon, abs=2e-4)


def test_mixed_releases_compose_by_privacy_loss():
    gauss = Spent(0.3, 1e-7, 0.5 / analytic_sigma(0.3, 1e-7) ** 2, margin=1e-9)
    mixed = [gauss] * 10 + [Spent(0.1, 0.0, 0.005)] * 5
    total = compose(mixed, 1e-6)
    assert total.by == "privacy-loss distributions"
    assert compose([gauss] * 10, 1e-6).epsilon < total.epsilon < compose([gauss] * 10, 1e-6).epsilon + 0.5
    assert total.epsilon < compose([Spent(s.epsilon, s.delta, s.rho) for s in mixed], 1e-6).epsilon


def test_a_budget_changed_under_our_feet(path):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.5, what="first")
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 100.0'))
    with pytest.raises(sl.LedgerFileError, match="its budget was changed"):
        book.spend("people", 0.1, what="second")


def test_neighbours_are_not_mixed(path):
    book = Ledger(path, epsilon=3.0)
    book.spend("people", 0.5, what="first")
    with pytest.raises(ValueError, match="can't be added to that"):
        book.spend("people", 0.5, what="second", relation="replace-one")
    with pytest.raises(ValueError, match="can't be added to that"):
        book.spend("people", 0.5, what="second", records_per_user=2)
    with pytest.raises(ValueError, match="no such neighbours"):
        book.spend("people", 0.5, what="second", relation="none")
    with pytest.raises(ValueError, match="must be a name"):
        book.spend("", 0.5, what="second")
    with pytest.raises(ValueError, match="epsilon must be"):
        book.spend("people", 0.0, what="second")


def test_a_release_is_written_down_first(path, monkeypatch):
    phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    s = sl.sketch([[0.0]], phi)
    book = Ledger(path, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="go together"):
        privatize(s, 0.5, public_map=True, ledger=book)
    seen = []

    def broken(*_):
        seen.append(len(entries(path)))
        raise KeyboardInterrupt

    monkeypatch.setattr("sketchlearn.privacy.release.draw", broken)
    with pytest.raises(KeyboardInterrupt):
        privatize(s, 0.5, 1e-7, public_map=True, ledger=book, dataset="people")
    assert seen == [1]
    monkeypatch.undo()
    privatize(s, 0.25, 1e-7, public_map=True, ledger=book, dataset="people")
    assert len(entries(path)) == 2
    with pytest.raises(sl.BudgetError):
        privatize(s, 0.5, 9e-7, public_map=True, ledger=book, dataset="people")
    assert len(entries(path)) == 2


# -- crashes ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_line(tmp_path):
    """The process ends without a word before its n-th line, for every n: no release without its entry, ever."""
    script = Path(__file__).with_name("killed.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    command = [sys.executable, script, tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines, with_entry, with_release = map(int, done.stdout.split())
    assert lines > 150
    assert 0 < with_release < with_entry < lines


def _spender(path, count):
    book = Ledger(path)
    for i in range(count):
        try:
            book.spend("people", 0.01, what=f"{os.getpid()} {i}")
        except sl.BudgetError:
            return


def test_writers_wait_for_each_other(path):
    Ledger(path, epsilon=0.5).spend("people", 0.01, what="first")
    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    if hasattr(context, "set_forkserver_preload"):
        context.set_forkserver_preload(["sketchlearn.privacy.ledger"])  # imported once
    workers = [context.Process(target=_spender, args=(path, 20)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(entries(path)) == 50  # 61 tried, the budget is fifty hundredths
    assert len({e.what for e in entries(path)}) == 50


def test_threads_wait_for_each_other_without_fcntl(path, monkeypatch):
    monkeypatch.setattr(ledger, "fcntl", None)
    Ledger(path, epsilon=1.0).spend("people", 0.01, what="first")
    threads = [threading.Thread(target=_spender, args=(path, 10)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entries(path)) == 41
    assert not path.with_name("budget.json.lock").exists()


def test_a_lock_left_by_a_crash_is_named(path, monkeypatch):
    monkeypatch.setattr(ledger, "fcntl", None)
    monkeypatch.setattr(ledger, "_PATIENCE", 0.05)
    path.with_name("budget.json.lock").touch()
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="it was left by a crash"):
        Ledger(path, epsilon=1.0).spend("people", 0.1, what="first")
    assert time.monotonic() - begun >= 0.05


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    book = Ledger(path, epsilon=1.0)
    book.spend("people", 0.1, what="first")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        book.spend("people", 0.1, what="second")
    monkeypatch.undo()
    assert [e.what for e in entries(path)] == ["first"]
    assert not list(path.parent.glob(".budget*"))


def test_sums_of_a_release_are_not_in_the_ledger(path):
    phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    s = sl.sketch(np.zeros((123_457, 1)), phi)
    privatize(s, 0.5, public_map=True, ledger=Ledger(path, epsilon=1.0), dataset="people")
    assert "123457" not in path.read_text()
