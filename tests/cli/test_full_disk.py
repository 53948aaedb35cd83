"""On a full disk every verb that writes says so, exits with 6 and leaves what was there."""

import errno
import sqlite3

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn import files

VERBS = {
    "design": ["design", "rows.csv", "-k", "2", "-o", "out"],
    "sketch": ["sketch", "rows.csv", "-f", "map.json", "-o", "out"],
    "append": ["sketch", "rows.csv", "--append", "--checkpoint-every", "0.000001", "-o", "a.sketch"],
    "groups": ["sketch", "grouped.csv", "--group-by", "g", "-f", "map.json", "-o", "out"],
    "follow": ["sketch", "rows.csv", "--follow", "--poll", "0.01", "--idle", "1", "-f", "map.json", "-o", "out"],
    "merge": ["merge", "a.sketch", "b.sketch", "-o", "out"],
    "subtract": ["subtract", "ab.sketch", "b.sketch", "-o", "out"],
    "privatize": ["privatize", "a.sketch", "--epsilon", "1", "--public-map", "-o", "out"],
    "ledger": ["privatize", "a.sketch", "--epsilon", "1", "--public-map", "--ledger", "l.json", "--budget-epsilon", "2",
               "--dataset", "x", "-o", "out"],
    "learn": ["learn", "kmeans", "a.sketch", "-k", "1", "-o", "out"],
    "predict": ["predict", "model.json", "rows.csv", "-o", "out.csv"],
    "predict to Parquet": ["predict", "model.json", "rows.csv", "-o", "out.parquet"],
    "report": ["report", "model.json", "-o", "out"],
    "plot": ["plot", "centers", "model.json", "-o", "out.png"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, features):
    X = np.random.default_rng(0).normal(size=(60, 2))
    phi = features.with_columns(["x", "y"])
    a, b = sl.sketch(X[:30], phi), sl.sketch(X[30:], phi)
    for name, sketch in (("a", a), ("b", b), ("ab", a + b)):
        sketch.save(tmp_path / f"{name}.sketch")
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in X))
    (tmp_path / "grouped.csv").write_text("x,y,g\n" + "".join(f"{x},{y},{i % 2}\n" for i, (x, y) in enumerate(X)))
    sl.Model.of(sl.CompressiveKMeans(1, features=phi, random_state=0).fit_sketch(a)).save(tmp_path / "model.json")
    return tmp_path


@pytest.mark.parametrize("arguments", VERBS.values(), ids=VERBS)
def test_a_full_disk(folder, run, designed, monkeypatch, arguments):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(files.os, "fsync", full)
    code, _, err = run(*arguments)
    assert (code, "the disk is full" in err) == (6, True), err
    after = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")}
    assert after == before


def test_a_disk_that_is_full_while_rows_are_read(folder, run, features, monkeypatch):
    """A reader may need a temporary file."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pytest.importorskip("pyarrow").table({"x": [1.0], "y": [2.0]}), folder / "rows.parquet")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", full)
    code, _, err = run("sketch", "rows.parquet", "-f", "map.json", "-o", "out")
    assert (code, "disk is full" in err) == (6, True), err


def test_a_store_without_space(folder, run, monkeypatch):
    pytest.importorskip("uvicorn")

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("sketchlearn.federation.store._write_ahead", full)
    code, _, err = run("serve", "map.json", "-s", "sum.db", "-o", "out")
    assert (code, "disk is full" in err) == (6, True), err
