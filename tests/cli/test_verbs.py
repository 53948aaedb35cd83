import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl
from sketchlearn.kernels.cuda.device import import_cupy

X = np.random.default_rng(0).normal(size=(4000, 2)).astype(np.float32)


def _write(path, rows, **extra):
    pq.write_table(pa.table({"x": rows[:, 0], "y": rows[:, 1], **extra}), path)


def test_first_time_without_arguments(run, designed, tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(2):
        _write(tmp_path / "data" / f"{i}.parquet", X[i * 2000 : (i + 1) * 2000])
    code, out, err = run("sketch", "data/*.parquet", "-o", "all.sketch")
    assert (code, out) == (0, b"all.sketch: 4,000 rows, 200 features\n")
    assert err.startswith("features: 200 for 2 columns")
    s = sl.load(tmp_path / "all.sketch")
    assert s.features.columns == ("x", "y")
    assert s == sl.sketch(X, s.features)
    assert {p.name for p in tmp_path.iterdir()} == {"data", "all.sketch"}


def test_design_then_sketch_merge_subtract(run, designed, tmp_path):
    _write(tmp_path / "a.parquet", X[:1000], id=[f"row {i}" for i in range(1000)])
    _write(tmp_path / "b.parquet", X[1000:], id=["z"] * 3000)
    assert run("design", "a.parquet", "-c", "x,y", "-k", 5, "--standardize", "-o", "map.json")[0] == 0
    code, out, _ = run("sketch", "a.parquet", "-f", "map.json", "-o", "a.sketch", "--json")
    assert code == 0
    assert json.loads(out)["columns"] == ["x", "y"]
    assert run("sketch", "b.parquet", "-f", "a.sketch", "-o", "b.sketch")[0] == 0
    assert run("merge", "a.sketch", "b.sketch", "-o", "all.sketch")[1] == b"all.sketch: 4,000 rows from 2 files\n"
    phi = sl.load(tmp_path / "a.sketch").features
    assert phi.whitening is not None
    assert sl.load(tmp_path / "all.sketch") == sl.sketch(X, phi)
    code, out, _ = run("subtract", "all.sketch", "b.sketch", "-o", "-")
    assert sl.Sketch.from_bytes(out).count == 1000
    assert json.loads(run("info", "map.json", "--json")[1])["columns"] == ["x", "y"]


def test_the_file_that_does_not_fit_is_named(run, tmp_path):
    phi, other = (sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=s) for s in (0, 1))
    parts = {"a": sl.sketch(X[:10], phi), "b": sl.sketch(X[10:20], phi), "c": sl.sketch(X[20:50], phi)}
    parts |= {"all": parts["a"] + parts["b"], "x": sl.sketch(X[:5], other)}
    parts["p"] = sl.privatize(parts["a"], 1.0, public_map=True)
    for name, s in parts.items():
        s.save(tmp_path / name)
    for command in (("merge", "a", "b", "x", "-o", "out"), ("drift", "a", "b", "x")):
        code, _, err = run(*command)
        assert code == 5
        assert "a and x: the sketches have different feature maps (seed 0 vs 1)" in err
    for users in ((), ("--users", "disjoint")):
        code, _, err = run("merge", "p", "b", "-o", "out", *users)
        assert code == 4
        assert "p and b: " in err
    code, _, err = run("subtract", "all", "a", "c", "-o", "out")
    assert code == 4
    assert "all and c: can't subtract a sketch of 30 rows from one of 10" in err
    code, _, err = run("subtract", "all", "b", "x", "-o", "out")
    assert code == 5
    assert "all and x: " in err
    assert not (tmp_path / "out").exists()


