import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.learn.predictions import predictions
from sketchlearn.models import ClusterModel, GaussianMixtureModel, MixtureRegressionModel


@pytest.fixture(scope="module")
def rows():
    return gaussian_clusters(4, 3, 100, n=5000, seed=1)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("predict")
    names = {"columns": ("a", "b", "c")}
    centers, weights = rows[:4], np.full(4, 0.25)
    ClusterModel(rows=5000, centers=centers, weights=weights, spread=np.array([1.0, 2.0, 3.0]), **names).save(
        path / "kmeans.json"
    )
    GaussianMixtureModel(
        rows=5000, means=centers, weights=weights, covariances=np.stack([np.eye(3) * (l + 1) for l in range(4)]),
        covariance_type="full", **names,
    ).save(path / "gmm.json")  # fmt: skip
    sl.Model.of(sl.CompressivePCA(2).fit(rows)).save(path / "pca.json")
    columns = {"id": [f"row {i}" for i in range(len(rows))], "c": rows[:, 2], "a": rows[:, 0], "b": rows[:, 1]}
    pq.write_table(pa.table(columns), path / "rows.parquet", row_group_size=700)
    csv.write_csv(pa.table(columns), path / "rows.csv")
    return path


@pytest.mark.parametrize("source", ["rows.parquet", "rows.csv"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_labels_are_those_of_the_model_in_the_order_of_the_rows(folder, rows, tmp_path, run, source, suffix):
    target = tmp_path / f"labels.{suffix}"
    code, out, err = run("predict", folder / "kmeans.json", folder / source, "--id", "id", "-o", target, "--json")
    assert code == 0, err
    assert json.loads(out) == {"output": str(target), "rows": 5000, "invalid": 0}
    table = (pq.read_table if suffix == "parquet" else csv.read_csv)(target)
    assert table.column_names == ["id", "cluster"]
    assert table["id"].to_pylist()[:2] == ["row 0", "row 1"]
    expected = sl.Model.load(folder / "kmeans.json").predict(rows)
    assert np.array_equal(table["cluster"].to_numpy(), expected)
    # a table of predictions is ours and may be replaced; a CSV can't tell
    assert run("predict", folder / "kmeans.json", folder / source, "-o", target)[0] == (0 if suffix == "parquet" else 6)


def test_probabilities_of_a_mixture(folder, rows, tmp_path, run):
    target = tmp_path / "labels.parquet"
    assert run("predict", folder / "gmm.json", folder / "rows.parquet", "--proba", "-o", target)[0] == 0
    table = pq.read_table(target)
    model = sl.Model.load(folder / "gmm.json")
    shares = np.stack([table[f"probability {l}"].to_numpy() for l in range(4)], 1)
    logs = model.mixture.log_densities(rows)
    expected = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    np.testing.assert_allclose(shares, expected, atol=1e-12)
    assert np.array_equal(table["component"].to_numpy(), expected.argmax(1))
    code, _, err = run("predict", folder / "kmeans.json", folder / "rows.parquet", "--proba", "-o", target)
    assert code == 2
    assert "no probabilities" in err


def test_principal_components_and_standard_output(folder, rows, run):
    # a map without names takes columns by number, or as they are chosen
    code, out, err = run("predict", folder / "pca.json", folder / "rows.csv", "-c", "a,b,c", "-o", "-")
    assert code == 0, err
    scores = csv.read_csv(io.BytesIO(out))
    pca = sl.CompressivePCA(2).fit(rows)
    np.testing.assert_allclose(
        np.abs(scores["component 1"].to_numpy()), np.abs(pca.transform(rows)[:, 0]), rtol=1e-3, atol=1e-3
    )
    code, _, err = run("predict", folder / "pca.json", folder / "rows.csv", "-c", "a,b", "-o", "-")
    assert code == 4
    assert "needs 3 columns, the data has 2" in err


def test_invalid_rows_have_no_answer_and_keep_their_place(folder, tmp_path, run):
    (tmp_path / "gaps.csv").write_text("a,b,c\n0,0,0\n,1,2\n1,1,1\n")
    code, out, err = run("predict", folder / "kmeans.json", tmp_path / "gaps.csv", "-o", tmp_path / "labels.parquet")
    assert code == 0, err
    assert b"1 of them invalid" in out
    assert pq.read_table(tmp_path / "labels.parquet")["cluster"].is_null().to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["rows.parquet", "-o", "labels.txt"], 2, "suffix"),
        (["rows.parquet", "-o", "rows.parquet"], 6, "choose another output"),
        (["missing.parquet", "-o", "labels.csv"], 3, "no such file"),
        (["rows.parquet", "-o", "labels.csv", "--where", "a > 1e9"], 4, "no rows"),
        (["rows.parquet", "-o", "labels.csv", "--id", "nothing"], 4, "no column"),
    ],
)
def test_bad_input_gets_one_line_and_no_file(folder, run, monkeypatch, arguments, code, word):
    monkeypatch.chdir(folder)
    got, _, err = run("predict", "kmeans.json", *arguments)
    assert got == code
    assert word in err
    assert not any(p.name.startswith((".labels", "labels")) for p in folder.iterdir())


