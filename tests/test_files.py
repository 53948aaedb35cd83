"""Files: whole or not there, one writer at a time, nothing left behind."""

import os
import threading
import time

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn import files
from sketchlearn.engines import append as module
from sketchlearn.engines.append import OutputError, append
from sketchlearn.files import LockedError, locked, write

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
    with pytest.raises(OutputError, match="changed by somebody else"):
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
