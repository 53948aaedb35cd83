import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix, save_npz

import sketchlearn as sl


def ring(n, radius, rng):
    turn = rng.uniform(0, 2 * np.pi, n)
    return radius * np.column_stack([np.cos(turn), np.sin(turn)]) + 0.05 * rng.normal(size=(n, 2))


@pytest.fixture
def rings(tmp_path):
    """Two rings, one inside the other, in turn."""
    rng = np.random.default_rng(0)
    rows = np.stack([ring(150, 1.0, rng), ring(150, 3.0, rng)], axis=1).reshape(300, 2)
    with (tmp_path / "rings.csv").open("w") as file:
        file.write("name,x,y\n" + "".join(f"n{i},{a!r},{b!r}\n" for i, (a, b) in enumerate(rows.tolist())))
    return rows


def test_rows_are_clustered_through_their_neighbours(run, rings):
    code, out, err = run(
        "spectral", "rings.csv", "-c", "x,y", "--id", "name", "-k", 2, "-o", "model.json", "--labels", "labels.csv",
        "--nodes", "nodes.parquet", "--sketch", "nodes.sketch", "--json",
    )  # fmt: skip
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["task"], facts["labels"], facts["reliable"]) == ("spectral", "labels.csv", True)
    with Path("labels.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [row["name"] for row in found[:2]] == ["n0", "n1"]
    labels = np.array([int(row["cluster"]) for row in found])
    np.testing.assert_array_equal(labels, np.tile(labels[:2], 150))
    assert labels[0] != labels[1]
    # the nodes are what the model is about, and their sketch can be learned from again
    assert pq.read_table("nodes.parquet").column_names == ["eigenvector 1", "eigenvector 2"]
    assert run("predict", "model.json", "nodes.parquet", "-o", "again.parquet")[0] == 0
    np.testing.assert_array_equal(pq.read_table("again.parquet")["cluster"].to_numpy(), labels)
    assert sl.load("nodes.sketch").count == 300
    ours = sl.CompressiveSpectralClustering(2, random_state=0).fit(rings)
    assert sl.Model.load("model.json").verdict == ours.verdict_


def test_a_graph_is_read_from_a_file(run, tmp_path):
    rng = np.random.default_rng(0)
    owner = np.repeat([0, 1, 2], 60)
    edges = np.triu(rng.random((180, 180)) < np.where(owner[:, None] == owner, 0.3, 0.01), 1)
    save_npz(tmp_path / "graph.npz", csr_matrix((edges | edges.T).astype(float)))
    save_npz(tmp_path / "directed.npz", csr_matrix(edges.astype(float)))
    (tmp_path / "odd.npz").write_bytes(b"PK nothing")
    code, out, err = run("spectral", "graph.npz", "-k", 3, "-o", "model.json", "--labels", "labels.parquet")
    assert code == 0, err
    assert b"have a gap after number 3" in out
    labels = pq.read_table("labels.parquet")["cluster"].to_numpy()
    assert len(set(labels)) == 3
    np.testing.assert_array_equal(labels, labels[owner * 60])
    for picture in (["plot", "spectrum"], ["plot", "centers"]):
        assert run(*picture, "model.json", "-o", "picture.png")[0] == 0
    assert run("report", "model.json", "-o", "page.html")[0] == 0
    assert "id='eigenvalues'" in (tmp_path / "page.html").read_text()
    for arguments, wanted, word in [
        (["graph.npz", "-c", "a"], 2, "no columns"),
        (["graph.npz", "labels.parquet"], 2, "one file"),
        (["graph.npz", "--id", "a", "--labels", "l.csv"], 2, "no columns"),
        (["graph.npz", "--id", "a"], 2, "--labels"),
        (["graph.npz", "--neighbors", 5], 2, "--neighbors joins rows"),
        (["graph.npz", "--labels", "l.txt"], 2, ".parquet"),
        (["graph.npz", "--sketch", "other.json"], 2, "same name"),
        (["directed.npz"], 4, "not symmetric"),
        (["odd.npz"], 3, "save_npz"),
        (["none.npz"], 3, "no such file"),
    ]:
        code, _, err = run("spectral", *arguments, "-k", 3, "-o", "other.json")
        assert (code, word in err) == (wanted, True), err
        assert not (tmp_path / "other.json").exists()


def test_rows_that_have_no_neighbours(run, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,nan\n")
    code, _, err = run("spectral", "rows.csv", "-k", 2, "-o", "model.json")
    assert (code, "row 1" in err) == (4, True)
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert run("spectral", "empty.csv", "-k", 2, "-o", "model.json")[0] == 4


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("indices", 2_000_000_000, "not a sparse matrix"),
        ("indices", -5, "not a sparse matrix"),
        ("indptr", 200_000_000, "not a sparse matrix"),
        ("data", np.nan, "finite numbers"),
    ],
)
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_graphs_that_point_outside_themselves_are_refused(run, tmp_path, part, value, words, format):
    """Compiled loops would read there."""
    save_npz(tmp_path / "graph.npz", csr_matrix(np.ones((30, 30))).asformat(format))
    with np.load(tmp_path / "graph.npz") as file:
        parts = dict(file)
    parts[part][7] = value
    np.savez(tmp_path / "graph.npz", **parts)
    code, _, err = run("spectral", "graph.npz", "-k", 2, "-o", "model.json")
    assert code == 3
    assert words in err
    assert not (tmp_path / "model.json").exists()