def test_engines_by_name(run, designed, tmp_path, monkeypatch):
    _write(tmp_path / "a.parquet", X)
    assert run("design", "a.parquet", "-o", "map.json")[0] == 0
    assert run("sketch", "a.parquet", "-f", "map.json", "-o", "a.sketch", "--engine", "threads")[0] == 0
    assert run("sketch", "a.parquet", "-f", "a.sketch", "-o", "b.sketch", "--engine", "auto")[0] == 0
    assert (tmp_path / "a.sketch").read_bytes() == (tmp_path / "b.sketch").read_bytes()
    code, _, err = run("sketch", "a.parquet", "-o", "c.sketch", "--engine", "abacus")
    assert code == 2
    assert "--engine abacus: choose one of auto, threads, processes, gpu" in err
    monkeypatch.setitem(sys.modules, "cupy", None)
    import_cupy.cache_clear()
    code, _, err = run("sketch", "a.parquet", "-f", "a.sketch", "-o", "c.sketch", "--engine", "gpu")
    import_cupy.cache_clear()
    assert code == 7
    assert "needs CuPy, which is not installed: pip install" in err


def test_design_from_bounds_looks_at_no_row(run, designed):
    code, out, _ = run("design", "--lower", "0,0", "--upper", "1,2", "-k", 3, "-o", "-")
    assert code == 0
    assert json.loads(out)["features"]["dim"] == 2


def test_groups(run, features, tmp_path):
    _write(tmp_path / "a.parquet", X, g=[f"k{i % 3}" for i in range(4000)])
    _, out, _ = run("sketch", "a.parquet", "-f", "map.json", "--group-by", "g", "-o", "t.parquet", "--json")
    assert json.loads(out)["groups"] == 3
    assert run("merge", "t.parquet", "-g", "k0", "-g", "k2", "-o", "some.sketch")[0] == 0
    keep = np.arange(4000) % 3 != 1
    assert sl.load(tmp_path / "some.sketch") == sl.sketch(X[keep], features)
    assert b"3 groups, 4,000 rows" in run("info", "t.parquet")[1]


def test_info_tells_what_a_sketch_knows(run, features, tmp_path):
    sl.sketch(X, features).save(tmp_path / "a.sketch")
    text = run("info", "a.sketch")[1].decode()
    assert "4,000" in text
    assert "can't tell" in text
    facts = json.loads(run("info", "a.sketch", "--json")[1])
    assert (facts["rows"], facts["columns"], facts["kind"]) == (4000, 2, "sketch")
    assert facts["lower"] == X.min(0).tolist()


def test_compare_has_an_exit_code(run, features, tmp_path):
    for name, rows in (("a", X[:2000]), ("b", X[2000:]), ("c", X[2000:] + np.float32(0.5))):
        sl.sketch(rows, features).save(tmp_path / f"{name}.sketch")
    code, out, _ = run("compare", "a.sketch", "b.sketch", "--alpha", 0.001)
    assert (code, b"no difference" in out) == (0, True)
    code, out, _ = run("compare", "a.sketch", "c.sketch", "--json")
    assert (code, json.loads(out)["differs"]) == (10, True)


def test_standard_input_and_output(run, designed, features, monkeypatch, tmp_path):
    text = io.BytesIO()
    pc.write_csv(pa.table({"x": X[:, 0], "y": X[:, 1]}), text)

    class Input:
        buffer = io.BytesIO(text.getvalue())

    monkeypatch.setattr(sys, "stdin", Input)
    code, out, _ = run("sketch", "-", "--format", "csv", "--dtype", "float32", "-f", "map.json", "-o", "-")
    assert code == 0
    assert sl.Sketch.from_bytes(out) == sl.sketch(X, features)
    Input.buffer = io.BytesIO(out)
    assert json.loads(run("info", "-", "--json")[1])["rows"] == 4000
    Input.buffer = io.BytesIO(text.getvalue())  # designed from its first rows, none of them lost
    assert json.loads(run("sketch", "-", "--format", "csv", "-o", "s", "--json")[1])["rows"] == 4000


def test_append(run, features, tmp_path):
    for i in range(2):
        _write(tmp_path / f"{i}.parquet", X[i * 2000 : (i + 1) * 2000])
    assert run("sketch", "0.parquet", "-f", "map.json", "-o", "s")[0] == 0
    assert run("sketch", "1.parquet", "--append", "-o", "s")[0] == 0
    assert sl.load(tmp_path / "s") == sl.sketch(X, features)


