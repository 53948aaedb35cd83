"""Processes give the bytes, the errors and the reports of threads."""

import _thread
import multiprocessing
import os
import pickle

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines import Engine, register_engine
from sketchlearn.engines.checkpoint import read_checkpoint
from sketchlearn.engines.processes import ProcessEngine

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
OPTIONS = {"columns": ["x", "y"], "weight_column": "w"}


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        rng = np.random.default_rng(i)
        x, y = rng.normal(size=(2, 700))
        y[101::97] = np.nan  # of some weight
        groups = pa.array(np.array(["a", "b", f"only {i}"])[rng.integers(0, 3, 700)], mask=np.arange(700) % 99 == 0)
        w = np.arange(700) % 5 / (4 if i else 1)  # whole in one file, fractional in the others
        table = pa.table({"x": x, "y": y, "g": groups, "w": w})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=250)
    return tmp_path


def test_files_have_the_same_bytes(folder):
    seen = []
    for more in ({}, {"group_by": "g"}):
        options = {**OPTIONS, **more, "on_invalid": "skip"}
        seen.clear()
        got = sl.sketch(folder, PHI, engine="processes", workers=2, progress=lambda *r: seen.append(r), **options)
        assert got.to_bytes() == sl.sketch(folder, PHI, **options).to_bytes()
        assert seen[-1] == (2100, 2100)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert not multiprocessing.active_children()


def test_what_is_read_here_has_the_same_bytes():
    rng = np.random.default_rng(0)
    X, w, g = rng.normal(size=(3000, 2)), rng.random(3000) + 0.01, rng.integers(0, 4, 3000)
    X[[7, 2000]] = np.inf
    options = {"sample_weight": w, "group_by": g, "on_invalid": "skip"}
    assert sl.sketch(X, PHI, engine=ProcessEngine(), workers=2, **options) == sl.sketch(X, PHI, **options)
    with pytest.raises(ValueError, match=r"row 7 \(counting from 0\) holds infinity in column 0; clean"):
        sl.sketch(iter(np.split(X, 30)), PHI, engine="processes", workers=2)


def test_errors_name_the_row_as_threads_do(folder):
    (folder / "1.parquet").rename(folder / "0a.parquet")
    for options in (OPTIONS, {**OPTIONS, "group_by": "g"}, {**OPTIONS, "where": "x > 0"}):
        with pytest.raises(ValueError, match=r"row 101 of 0.parquet|row .* that pass the condition") as threads:
            sl.sketch(folder, PHI, **options)
        with pytest.raises(ValueError, match="row") as processes:
            sl.sketch(folder, PHI, engine="processes", workers=2, **options)
        assert str(processes.value) == str(threads.value)
    pq.write_table(pa.table({"x": [1.0], "y": [2.0], "w": [-1.0], "g": ["a"]}), folder / "0.parquet")
    with pytest.raises(ValueError, match=r"the weight of row 0 is -1.0, row 0 of 0.parquet: weights must"):
        sl.sketch(folder, PHI, engine="processes", workers=2, **OPTIONS)


class _Told:
    """Batches of what the environment says where they are read."""

    def __call__(self, size):
        yield sl.sources.base.Batch(np.full((1, 2), float(os.environ["SKETCHLEARN_TEST_NUMBER"])))


def test_workers_see_the_environment_of_now(monkeypatch):
    parts = [sl.sources.base.Part(str(i), _Told(), 1) for i in range(2)]
    for number in ("1", "2"):  # workers of the second pass are forked from a process that is older than it
        monkeypatch.setenv("SKETCHLEARN_TEST_NUMBER", number)
        got = sl.sketch(sl.Source.of_parts(parts), PHI, engine="processes", workers=2)
        assert got == sl.sketch(np.full((2, 2), float(number)), PHI)


def test_errors_of_the_reader_come_through(tmp_path):
    for i in range(2):
        lines = "x,y\n1,2\n3,4\n" + ("5,six\n" if i else "")
        (tmp_path / f"{i}.csv").write_text(lines)
    with pytest.raises(ValueError, match="row") as threads:
        sl.sketch(tmp_path, PHI)
    with pytest.raises(ValueError, match="row") as processes:
        sl.sketch(tmp_path, PHI, engine="processes", workers=2)
    assert str(processes.value) == str(threads.value)


def test_checkpoints_are_those_of_threads(folder):
    options = {**OPTIONS, "on_invalid": "skip"}
    point = folder / "state"

    def stop(done, total):
        if done >= 700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sl.sketch(folder / "*.parquet", PHI, engine="processes", workers=2, checkpoint=point, progress=stop, **options)
    assert read_checkpoint(point).rows >= 700
    got = sl.sketch(folder / "*.parquet", PHI, engine="processes", workers=2, checkpoint=point, **options)
    assert got == sl.sketch(folder / "*.parquet", PHI, **options)
    assert not multiprocessing.active_children()


def test_ctrl_c_stops_cleanly():
    def endless():
        for i in range(10**9):
            if i == 20:
                _thread.interrupt_main()
            yield np.zeros((1000, 2))

    with pytest.raises(KeyboardInterrupt):
        sl.sketch(endless(), PHI, engine="processes", workers=1)
    assert not multiprocessing.active_children()


def test_parts_of_files_pickle(folder, tmp_path):
    X = np.arange(20.0).reshape(10, 2)
    home = tmp_path / "more"
    home.mkdir()
    np.save(home / "a.npy", X)
    np.save(home / "b.npy", X)
    (home / "a.csv").write_text("x,y\n1,2\n3,4\n")
    (home / "a.jsonl").write_text('{"x": 1, "y": 2}\n')
    table = pa.table({"x": X[:, 0], "y": X[:, 1]})
    with pa.ipc.new_file(home / "a.arrow", table.schema) as out:
        out.write_table(table, max_chunksize=4)
    import sqlite3

    with sqlite3.connect(home / "a.db") as connection:
        connection.execute("CREATE TABLE t (x, y)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", X.tolist())
    sources = [
        sl.read(folder / "*.parquet", columns=["x", "y"], weight_column="w", group_by="g", where="x > 0"),
        sl.read(home / "a.npy"),
        sl.read([home / "a.npy", home / "b.npy"]),
        sl.read([home / "a.npy", home / "b.npy"], group_by=0, columns=[1]),
        sl.read(home / "a.csv"),
        sl.read(home / "a.jsonl"),
        sl.read(home / "a.arrow"),
        sl.read(home / "a.db", query="SELECT * FROM t"),
        sl.read(home / "a.npy").map(np.square),
    ]
    for source in sources:
        assert source.parts
        for part in source.parts:
            sent = pickle.dumps(part)
            for a, b in zip(part.batches(3), pickle.loads(sent).batches(3), strict=True):
                np.testing.assert_array_equal(a.rows, b.rows)
                assert a.labels == b.labels
            assert len(sent) < 5000  # names, not rows


def test_engines_by_name():
    with pytest.raises(ValueError, match=r"not known; choose auto, .*processes.*threads"):
        sl.sketch([[0.0, 0.0]], PHI, engine="steam")
    with pytest.raises(TypeError, match="name or an engine"):
        sl.sketch([[0.0, 0.0]], PHI, engine=3)

    class Client:
        pass

    class Empty(Engine):
        def run(self, job):
            return None

    register_engine("empty", lambda value: Empty() if isinstance(value, Client) else None)(Empty)
    for engine in ("empty", Empty(), Client()):
        with pytest.raises(ValueError, match="no rows"):
            sl.sketch([[0.0, 0.0]], PHI, engine=engine)
