import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    X = 8 * np.eye(3)[rng.integers(3, size=6000)] + rng.normal(size=(6000, 3))
    phi = sl.design(X[:1000], n_components=4).with_columns(["a", "b", "c"])
    s = sl.sketch(X, phi)
    s.save(path / "all.sketch")
    sl.Model.of(sl.CompressiveKMeans(3, random_state=0).fit_sketch(s)).save(path / "kmeans.json")
    second = sl.sketch(X, sl.design(X[:1000], n_components=2, task="pca").with_columns(["a", "b", "c"]))
    second.save(path / "second.sketch")
    sl.Model.of(sl.CompressivePCA(2).fit_sketch(second)).save(path / "pca.json")
    for day in range(3):
        sl.sketch(X[2000 * day : 2000 * (day + 1)] + 0.5 * (day == 2), phi).save(path / f"day{day}.sketch")
    days = {day: sl.load(path / f"day{day}.sketch") for day in range(3)}
    sl.SketchTable(days).save(path / "days.parquet")
    old = json.loads((path / "kmeans.json").read_text())
    (path / "newer.json").write_text(json.dumps({**old, "version": 99}))
    (path / "damaged.json").write_text(json.dumps({**old, "weights": [1]}))
    (path / "other.json").write_text("{}")
    (path / "bytes.json").write_bytes(b"\x00\xff")
    return path


MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "jpg": b"\xff\xd8", "webp": b"RIFF"}


@pytest.mark.parametrize(
    ("arguments", "suffix"),
    [
        (["centers", "kmeans.json"], "png"),
        (["centers", "kmeans.json", "-c", "c,a"], "svg"),
        (["density", "kmeans.json", "--columns", "a"], "pdf"),
        (["density", "kmeans.json"], "jpg"),
        (["residual", "kmeans.json"], "webp"),
        (["spectrum", "pca.json"], "png"),
        (["sweep", "all.sketch", "-k", "1:4"], "png"),
        (["sweep", "all.sketch", "-k", "2,3", "--task", "gmm"], "png"),
        (["landscape", "all.sketch", "-c", "a,b"], "png"),
        (["landscape", "all.sketch", "-m", "kmeans.json", "--keep", "--width", "0.5"], "png"),
        (["drift", "day0.sketch", "day1.sketch", "day2.sketch"], "png"),
        (["drift", "days.parquet", "--against", "previous"], "png"),
    ],
)
def test_every_picture(folder, tmp_path, run, arguments, suffix):
    arguments = [folder / a if "." in a and a[0].isalpha() else a for a in arguments]
    target = tmp_path / f"picture.{suffix}"
    code, out, err = run("plot", *arguments, "-o", target, "--dpi", "50", "--json")
    assert code == 0, err
    assert json.loads(out)["output"] == str(target)
    assert target.read_bytes().startswith(MAGIC[suffix])


def test_what_pictures_say(folder, tmp_path, run):
    out = json.loads(run("plot", "sweep", folder / "all.sketch", "-k", "1:5", "-o", "s.png", "--json")[1])
    assert out["recommended"] == 3
    assert [r["k"] for r in out["rows"]] == [1, 2, 3, 4, 5]
    out = json.loads(run("plot", "drift", folder / "days.parquet", "-o", "d.png", "--json")[1])
    assert [c["p_value"] < 1e-6 for c in out["changes"]] == [False, True]
    assert [c["label"] for c in out["changes"]] == ["1", "2"]
    assert b"1 of 2 differ: 2" in run("plot", "drift", folder / "days.parquet", "-o", "d.png", "--alpha", "1e-6")[1]


def test_pictures_to_standard_output(folder, run, capfdbinary):
    code, out, err = run("plot", "centers", folder / "kmeans.json", "-o", "-")
    assert code == 0, err
    assert out.startswith(MAGIC["png"])