def test_append_to_a_table_of_groups(run, features, tmp_path):
    for i in range(2):
        rows = X[i * 2000 : (i + 1) * 2000]
        _write(tmp_path / f"{i}.parquet", rows, g=[f"k{(j % 3) + i}" for j in range(2000)])
    group = ["--group-by", "g"]
    assert run("sketch", "0.parquet", "-f", "map.json", *group, "-o", "t")[0] == 0
    assert run("sketch", "1.parquet", "--append", *group, "-o", "t")[0] == 0
    assert run("sketch", "0.parquet", "1.parquet", "-f", "map.json", *group, "-o", "all")[0] == 0
    assert (tmp_path / "t").read_bytes() == (tmp_path / "all").read_bytes()
    assert sl.SketchTable.load(tmp_path / "t").groups == ["k0", "k1", "k2", "k3"]
    code, _, err = run("sketch", "1.parquet", "--append", "-o", "t")
    assert (code, "say which column has the groups" in err) == (4, True)


@pytest.mark.parametrize("group", [[], ["--group-by", "g"]])
def test_append_never_counts_twice(run, features, tmp_path, group, monkeypatch):
    """Killed after the output was written and before the checkpoint went away."""
    for i in range(2):
        _write(tmp_path / f"{i}.parquet", X[i * 2000 : (i + 1) * 2000], g=[f"k{j % 3 + i}" for j in range(2000)])
    columns = ["-c", "x,y", *group]
    assert run("sketch", "0.parquet", "-f", "map.json", *columns, "-o", "s")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        assert run("sketch", "1.parquet", "--append", *columns, "-o", "s")[0] == 0
    assert (tmp_path / "s.checkpoint").exists()
    want = (tmp_path / "s").read_bytes()
    assert run("sketch", "1.parquet", "--append", *columns, "-o", "s")[0] == 0
    assert (tmp_path / "s").read_bytes() == want
    assert not (tmp_path / "s.checkpoint").exists()


def test_an_output_that_is_an_input_is_refused(run, features, tmp_path):
    _write(tmp_path / "a.parquet", X)
    content = (tmp_path / "a.parquet").read_bytes()
    for data in ("a.parquet", "*.parquet", "."):
        code, _, err = run("sketch", data, "-f", "map.json", "-o", "./a.parquet")
        assert (code, "choose another output" in err) == (6, True)
    assert (tmp_path / "a.parquet").read_bytes() == content


def test_an_unfinished_run_goes_on(run, features, tmp_path, monkeypatch):
    _write(tmp_path / "a.parquet", X)
    # what an interrupted run leaves: position and sketch of the first rows
    from sketchlearn.engines.checkpoint import Checkpoint

    source = sl.read("a.parquet")
    settings = {**source.settings, "on_invalid": "raise"}
    point, _ = Checkpoint.begin("s.checkpoint", source, features, settings, 0)
    point.save(1500, sl.sketch(X[:1500], features))
    code, _, err = run("sketch", "a.parquet", "-o", "s")  # the features come from the checkpoint
    assert (code, "going on after 1,500 rows" in err) == (0, True)
    assert sl.load(tmp_path / "s") == sl.sketch(X, features)
    assert not (tmp_path / "s.checkpoint").exists()


def test_follow_a_growing_folder(features, tmp_path):
    (tmp_path / "in").mkdir()
    _write(tmp_path / "in" / "b.parquet", X[:1000])
    command = [sys.executable, "-m", "sketchlearn.cli", "sketch", "in", "--format", "parquet", "--follow"]
    command += ["--poll", "0.1", "-f", "map.json", "-o", "s"]
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert "1,000 rows from 1 files" in process.stderr.readline()
        _write(tmp_path / "in" / ".half", X[1000:])
        (tmp_path / "in" / ".half").rename(tmp_path / "in" / "a.parquet")
        assert "4,000 rows from 2 files" in process.stderr.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert sl.load(tmp_path / "s") == sl.sketch(X, features)


def test_follow_with_groups_leaves_its_own_output_alone(run, features, tmp_path):
    command = ["sketch", ".", "--follow", "--poll", 0.02, "--idle", 0.2, "-f", "map.json", "--group-by", "g"]
    for i in range(2):
        _write(tmp_path / f"{i}.parquet", X[i * 2000 : (i + 1) * 2000], g=[i] * 2000)
        assert run(*command, "-o", "t.parquet")[0] == 0
    assert sl.SketchTable.load(tmp_path / "t.parquet").counts == {0: 2000, 1: 2000}


