"""Passes that are stopped and resumed end with the bytes of one that never was."""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines.checkpoint import read_checkpoint

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PHI = sl.FourierFeatures.draw(dim=4, size=3000, scale=1.0, seed=0)  # chunks of some 20 000 rows


def _write(folder, name, rows, seed, group=20_000):
    X = np.random.default_rng(seed).normal(size=(rows, 4)).astype(np.float32)
    pq.write_table(pa.table(dict(zip("abcd", X.T, strict=True))), folder / name, row_group_size=group)
    return X


def _killed(tmp_path, pattern, kills, options):
    """kill -9 at random moments of a pass, over and over, until it is complete: at how many positions."""
    script = Path(__file__).with_name("killed.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    command = [sys.executable, script, pattern, tmp_path, str(kills), json.dumps(options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    phi = sl.FourierFeatures.draw(dim=4, size=100, scale=1.0, seed=0)
    want = sl.sketch(pattern, phi, **options).to_bytes()
    assert (tmp_path / "out.sketch").exists()
    assert all(path.read_bytes() == want for path in tmp_path.glob("*.sketch"))
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".run")]  # nothing half-written stays
    return int(done.stdout)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.mark.slow
@needs_fork
def test_twenty_kills(tmp_path):
    for i in range(3):
        _write(tmp_path, f"{i}.parquet", 20_000, i, 4000)
    assert _killed(tmp_path, tmp_path / "*.parquet", 20, {}) >= 3  # the kills did hit passes in the middle


@needs_fork
def test_kills_of_a_grouped_pass(tmp_path):
    """Groups come and go between the files: what one run numbered is not what the next one numbers."""
    for i in range(3):
        rng = np.random.default_rng(i)
        X, labels = rng.normal(size=(10_000, 4)).astype(np.float32), np.array(["a", "b", f"only {i}", "c"])
        columns = dict(zip("abcd", X.T, strict=True))
        groups = pa.array(labels[rng.integers(0, 4, 10_000)], mask=np.arange(10_000) % 99 == 0)
        table = pa.table({**columns, "g": groups, "w": np.arange(10_000) % 4 / 4})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=4000)
    options = {"group_by": "g", "weight_column": "w"}
    assert _killed(tmp_path, tmp_path / "*.parquet", 3, options) >= 1


def test_new_files_are_taken_in_and_nothing_twice(tmp_path):
    X = _write(tmp_path, "b.parquet", 30_000, 0)
    point = tmp_path / "state"
    s = sl.sketch(tmp_path / "*.parquet", PHI, checkpoint=point)
    assert s == sl.sketch(X, PHI)
    assert sl.sketch(tmp_path / "*.parquet", PHI, checkpoint=point) == s
    Y = _write(tmp_path, "a.parquet", 10_000, 1)  # sorts before the file that is done
    both = sl.sketch(tmp_path / "*.parquet", PHI, checkpoint=point)
    assert both == sl.sketch(np.vstack([X, Y]), PHI)


@pytest.mark.parametrize("suffix", ["csv", "npy", "arrow"])
def test_interrupted_passes_keep_what_they_have(tmp_path, suffix):
    X = np.random.default_rng(0).normal(size=(100_000, 4)).astype(np.float32)
    path, point = tmp_path / f"x.{suffix}", tmp_path / "state"
    if suffix == "npy":
        np.save(path, X)
    else:
        table = pa.table(dict(zip("abcd", X.T, strict=True)))
        if suffix == "csv":
            import pyarrow.csv as pc

            pc.write_csv(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as out:
                out.write_table(table, max_chunksize=7000)

    def stop(done, total):
        if done > 40_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sl.sketch(path, PHI, checkpoint=point, progress=stop, dtype="float32")
    seen = []
    s = sl.sketch(path, PHI, checkpoint=point, progress=lambda done, total: seen.append(done), dtype="float32")
    assert s.to_bytes() == sl.sketch(X, PHI).to_bytes()
    assert seen[0] > 40_000


def test_checkpoints_that_do_not_fit_are_refused(tmp_path):
    _write(tmp_path, "a.parquet", 1000, 0)
    point, path = tmp_path / "state", tmp_path / "a.parquet"
    sl.sketch(path, PHI, checkpoint=point)
    other = sl.FourierFeatures.draw(dim=4, size=3000, scale=2.0, seed=0)
    for call, message in [
        (lambda: sl.sketch(path, other, checkpoint=point), "another feature map .*scale"),
        (lambda: sl.sketch(path, PHI, checkpoint=point, where="a > 0"), "another where"),
        (lambda: sl.sketch(path, PHI, checkpoint=point, on_invalid="skip"), "another on_invalid"),
        (lambda: sl.sketch(np.zeros((5, 4)), PHI, checkpoint=point), "need files"),
        (lambda: sl.sketch(path, PHI, checkpoint=point, checkpoint_every=-1), "checkpoint_every"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    content = point.read_bytes()
    for damage in (content[:-5], b"x" + content[1:], b"", content[:40] + b"?" + content[41:]):
        point.write_bytes(damage)
        with pytest.raises(sl.SketchFileError, match="delete it"):
            sl.sketch(path, PHI, checkpoint=point)
    point.write_bytes(content)
    os.utime(path, (1, 1))
    with pytest.raises(ValueError, match=r"a.parquet has changed or is missing"):
        sl.sketch(path, PHI, checkpoint=point)


def test_groups_are_resumed_and_taken_in(tmp_path):
    phi = sl.FourierFeatures.draw(dim=1, size=3, scale=1.0, seed=0)
    point, days = tmp_path / "state", [datetime.date(2024, 1, d) for d in (1, 2, 3)]
    pq.write_table(pa.table({"a": [1.0, 2.0], "g": days[:2]}), tmp_path / "b.parquet")
    sl.sketch(tmp_path / "*.parquet", phi, group_by="g", checkpoint=point)
    assert read_checkpoint(point).sketch.groups == days[:2]
    pq.write_table(pa.table({"a": [3.0, 4.0], "g": days[1:]}), tmp_path / "a.parquet")
    table = sl.sketch(tmp_path / "*.parquet", phi, group_by="g", checkpoint=point)
    assert table.counts == {days[0]: 1, days[1]: 2, days[2]: 1}
    assert table.to_bytes() == sl.sketch(tmp_path / "*.parquet", phi, group_by="g").to_bytes()
    with pytest.raises(ValueError, match="another columns, group_by"):
        sl.sketch(tmp_path / "*.parquet", phi, columns="a", checkpoint=point)


def test_groups_of_an_array_are_known_by_their_labels(tmp_path):
    phi = sl.FourierFeatures.draw(dim=1, size=3, scale=1.0, seed=0)
    np.save(tmp_path / "x.npy", np.arange(4.0)[:, None])
    labels = np.array(["a", "b", "a", "b"])
    table = sl.sketch(tmp_path / "x.npy", phi, group_by=labels, checkpoint=tmp_path / "state")
    assert table == sl.sketch(tmp_path / "x.npy", phi, group_by=labels, checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="another group_by"):
        sl.sketch(tmp_path / "x.npy", phi, group_by=labels[::-1], checkpoint=tmp_path / "state")