def test_memory_is_that_of_some_batches():
    seen = []

    def stream():
        for i in range(200):
            seen.append(i)
            yield np.zeros((10, 1))

    model = ClusterModel(rows=1, columns=("x",), centers=np.zeros((1, 1)), weights=np.ones(1), named=False)
    batches = predictions(model, stream())
    next(batches)
    assert len(seen) < 30
    batches.close()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_answers_keep_their_type_and_have_the_name_of_what_they_are(tmp_path, rows, run, suffix):
    """Targets of a regression by a mixture are numbers with decimals; classes are whatever they were."""

    def answers(model, data, *options):
        target = tmp_path / f"out.{suffix}"
        target.unlink(missing_ok=True)
        model.save(tmp_path / "model.json")
        code, _, err = run("predict", tmp_path / "model.json", data, *options, "-o", target)
        assert code == 0, err
        return (pq.read_table if suffix == "parquet" else csv.read_csv)(target)

    pq.write_table(pa.table({"a": rows[:500, 0], "b": rows[:500, 1]}), tmp_path / "rows.parquet")
    covariances = np.stack([np.eye(2) + 0.5] * 2)
    mixture = MixtureRegressionModel(
        rows=500, columns=("a", "b"), predictors=("a",), targets=("b",), weights=np.array([0.5, 0.5]),
        means=rows[:2, :2], covariances=covariances,
    )  # fmt: skip
    found = answers(mixture, tmp_path / "rows.parquet", "-c", "a")
    assert found.column_names == ["b"]
    expected = mixture.predict(rows[:500, :1])
    assert not np.array_equal(expected, np.rint(expected))
    np.testing.assert_allclose(found["b"].to_numpy(), expected, rtol=1e-12)
    pq.write_table(pa.table({"a": rows[:500, 0], "b": range(500)}), tmp_path / "whole.parquet")
    both = answers(mixture, tmp_path / "whole.parquet", "-c", "a", "--id", "b")
    assert both.column_names == ["b", "predicted b"]
    assert both["b"].to_pylist() == list(range(500))
    for labels in ([2**31 + 7, -(2**40)], ["left", "right, or so"], [0.0, 3.0], [True, False]):
        y = [labels[int(v > 0)] for v in rows[:500, 0] - np.median(rows[:500, 0])]
        model = sl.Model.of(sl.CompressiveClassifier(random_state=0).fit(rows[:500, :2], y)).renamed(("a", "b"))
        found = answers(model, tmp_path / "rows.parquet")
        assert found.column_names == ["class"]
        assert found["class"].to_pylist() == model.predict(rows[:500, :2]).tolist()
        assert set(found["class"].to_pylist()) == set(labels)