def test_ctrl_c_says_how_to_go_on(run, features, tmp_path, monkeypatch):
    _write(tmp_path / "a.parquet", X)

    def interrupted(*arguments, checkpoint, **options):
        checkpoint.path.write_bytes(b"")
        raise KeyboardInterrupt

    from sketchlearn import engines

    monkeypatch.setattr(engines, "run", interrupted)
    code, _, err = run("sketch", "a.parquet", "-f", "map.json", "-o", "s")
    assert code == 130
    assert "run the same command again" in err


def test_version_and_help(run):
    assert run("--version")[1] == f"sketchlearn {sl.__version__}\n".encode()
    code, out, _ = run("--help")
    assert code == 0
    for verb in ("design", "sketch", "merge", "subtract", "info", "compare"):
        assert verb.encode() in out
        code, own, _ = run(verb, "--help")
        assert (code, b"--json" in own) == (0, True), verb


def test_a_budget_of_seconds_is_that_of_the_command_alone(tmp_path, run):
    from sketchlearn.decoders.budget import spending

    X = np.random.default_rng(0).exponential(size=(3000, 6))
    sl.sketch(X, sl.design(X, n_components=10, seed=0)).save(tmp_path / "a.sketch")
    learn = ("learn", "kmeans", tmp_path / "a.sketch", "-k", "10", "-o", tmp_path / "model.json")
    assert b"budget of 0.02 s of CPU left no time" in run(*learn, "--budget", "0.02")[1]
    with spending() as budget:
        assert budget.seconds == 60.0
    assert b"0.05 s" in run("sweep", tmp_path / "a.sketch", "-k", "1:30", "--budget", "0.05")[1]
    code, _, err = run(*learn, "--budget", "-1")
    assert code == 2
    assert "--budget" in err


def test_without_the_extra(monkeypatch, capsys):
    from sketchlearn.cli import main

    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "sketchlearn.cli.app", raising=False)
    assert main(["info"]) == 7
    assert "pip install 'sketchlearn[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["before", "after"])
def test_debug_shows_the_traceback(run, where):
    arguments = ["info", "nowhere.sketch"]
    code, _, err = run(*(["--debug", *arguments] if where == "before" else [*arguments, "--debug"]))
    assert code == 3
    assert "Traceback" in err


def test_an_unfinished_run_is_not_resumed_with_another_design(tmp_path, run):
    rng = np.random.default_rng(0)
    for part in range(3):
        np.save(tmp_path / f"{part}.npy", rng.normal(size=(3000, 2)))
    arguments = ["sketch", "0.npy", "1.npy", "2.npy", "-k", "3", "-o", "all.sketch", "--checkpoint-every", "0.0001"]
    stopped = (
        "import sys; from sketchlearn.cli import main\n"
        "from sketchlearn.engines.checkpoint import Checkpoint\n"
        "save = Checkpoint.save\n"
        "def once(self, *a, **k):\n    save(self, *a, **k); raise KeyboardInterrupt\n"
        "Checkpoint.save = once; sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run([sys.executable, "-c", stopped, *arguments], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 130, done.stderr
    for other in (["--standardize"], ["--seed", "7"], ["--task", "gmm"], ["-k", "5"]):
        code, _, err = run(*arguments, *other)
        assert (code, "run it with the same options, or start over with --restart" in err) == (4, True), err
    assert run(*arguments)[0] == 0
    assert sl.load(tmp_path / "all.sketch").count == 9000


def test_a_column_that_decides_alone_is_named(tmp_path, run):
    rng = np.random.default_rng(0)
    (tmp_path / "x.csv").write_text(
        "age,income\n" + "\n".join(f"{a:.3f},{b:.1f}" for a, b in rng.normal(size=(500, 2)) * [1, 1e4])
    )
    assert "column 'income' has 100.0% of the variance; --standardize" in run("sketch", "x.csv", "-o", "a.sketch")[2]
    assert "variance" not in run("sketch", "x.csv", "--standardize", "-o", "b.sketch")[2]
    assert b"standardised" in run("info", "b.sketch")[1]
    assert b"standardised" not in run("info", "a.sketch")[1]


def test_inputs_of_merge_and_subtract_are_never_replaced(tmp_path, run):
    phi = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0)
    sl.sketch(np.zeros((5, 2)), phi).save(tmp_path / "a.sketch")
    sl.sketch(np.ones((3, 2)), phi).save(tmp_path / "b.sketch")
    assert run("merge", "a.sketch", "b.sketch", "-o", "a.sketch")[0] == 6
    assert run("subtract", "a.sketch", "b.sketch", "-o", "b.sketch")[0] == 6
    assert "counted twice" in run("merge", "a.sketch", "a.sketch", "-o", "c.sketch")[2]
    assert sl.load(tmp_path / "a.sketch").count == 5


