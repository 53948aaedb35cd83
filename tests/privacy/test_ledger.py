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
from sketchlearn.privacy import Ledger, ledger, privatize
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
    with pytest.raises(sl.BudgetError, match=r"has spent epsilon=0.6.*would make it epsilon=1.2"):
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
    with pytest.raises(sl.LedgerFileError, match="needs a budget"):
        Ledger(path)
    with pytest.raises(ValueError, match="epsilon must be positive"):
        Ledger(path, epsilon=0.0)
    with pytest.raises(ValueError, match="delta must be"):
        Ledger(path, epsilon=1.0, delta=2.0)


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"format": "sketchlearn-ledger", "version": 9}'])
def test_a_damaged_ledger_is_never_an_empty_one(path, text):
    path.write_text(text)
    with pytest.raises(sl.LedgerFileError, match="nothing is spent"):
        Ledger(path, epsilon=1.0)


@pytest.mark.parametrize("change", [
    lambda v: v["datasets"]["people"]["entries"][0].update(epsilon=-1.0),
    lambda v: v["datasets"]["people"]["entries"][0].update(delta=2.0),
    lambda v: v["datasets"]["people"]["entries"][0].update(rho=-1.0),
    lambda v: v["datasets"]["people"].update(relation="none"),
    lambda v: v.update(epsilon=0.0),
    lambda v: v["datasets"]["people"]["entries"][0].pop("epsilon"),
])  # fmt: skip
def test_impossible_entries_are_noticed(path, change):
    Ledger(path, epsilon=1.0).spend("people", 0.5, what="first")
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(sl.LedgerFileError):
        Ledger(path)


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
    with pytest.raises(ValueError, match="needs dataset="):
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
    with pytest.raises(TimeoutError, match="a crash left it"):
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
