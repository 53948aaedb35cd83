import json
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.cli.app import Code
from sketchlearn.privacy.release import _released


@pytest.fixture(autouse=True)
def _no_memory():
    _released.clear()


@pytest.fixture
def exact(tmp_path):
    phi = sl.design(bounds=([-3, -3], [3, 3]), n_components=2)
    path = tmp_path / "exact.sketch"
    sl.sketch(np.random.default_rng(0).normal(size=(5000, 2)), phi).save(path)
    return path


def run(*arguments):
    return main([str(a) for a in arguments])


def test_a_release_says_what_it_promises(exact, tmp_path, capsys):
    out = tmp_path / "public.sketch"
    assert run("privatize", exact, "-o", out, "--epsilon", 1, "--delta", 1e-6, "--public-map") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "at most 2.72 times as likely" in text
    s = sl.load(out)
    assert s.privacy.epsilon == 1.0
    assert not s.has_box
    assert run("info", out) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "epsilon 1" in text
    assert "any one person" in text
    assert "box" not in text


def test_the_map_must_be_vouched_for(exact, tmp_path, capsys):
    s, silent = sl.load(exact), tmp_path / "silent.sketch"
    replace(s, features=s.features.with_words({})).save(silent)  # it doesn't say that the map is from public bounds
    assert run("privatize", silent, "-o", tmp_path / "out", "--epsilon", 1) == 4
    assert "public" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_ledger_is_written_first_and_refuses(exact, tmp_path, capsys):
    book, out = tmp_path / "budget.json", tmp_path / "public.sketch"
    common = ["privatize", exact, "-o", out, "--public-map", "--ledger", book, "--dataset", "people", "--json"]
    assert run(*common, "--epsilon", 0.6, "--budget-epsilon", 1, "--budget-delta", 1e-6) == 0
    assert json.loads(capsys.readouterr().out)["left"] == pytest.approx(0.4)
    before = out.read_bytes()
    assert run(*common, "--epsilon", 0.6) == 4
    assert "has spent epsilon=0.6" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert run("ledger", "show", book) == 0
    text = capsys.readouterr().out
    assert "people (add-remove, 1 row per person)" in text
    assert "left epsilon = 0.4" in text
    assert run("ledger", "show", book, "--json") == 0
    assert json.loads(capsys.readouterr().out)["datasets"]["people"]["spent"]["epsilon"] == 0.6


def test_options_that_belong_together(exact, tmp_path, capsys):
    common = ["privatize", exact, "-o", tmp_path / "out", "--epsilon", 1, "--public-map"]
    assert run(*common, "--dataset", "people") == 2
    assert run(*common, "--ledger", tmp_path / "budget.json") == 2
    assert run(*common, "--ledger", tmp_path / "budget.json", "--dataset", "people") == 3  # no budget, no ledger
    assert "give its budget" in capsys.readouterr().err
    assert run("ledger", "show", tmp_path / "nothing.json") != 0


def test_merging_private_sketches_asks_who_is_behind_them(exact, tmp_path, capsys):
    a, b, out = tmp_path / "a.sketch", tmp_path / "b.sketch", tmp_path / "both.sketch"
    phi = sl.load(exact).features
    for i, path in enumerate((a, b)):
        sl.privatize(sl.sketch(np.full((500, 2), 0.1 * i), phi), 1.0, public_map=True).save(path)
    assert run("merge", a, b, "-o", out) == 4
    assert "users" in capsys.readouterr().err
    assert run("merge", a, b, "-o", out, "--users", "disjoint") == 0
    assert sl.load(out).privacy.epsilon == 1.0
    assert run("merge", a, b, "-o", out, "--users", "same") == 0
    assert sl.load(out).privacy.epsilon == 2.0