def test_the_wrong_kind_of_file_is_named(tmp_path, run):
    phi = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0)
    s = sl.sketch(np.random.default_rng(0).normal(size=(50, 2)), phi)
    s.save(tmp_path / "a.sketch")
    sl.SketchTable({"x": s}).save(tmp_path / "groups.table.parquet")
    _, _, err = run("learn", "kmeans", "groups.table.parquet", "-k", "2", "-o", "m")
    assert "'sketchlearn merge groups.table.parquet" in err
    assert "not a model but a sketch" in run("report", "a.sketch")[2]


def test_independence_of_columns(run, tmp_path):
    rng = np.random.default_rng(5)
    x = rng.normal(size=1000)
    rows = np.column_stack([x, rng.normal(size=1000), x**2 + rng.normal(size=1000)])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    for first, code in (("a", 10), ("b", 0)):
        assert run("design", "rows.csv", "--first", first, "-o", "map.json")[0] == 0
        assert run("sketch", "rows.csv", "--features", "map.json", "-o", f"{first}.sketch")[0] == 0
        found, out, err = run("independence", f"{first}.sketch", "--json")
        assert found == code, err
        assert json.loads(out)["dependent"] is (code == 10)
    assert run("design", "rows.csv", "--first", "nowhere", "-o", "other.json")[0] != 0
    assert run("independence", "a.sketch", "--alpha", "2")[0] == 2


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_design_encodes_missing_values_and_categories(run, tmp_path, suffix):
    rng = np.random.default_rng(0)
    age = [None if i % 9 == 0 else float(x) for i, x in enumerate(rng.normal(40, 9, 300))]
    table = pa.table({"age": age, "plan": ["free" if i % 3 else "paid" for i in range(300)]})
    path, phi, out = (tmp_path / name for name in (f"people.{suffix}", "map.json", "people.sketch"))
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "csv":
        pc.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    assert run("design", str(path), "--encode", "--missing", "median", "-k", "2", "-o", str(phi))[0] == 0
    assert run("sketch", str(path), "--features", str(phi), "-o", str(out))[0] == 0
    made = sl.load(out)
    encoder = sl.Encoder.fit(table, missing="median")
    assert made.features.encoder == encoder
    assert made == sl.sketch(table, sl.design(table, n_components=2, encoder=encoder))
    assert (made.count, made.skipped) == (300, 0)
    assert run("design", str(path), "--encode", "--where", "age > 3", "-o", str(phi))[0] == 0
    assert run("design", str(path), "--encode", "--missing", "guess", "-o", str(phi))[0] == 2


def test_the_process_ends_without_taking_the_interpreter_apart(tmp_path):
    """A thread that holds Python's memory while the interpreter goes away aborts it: it must not go away."""
    script = (
        "import atexit, sys\n"
        "class Held:\n    def __del__(self): print('taken apart', flush=True)\n"
        "held = Held()\n"  # (let go by the interpreter's end alone)
        "import pyarrow\n"
        "atexit.register(print, 'exit functions ran')\n"
        "from sketchlearn.cli import program\n"
        "sys.argv = ['sketchlearn', *sys.argv[1:]]\nprogram()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    for arguments, code in ((["--version"], 0), (["info", "nothing.sketch"], 3), (["info"], 2)):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
        assert "exit functions ran" in done.stdout
        assert "taken apart" not in done.stdout
