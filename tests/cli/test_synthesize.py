import json

import numpy as np
import pytest

import sketchlearn as sl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("synthesize")
    X = np.random.default_rng(0).normal(size=(3000, 2)) + np.array([5.0, 0.0])
    s = sl.sketch(X, sl.design(X[:1000], n_components=1, task="gmm").with_columns(["a", "b"]))
    s.save(path / "all.sketch")
    sl.CompressiveGaussianMixture(1, random_state=0).fit_sketch(s).to_model().save(path / "model.json")
    shifted = X + np.array([1.0, 0.0])
    sl.sketch(shifted, s.features).save(path / "other.sketch")
    return path


def test_rows_as_csv(folder, tmp_path, run):
    target = tmp_path / "points.csv"
    code, out, err = run("synthesize", folder / "all.sketch", "-n", "50", "-o", target, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 50
    assert target.read_text().startswith("a,b\n")
    rows = np.loadtxt(target, delimiter=",", skiprows=1)
    assert rows.shape == (50, 2)
    np.testing.assert_allclose(rows.mean(0), [5.0, 0.0], atol=0.3)
    for arguments in (["-n", "0"], ["--method", "magic"]):
        assert run("synthesize", folder / "all.sketch", *arguments, "-o", tmp_path / "no.csv")[0] == 2
        assert not (tmp_path / "no.csv").exists()


def test_rows_as_parquet(folder, tmp_path, run):
    pq = pytest.importorskip("pyarrow.parquet")
    for _ in range(2):  # its own result is replaced
        code, _, err = run("synthesize", folder / "all.sketch", "-n", "50", "-o", tmp_path / "points.parquet")
        assert code == 0, err
    assert pq.read_table(tmp_path / "points.parquet").column_names == ["a", "b"]


def test_a_sketch_against_a_model(folder, run):
    code, out, err = run("compare", folder / "all.sketch", folder / "model.json", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 3000
    code, out, _ = run("compare", folder / "other.sketch", folder / "model.json")
    assert code == 10
    assert b"follow the model" in out
