"""Files: whole or not there, one writer at a time, nothing left behind."""

import os
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn import files
from sketchlearn.engines import append as module
from sketchlearn.engines.append import OutputError, append
from sketchlearn.files import LockedError, WriteError, is_full, locked, whole, write
from sketchlearn.privacy import Ledger

PHI = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)
X = np.random.default_rng(0).normal(size=(60, 2))


def test_one_at_a_time(tmp_path):
    path, inside, most = tmp_path / "x", 0, []

    def work():
        nonlocal inside
        with locked(path):
            inside += 1
            most.append(inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 10
    assert list(tmp_path.iterdir()) == []


def test_who_waits_too_long_is_told_by_whom(tmp_path):
    path = tmp_path / "x"
    with locked(path), pytest.raises(LockedError, match=rf"another run writes to it \(process {os.getpid()}\)"):
        with locked(path, wait=0.02):
            pass
    (tmp_path / ".x.lock").write_text("99999\n")  # left by a process that was killed: locks nothing
    with locked(path, wait=0):
        pass
    assert list(tmp_path.iterdir()) == []


def test_links_to_one_file_share_its_lock(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with locked(tmp_path / "x"), pytest.raises(LockedError), locked(tmp_path / "link", wait=0):
        pass


def test_folders_that_can_not_lock_work_without(tmp_path, monkeypatch):
    def unable(*_):
        raise OSError(files.errno.ENOLCK, "no locks available")

    monkeypatch.setattr(files.fcntl, "flock", unable)
    with locked(tmp_path / "x"):
        write(tmp_path / "x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_what_killed_writers_left_is_removed(tmp_path):
    old, young = tmp_path / ".x.abc.tmp", tmp_path / ".x.def.tmp"
    for path in (old, young, tmp_path / ".xy.abc.tmp"):
        path.write_bytes(b"half")
        os.utime(path, (1, 1)) if path != young else None
    write(tmp_path / "x", b"1")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".x.def.tmp", ".xy.abc.tmp", "x"]


def test_an_output_that_somebody_else_changed_is_not_overwritten(tmp_path, monkeypatch):
    out, other = tmp_path / "all.sketch", sl.sketch(X[:50], PHI)
    append(X[:20], out, PHI)
    real = module.engines.run

    def meanwhile(*arguments, **options):
        other.save(out)
        return real(*arguments, **options)

    monkeypatch.setattr(module.engines, "run", meanwhile)
    with pytest.raises(OutputError, match="changed by another program"):
        append(X[20:], out)
    assert sl.load(out) == sl.sketch(X[:50], PHI)


def test_appended_parts_are_on_record(tmp_path):
    out = tmp_path / "all.sketch"
    for start in (0, 20, 40):
        append(X[start : start + 20], out, PHI)
    whole = sl.load(out)
    assert whole == sl.sketch(X, PHI)
    assert whole.parts.knows(sl.sketch(X[20:40], PHI))
    assert whole.parts.knows(sl.sketch(X[:20], PHI))
    with locked(out), pytest.raises(LockedError):
        append(X[:20], out, wait=0.01)
    assert sl.load(out) == whole


def test_a_checkpoint_belongs_to_one_pass(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with locked(tmp_path / "point", wait=0):
        pass
    sl.sketch(tmp_path / "x.npy", PHI, checkpoint=tmp_path / "point")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["point", "x.npy"]


def test_every_writer_follows_links(tmp_path):
    """Sketch, table, model, report, appended file, checkpoint, ledger: a link stays one, and its target is replaced."""
    sketch = sl.sketch(X, PHI)
    model = sl.Model.of(sl.CompressiveKMeans(n_clusters=1, features=PHI, random_state=0).fit_sketch(sketch))
    np.save(tmp_path / "rows.npy", X)
    writers = {
        "sketch": sketch.save,
        "table": sl.sketch(X, PHI, group_by=np.arange(60) % 2).save,
        "model": model.save,
        "report": lambda path: sl.plots.report(model, path=path),
        "append": lambda path: append(X, path, PHI, force=True),
        "checkpoint": lambda path: sl.sketch(tmp_path / "rows.npy", PHI, checkpoint=path),
        "ledger": lambda path: Ledger(path, epsilon=1.0).spend("x", 0.5, what="a look"),
    }
    for name, save in writers.items():
        target, link = tmp_path / "elsewhere" / name, tmp_path / name
        target.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
        save(link)  # the target isn't there yet
        assert link.is_symlink(), name
        assert target.is_file(), name
        if name != "ledger":
            save(link)
            assert link.is_symlink(), name


def test_a_link_and_its_target_are_one_output(tmp_path):
    out, link = tmp_path / "all.sketch", tmp_path / "link.sketch"
    link.symlink_to(out)
    append(X[:20], out, PHI)
    append(X[20:], link)
    assert sl.load(out) == sl.load(link) == sl.sketch(X, PHI)
    ledger, linked = tmp_path / "budget.json", tmp_path / "link.json"
    Ledger(ledger, epsilon=1.0).spend("x", 0.9, what="a look")
    linked.symlink_to(ledger)
    with pytest.raises(sl.BudgetError):
        Ledger(linked).spend("x", 0.9, what="a second look")
    Ledger(linked).spend("x", 0.1, what="a third look")
    assert Ledger(ledger).left("x") == pytest.approx(0.0)
    os.link(ledger, tmp_path / "hard.json")
    with pytest.raises(sl.LedgerFileError, match="second name"):
        Ledger(tmp_path / "hard.json").spend("y", 0.1, what="a fourth look")


def test_links_that_lead_to_themselves_and_folders_are_not_replaced(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path):
        with pytest.raises(WriteError) as caught:
            write(path, b"1")
        assert caught.value.filename == str(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_full_disk_leaves_the_old_file_and_says_which(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(files.errno.ENOSPC, "No space left on device")

    path = tmp_path / "x"
    write(path, b"old")
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(WriteError) as caught:
        write(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (files.errno.ENOSPC, str(path))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is on Linux")
def test_errors_of_the_one_who_writes_are_not_errors_of_the_file(tmp_path):
    with pytest.raises(WriteError, match="No space left"):
        write("/dev/full", bytes(10**6))
    with pytest.raises(FileNotFoundError), whole(tmp_path / "x"):
        (tmp_path / "nothing").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_full_disks_are_told_from_other_errors():
    def caused(error):
        made = sl.SourceError("can't be read")
        made.__cause__ = error
        return made

    assert is_full(caused(OSError(files.errno.ENOSPC, "x")))
    assert is_full(sqlite3.OperationalError("database or disk is full"))
    assert not is_full(caused(OSError(files.errno.EIO, "x")))
    assert not is_full(ValueError("full of NaN"))