def test_reports(folder, tmp_path, run):
    code, out, err = run("report", folder / "kmeans.json")
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    assert "3 clusters of 6,000 rows" in page
    assert b"report.html" in out
    code, out, _ = run(
        "report", folder / "kmeans.json", "--sketch", folder / "all.sketch", "--ks", "1:4", "--title", "Mine",
        "-o", "other.html", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["output"] == "other.html"
    page = (tmp_path / "other.html").read_text()
    assert "<title>Mine</title>" in page
    assert "Recommended: 3" in page
    assert run("report", folder / "pca.json", "-o", "-")[1].startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["report", "missing.json"], 3, "no such file"),
        (["report", "newer.json"], 5, "version 99, this library reads version 1"),
        (["report", "damaged.json"], 5, "damaged model"),
        (["report", "other.json"], 5, "not a model"),
        (["report", "bytes.json"], 5, "not JSON"),
        (["report", "all.sketch"], 5, "not a model"),
        (["report", "kmeans.json", "--sketch", "kmeans.json"], 5, "sketch"),
        (["report", "pca.json", "--sketch", "second.sketch"], 2, "pca models have no k"),
        (["report", "kmeans.json", "--sketch", "all.sketch", "--ks", "x"], 2, "2:12"),
        (["report", "kmeans.json", "--sketch", "all.sketch", "--ks", "1:1000000000"], 2, "at most 1000"),
        (["report", "kmeans.json", "--ks", "1:5"], 2, "--ks needs --sketch"),
        (["report", "kmeans.json", "--sketch", "day0.sketch"], 5, "another sketch: its number of rows is 6000"),
        (["plot", "centers", "newer.json"], 5, "version 99"),
        (["plot", "centers", "pca.json"], 4, "no components"),
        (["plot", "centers", "kmeans.json", "-c", "z"], 4, "no column 'z'"),
        (["plot", "centers", "kmeans.json", "-c", "a,b,c"], 4, "one or two"),
        (["plot", "spectrum", "kmeans.json"], 4, "PCA"),
        (["plot", "residual", "pca.json"], 4, "no profile"),
        (["plot", "sweep", "all.sketch", "-k", "0:3"], 2, "numbers to try"),
        (["plot", "sweep", "all.sketch", "-k", "99999"], 4, "more than the"),
        (["plot", "sweep", "all.sketch", "--task", "pca"], 2, "kmeans, gmm"),
        (["plot", "sweep", "second.sketch"], 5, "Fourier"),
        (["plot", "landscape", "all.sketch"], 4, "columns"),
        (["plot", "landscape", "second.sketch"], 5, "Fourier"),
        (["plot", "drift", "all.sketch"], 4, "two sketches"),
        (["plot", "drift", "all.sketch", "second.sketch"], 5, "feature maps"),
        (["plot", "drift", "day0.sketch", "day1.sketch", "--against", "last"], 2, "previous"),
        (["plot", "drift", "day0.sketch", "day1.sketch", "--alpha", "2"], 2, "between 0 and 1"),
    ],
)
def test_bad_input_gets_one_line_and_no_file(folder, tmp_path, run, arguments, code, word):
    arguments = [folder / a if str(a).endswith((".json", ".sketch")) else a for a in arguments]
    got, _, err = run(*arguments, "-o", "out.png" if arguments[0] == "plot" else "out.html")
    assert (got, word in err) == (code, True), err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "code", "word"),
    [("out.xyz", 2, "png, svg"), ("missing/out.png", 6, "no folder"), ("out", 2, "suffix"), ("/dev/full", 2, "suffix")],
)
def test_outputs_that_cant_be_written(folder, tmp_path, run, output, code, word):
    got, _, err = run("plot", "centers", folder / "kmeans.json", "-o", output)
    assert (got, word in err) == (code, True), err
    assert list(tmp_path.iterdir()) == []