def test_maps_for_a_release_of_so_many_rows(tmp_path, capsys):
    out = tmp_path / "map.json"
    bounds = ["--lower", ",".join(["-1"] * 30), "--upper", ",".join(["1"] * 30)]
    common = ["design", "-o", out, *bounds, "-k", 3, "--task", "pca"]
    assert run(*common, "--rows", 100_000, "--epsilon", 0.001) == 0
    text = capsys.readouterr().out
    assert "no useful result" in text
    assert "exact" in text
    assert run(*common, "--rows", 100_000, "--epsilon", 1, "--delta", 1e-6, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert "all 465 products" in said["expect"]
    for wrong in (["--rows", 10], ["--epsilon", 1], ["--delta", 0.1], ["--rows", 0, "--epsilon", 1],
                  ["--rows", 10, "--epsilon", -1], ["--rows", 10, "--epsilon", 1, "--task", "ica"]):  # fmt: skip
        assert run(*common, *wrong) == 2
    assert run("design", "rows.csv", "-o", out, "--rows", 10, "--epsilon", 1) == 2


def test_rows_from_a_map_of_columns(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=3000), rng.integers(0, 7, 3000)])
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",", header="a,b", comments="")
    single, joint, made = tmp_path / "single.json", tmp_path / "joint.json", tmp_path / "made.csv"
    common = ["--lower=-5,0", "--upper=5,6", "--columns", "a,b"]
    assert run("design", "-o", single, "--task", "columns", *common, "--integers", "b") == 0
    assert run("design", "-o", joint, "-k", 3, *common) == 0
    for name in ("single", "joint"):
        assert (
            run("sketch", tmp_path / "x.csv", "-f", tmp_path / f"{name}.json", "-o", tmp_path / f"{name}.sketch") == 0
        )
    for name, released in (("single", "p"), ("joint", "q")):
        spend = ["-o", tmp_path / f"{released}.sketch", "--epsilon", 2, "--public-map"]
        assert run("privatize", tmp_path / f"{name}.sketch", *spend) == 0
    exact = ["synthesize", tmp_path / "joint.sketch", "--columns", tmp_path / "p.sketch", "-n", 600, "-o", made]
    assert run(*exact) == Code.DATA  # exact averages would reach the rows beside released columns
    assert run("synthesize", tmp_path / "q.sketch", *exact[2:]) == 0
    found = np.loadtxt(made, delimiter=",", skiprows=1)
    assert set(found[:, 1]) == set(range(7))
    assert abs(found[:, 0].std() - 1.0) < 0.2
    capsys.readouterr()
    assert run("info", tmp_path / "p.sketch", "--json") == 0
    assert 0 < json.loads(capsys.readouterr().out)["nsr"] < 0.1
    assert run("info", tmp_path / "p.sketch") == 0
    assert "of the energy of the averages" in capsys.readouterr().out
    assert run("design", "-o", single, *common, "--integers", "b") == 2  # of another task
    capsys.readouterr()
    bounds = ["--lower", "0,0", "--upper", "1,1", "--rows", 2000, "--epsilon", 1, "--delta", 1e-6]
    for task, said in (("classifier", "kernel values"), ("columns", "cells of each column"), ("gmm", "a mixture")):
        assert run("design", "-o", tmp_path / "m.json", *bounds, "-k", 3, "--task", task) == 0
        assert said in capsys.readouterr().out


def test_an_invalid_row_does_not_stop_a_release(tmp_path, capsys):
    """That it stopped would tell of the row: with a map, too, such rows are left out and not counted."""
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    phi, said = tmp_path / "map.json", []
    assert run("design", "--lower=-5,-5", "--upper=5,5", "-k", 2, "-o", phi) == 0
    for i, value in enumerate((0.0, np.inf)):
        X[7] = value
        np.save(tmp_path / f"{i}.npy", X)
        capsys.readouterr()
        options = ("-f", phi, "--epsilon", 1, "--delta", 1e-6, "-o", tmp_path / "public.sketch")
        assert run("privatize", tmp_path / f"{i}.npy", *options) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert run("privatize", tmp_path / "1.npy", *options, "--relation", "replace-one") == Code.DATA
    assert "infinity" in capsys.readouterr().err
