"""Runs into files from Python: appended once, followed, gone on with."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.engines import append as module
from sketchlearn.engines.append import Design, Options, OutputError, Run, append
from sketchlearn.engines.follow import follow_files
from sketchlearn.sources import Selection

PHI = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)
X = np.random.default_rng(0).normal(size=(60, 2))


def test_a_run_that_dies_after_writing_adds_nothing_twice(tmp_path, monkeypatch):
    for i in range(2):
        np.save(tmp_path / f"{i}.npy", X[i * 30 : (i + 1) * 30])
    out = tmp_path / "all.sketch"
    append(tmp_path / "0.npy", out, PHI)
    real = module.files.write

    def dies(path, data):
        real(path, data)
        raise MemoryError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(module.files, "write", dies)
        with pytest.raises(MemoryError):
            append(tmp_path / "1.npy", out)
    assert sl.load(out) == sl.sketch(X, PHI)
    assert append(tmp_path / "1.npy", out) == sl.sketch(X, PHI)
    assert sl.load(out) == sl.sketch(X, PHI)
    assert not (tmp_path / "all.sketch.checkpoint").exists()


def test_the_checkpoint_is_read_once(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    out, reads = tmp_path / "all.sketch", []
    real = module.read_checkpoint

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        append(tmp_path / "x.npy", out, PHI, options=Options(progress=stop))
    for place in ("append", "checkpoint"):
        monkeypatch.setattr(f"sketchlearn.engines.{place}.read_checkpoint", lambda p: reads.append(p) or real(p))
    assert append(tmp_path / "x.npy", out) == sl.sketch(X, PHI)
    assert len(reads) == 1


def test_a_design_is_made_where_no_map_is_given(tmp_path):
    np.save(tmp_path / "x.npy", X)
    design = Design(lambda source: PHI, "ten features")
    assert append(tmp_path / "x.npy", tmp_path / "s", design=design) == sl.sketch(X, PHI)
    with pytest.raises(ValueError, match="needs features"):
        append(tmp_path / "x.npy", tmp_path / "t")
    with pytest.raises(ValueError, match="holds one sketch: leave out group_by"):
        append(tmp_path / "x.npy", tmp_path / "s", group_by=0)
    with pytest.raises(OutputError, match="one of the inputs"):
        Run(tmp_path / "x.npy").opened(str(tmp_path / "x.npy"), Selection.of())


def test_follow_takes_files_as_they_come(tmp_path):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "in"
    folder.mkdir()
    np.save(folder / "0.npy", X[:30])
    said = []

    def say(text):
        said.append(text)
        if len(said) == 1:
            np.save(folder / "1.npy", X[30:])

    run = Run(tmp_path / "s", keep=True, say=say)
    got = follow_files(run, [str(folder)], lambda phi: Selection.of(), PHI, poll=0.01, idle=0.2)
    assert got == sl.sketch(X, PHI) == sl.load(tmp_path / "s")
    assert [text.split(": ")[1] for text in said] == ["30 rows from 1 files", "60 rows from 2 files"]


def test_rows_that_are_in_already_are_refused_and_a_first_night_has_its_map(tmp_path):
    out = tmp_path / "all.sketch"
    days = [np.random.default_rng(i).normal(size=(50, PHI.dim)) for i in range(3)]
    for i, day in enumerate(days):
        np.save(tmp_path / f"{i}.npy", day)
    for i in (0, 1):
        append(tmp_path / f"{i}.npy", out, PHI)
    before = out.read_bytes()
    for i in (1, 0):
        with pytest.raises(sl.DuplicateRowsError, match="nothing was added") as refused:
            append(tmp_path / f"{i}.npy", out, PHI)
        assert (refused.value.path, refused.value.rows) == (str(out), 50)
        assert out.read_bytes() == before
    assert sorted(p.name for p in tmp_path.glob("*.checkpoint")) == []
    append(tmp_path / "2.npy", out)
    assert sl.load(out) == sl.sketch(np.concatenate(days), PHI)
    assert append(tmp_path / "2.npy", out, force=True).count == 200
    other = sl.FourierFeatures.draw(dim=PHI.dim, size=PHI.size, scale=9.0, seed=5)
    with pytest.raises(sl.IncompatibleSketchError, match="another feature map"):
        append(tmp_path / "2.npy", out, other)


def test_groups_that_are_in_already_are_refused(tmp_path):
    rows = np.column_stack([np.random.default_rng(0).normal(size=(40, PHI.dim)), np.arange(40) % 2])
    np.save(tmp_path / "x.npy", rows)
    out, columns = tmp_path / "all.parquet", list(range(PHI.dim))
    append(tmp_path / "x.npy", out, PHI, group_by=PHI.dim, columns=columns)
    with pytest.raises(sl.DuplicateRowsError):
        append(tmp_path / "x.npy", out, PHI, group_by=PHI.dim, columns=columns)