def test_inputs_are_never_replaced(folder, tmp_path, run):
    for name in ("kmeans.json", "all.sketch"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for arguments in (
        ["report", "kmeans.json", "-o", "kmeans.json"],
        ["report", "kmeans.json", "--sketch", "all.sketch", "-o", "./all.sketch"],
        ["learn", "kmeans", "all.sketch", "-k", "3", "-o", "all.sketch"],
    ):
        code, _, err = run(*arguments)
        assert (code, "choose another output" in err) == (6, True), err
    for name in ("kmeans.json", "all.sketch"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_standard_output_is_either_the_result_or_json(folder, run):
    assert run("report", folder / "kmeans.json", "-o", "-", "--json")[0] == 2
    assert run("plot", "centers", folder / "kmeans.json", "-o", "-", "--json")[0] == 2


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_the_same_picture_has_the_same_bytes(folder, tmp_path, run, suffix):
    pictures = []
    for name in ("a", "b"):
        run("plot", "centers", folder / "kmeans.json", "-o", f"{name}.{suffix}")
        pictures.append((tmp_path / f"{name}.{suffix}").read_bytes())
    assert pictures[0] == pictures[1]


def test_a_full_disk(folder, run):
    code, _, err = run("report", folder / "kmeans.json", "-o", "/dev/full")
    assert code == 6
    assert "disk is full" in err


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["regression", "second.sketch", "--target", "c"], "coefficients"),
        (["regression", "second.sketch", "--target", "2", "--predictors", "a"], "coefficients"),
        (["stable", "all.sketch", "-k", "2"], "locations"),
    ],
)
def test_learning_what_has_no_clusters(folder, tmp_path, run, arguments, key):
    arguments = [folder / a if a.endswith(".sketch") else a for a in arguments]
    code, _, err = run("learn", *arguments, "-o", "m.json", "--json")
    assert code == 0, err
    assert key in json.loads((tmp_path / "m.json").read_text())
    assert run("report", "m.json")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["second.sketch", "--target", "z"], "no column 'z'"),
        (["second.sketch", "--target", "a", "--predictors", "a"], "both"),
        (["all.sketch", "--target", "a"], "quadratic"),
        (["second.sketch", "--target", "a", "--alpha", "-1"], "alpha"),
    ],
)
def test_bad_regressions(folder, tmp_path, run, arguments, word):
    arguments = [folder / a if a.endswith(".sketch") else a for a in arguments]
    code, _, err = run("learn", "regression", *arguments, "-o", "m.json")
    assert code in (2, 4, 5)
    assert word in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_demo(tmp_path, run):
    code, out, err = run("demo", "--rows", "20000", "--json")
    assert code == 0, err
    made = json.loads(out)
    assert (tmp_path / "sketchlearn-demo" / "report.html").exists()
    assert {"centers.png", "weeks.parquet", "without-week-3.sketch"} <= {f.rsplit("/")[-1] for f in made["files"]}
    assert "$ sketchlearn learn kmeans" in err
    model = sl.Model.load(tmp_path / "sketchlearn-demo" / "model.json")
    assert 0.004 < min(model.weights) < 0.02  # the rare kind is found
    code, _, err = run("demo")
    assert code == 6
    assert "exists already" in err
    assert run("demo", "--rows", "5", "-o", "x")[0] == 2


def test_a_demo_that_is_interrupted_leaves_nothing(tmp_path, run, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("sketchlearn.learn.base.decode", interrupted)
    code, _, err = run("demo", "--rows", "10000", "-o", "x")
    assert code == 130
    assert "internal error" not in err
    assert not (tmp_path / "x").exists()


def test_a_report_loads_neither_scikit_learn_nor_matplotlib(folder, tmp_path):
    program = (
        "import sys; from sketchlearn.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or sum(m in sys.modules for m in ('sklearn', 'matplotlib', 'pandas')))"
    )
    arguments = [sys.executable, "-c", program, "report", str(folder / "kmeans.json")]
    assert subprocess.run(arguments, cwd=tmp_path, check=False).returncode == 0


def test_info_of_models(folder, run):
    code, out, err = run("info", folder / "kmeans.json")
    assert code == 0, err
    assert b"3 clusters of 6,000 rows" in out
    facts = json.loads(run("info", folder / "pca.json", "--json")[1])
    assert (facts["kind"], facts["task"], facts["columns"]) == ("model", "pca", ["a", "b", "c"])
    assert run("info", folder / "newer.json")[0] == 5
    facts = json.loads((folder / "kmeans.json").read_text())
    Path("sorted.json").write_text(json.dumps(facts, sort_keys=True))
    assert b"3 clusters" in run("info", "sorted.json")[1]
