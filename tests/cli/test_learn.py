import json

import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("learn")
    X, _, _ = gaussian_clusters(4, 3, 100, n=5000, seed=1)
    sl.sketch(X, sl.design(X[:1000], n_components=6).with_columns(["a", "b", "c"])).save(path / "fourier.sketch")
    sl.sketch(X, sl.design(X[:1000], n_components=2, task="pca")).save(path / "quadratic.sketch")
    return path


@pytest.mark.parametrize(
    ("task", "source", "options", "key", "shape"),
    [
        ("kmeans", "fourier", ["-k", "4"], "centers", (4, 3)),
        ("kmeans", "fourier", ["-k", "4", "--medians"], "centers", (4, 3)),
        ("gmm", "fourier", ["-k", "4", "--covariance", "diag"], "covariances", (4, 3)),
        ("pca", "quadratic", ["-k", "2"], "components", (2, 3)),
        ("subspaces", "fourier", ["-k", "2"], "bases", (2, 3, 1)),
    ],
)
def test_models_as_json(folder, tmp_path, run, task, source, options, key, shape):
    target = tmp_path / "model.json"
    code, out, err = run("learn", task, folder / f"{source}.sketch", *options, "-o", target, "--json")
    assert code == 0, err
    model = json.loads(target.read_text())
    assert model["task"] == task == json.loads(out)["task"]
    assert np.shape(model[key]) == shape
    assert model["columns"] == (["a", "b", "c"] if source == "fourier" else None)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["kmeans", "fourier.sketch", "-k", "0"], "at least 1"),
        (["kmeans", "fourier.sketch", "-k", "99999"], "rows"),
        (["kmeans", "quadratic.sketch", "-k", "2"], "Fourier"),
        (["kmeans", "fourier.sketch", "-k", "2", "--decoder", "magic"], "choose"),
        (["gmm", "fourier.sketch", "-k", "2", "--covariance", "round"], "choose"),
        (["pca", "fourier.sketch", "-k", "2"], "quadratic"),
        (["kmeans", "missing.sketch", "-k", "2"], "no such file"),
    ],
)
def test_bad_input_gets_one_line_and_no_file(folder, tmp_path, run, arguments, word):
    target = tmp_path / "model.json"
    arguments = [folder / a if str(a).endswith(".sketch") else a for a in arguments]
    code, _, err = run("learn", *arguments, "-o", target)
    assert code != 0
    assert word in err
    assert "Traceback" not in err
    assert not target.exists()


def test_a_classifier_from_a_table(tmp_path, run):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) + np.repeat([[0.0, 0.0], [4.0, 0.0]], 1000, axis=0)
    lines = [f"{a},{b},{'left' if i < 1000 else 'right'}" for i, (a, b) in enumerate(X)]
    (tmp_path / "rows.csv").write_text("a,b,side\n" + "\n".join(lines) + "\n")
    table, model = tmp_path / "sides.parquet", tmp_path / "model.json"
    code, _, err = run("sketch", tmp_path / "rows.csv", "--task", "classifier", "--group-by", "side", "-o", table)
    assert code == 0, err
    code, out, err = run("learn", "classifier", table, "-o", model, "--balanced", "--json")
    assert code == 0, err
    assert json.loads(out)["n_classes"] == 2
    found = sl.Model.load(model)
    assert found.columns == ("a", "b")
    assert np.mean(found.predict(X) == np.repeat(["left", "right"], 1000)) > 0.95
    assert run("report", model, "-o", tmp_path / "report.html")[0] == 0
    for arguments, word in [
        ([table, "--method", "magic"], "choose"),
        ([table, "--method", "lda"], "quadratic"),
        ([model], "needs a table"),
    ]:
        code, _, err = run("learn", "classifier", *arguments, "-o", tmp_path / "other.json")
        assert code != 0
        assert word in err
        assert not (tmp_path / "other.json").exists()


def test_a_regression_by_a_mixture(folder, tmp_path, run):
    target = tmp_path / "model.json"
    source = folder / "fourier.sketch"
    code, out, err = run("learn", "mixture-regression", source, "--target", "c", "-k", "4", "-o", target, "--json")
    assert code == 0, err
    assert json.loads(out)["task"] == "mixture-regression"
    model = sl.Model.load(target)
    assert (model.predictors, model.targets) == (("a", "b"), ("c",))
    assert model.predict(np.zeros((3, 2))).shape == (3,)
    code, _, err = run("learn", "mixture-regression", source, "--target", "nowhere", "-o", tmp_path / "x.json")
    assert code != 0
    assert "nowhere" in err
    assert not (tmp_path / "x.json").exists()


def test_a_regression_by_linear_maps(tmp_path, run):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    X[:, 1:] += X[:, :1]
    reg = sl.CompressiveMixtureRegressor(1, covariance="diag", random_state=0).fit(X[:, :1], X[:, 1:])
    phi = reg.sketch_.features.with_columns(["a", "b", "c"])
    sl.sketch(X, phi).save(tmp_path / "all.sketch")
    arguments = ["learn", "mixture-regression", tmp_path / "all.sketch", "-k", "1", "--json", "-o"]
    code, _, err = run(*arguments, tmp_path / "model.json", "--target", "b,c")
    assert code == 0, err
    model = sl.Model.load(tmp_path / "model.json")
    assert (model.predictors, model.targets) == (("a",), ("b", "c"))
    np.testing.assert_allclose(model.predict(np.array([[1.0]])), [[1.0, 1.0]], atol=0.15)
    code, _, err = run(*arguments, tmp_path / "other.json", "--target", "a", "--predictors", "b")
    assert code != 0
    assert "no predictor of this sketch" in err


def test_many_targets_on_the_command_line_alone(tmp_path, run):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 1))
    rows = np.column_stack([x, np.abs(x), -x]) + 0.1 * rng.normal(size=(3000, 3)) * [0, 1, 1]
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    arguments = ["design", tmp_path / "rows.csv", "--target", "b,c", "-k", "2", "--json", "-o", tmp_path / "map.json"]
    code, out, err = run(*arguments)
    assert code == 0, err
    assert "1 predictor" in json.loads(out)["reason"]
    made = tmp_path / "all.sketch"
    code, _, err = run("sketch", tmp_path / "rows.csv", "-f", tmp_path / "map.json", "-o", made)
    assert code == 0, err
    assert sl.load(made).features.columns == ("a", "b", "c")
    learned = tmp_path / "model.json"
    code, _, err = run("learn", "mixture-regression", made, "--target", "b,c", "-k", "2", "-o", learned)
    assert code == 0, err
    found = sl.Model.load(learned).predict(np.array([[1.0], [-1.0]]))
    np.testing.assert_allclose(found, [[1.0, -1.0], [1.0, 1.0]], atol=0.1)
    for wrong, words in (
        (["--target", "a,b,c"], "leave some"),
        (["--target", "b", "--standardize"], "keep their units"),
    ):
        code, _, err = run("design", tmp_path / "rows.csv", *wrong, "-o", tmp_path / "other.json")
        assert code != 0
        assert words in err


def test_canonical_correlations(folder, tmp_path, run):
    target = tmp_path / "model.json"
    source = folder / "quadratic.sketch"
    code, out, err = run("learn", "cca", source, "--target", "2", "-o", target, "--json")
    assert code == 0, err
    assert json.loads(out)["task"] == "cca"
    model = sl.Model.load(target)
    assert (model.x_columns, model.y_columns) == (("column 0", "column 1"), ("column 2",))
    code, _, err = run("learn", "cca", folder / "fourier.sketch", "--target", "c", "-o", tmp_path / "x.json")
    assert code != 0
    assert "quadratic" in err


def test_non_negative_components(folder, tmp_path, run):
    code, out, err = run(
        "learn", "nmf", folder / "quadratic.sketch", "-k", "2", "-o", tmp_path / "model.json", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["task"] == "nmf"
    model = sl.Model.load(tmp_path / "model.json")
    assert model.components.shape == (2, 3)
    assert (model.components >= 0).all()
    code, _, err = run("learn", "nmf", folder / "fourier.sketch", "-k", "2", "-o", tmp_path / "x.json")
    assert code != 0
    assert "quadratic" in err


def test_dictionaries(folder, tmp_path, run):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5000, 4)) * (rng.random((5000, 4)) < 0.3)) @ rng.normal(size=(4, 3))
    phi = sl.design(X[:1000], task="dictionary", n_components=4)
    sl.sketch(X, phi.with_columns(["a", "b", "c"])).save(tmp_path / "d.sketch")
    code, out, err = run("learn", "dictionary", tmp_path / "d.sketch", "-k", 3, "-o", tmp_path / "model.json", "--json")
    assert code == 0, err
    assert json.loads(out)["task"] == "dictionary"
    assert sl.Model.load(tmp_path / "model.json").predict(X[:5]).shape == (5, 3)
    code, _, err = run("learn", "dictionary", folder / "fourier.sketch", "-k", 3, "-o", tmp_path / "x.json")
    assert code != 0
    assert "--task dictionary" in err


def test_independent_components(folder, tmp_path, run):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3)) @ rng.normal(size=(3, 3))
    sl.sketch(X, sl.design(X[:1000], task="ica").with_columns(["a", "b", "c"])).save(tmp_path / "quartic.sketch")
    code, out, err = run("learn", "ica", tmp_path / "quartic.sketch", "-o", tmp_path / "model.json", "--json")
    assert code == 0, err
    assert json.loads(out)["task"] == "ica"
    assert sl.Model.load(tmp_path / "model.json").predict(X[:5]).shape == (5, 3)
    code, _, err = run("learn", "ica", folder / "fourier.sketch", "-o", tmp_path / "x.json")
    assert code != 0
    assert "--task ica" in err


def test_decisions_are_told_on_standard_error(run, folder, tmp_path):
    source, target = folder / "fourier.sketch", tmp_path / "model.json"
    code, out, err = run("learn", "kmeans", source, "-k", "2", "-o", target, "--explain", "--json")
    assert code == 0
    model = sl.load(target)
    assert json.loads(out)["verdict"] == model.verdict  # output for programs stays as it is
    assert model.verdict in err


def test_classes_and_targets_are_predicted_as_they_are(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + np.repeat([[0.0, 0.0], [6.0, 0.0]], 200, axis=0)
    names = np.repeat(["low", "high"], 200)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b", comments="")
    classifier = sl.CompressiveClassifier("lda").fit(X, names).to_model()
    regressor = sl.CompressiveMixtureRegressor(1, random_state=0).fit(X[:, :1], X[:, 0] * 0.25).to_model()
    classifier.save(tmp_path / "c.json")
    regressor.save(tmp_path / "r.json")
    np.savetxt(tmp_path / "one.csv", X[:, :1], delimiter=",", header="a", comments="")
    for model, rows in (("c", "rows"), ("r", "one")):
        code, _, err = run(
            "predict", tmp_path / f"{model}.json", tmp_path / f"{rows}.csv", "-o", tmp_path / f"{model}.csv"
        )
        assert code == 0, err
    labels = (tmp_path / "c.csv").read_text().split()
    assert labels[0] == '"class"'
    assert np.mean(np.array([label.strip('"') for label in labels[1:]]) == names) > 0.98
    targets = np.loadtxt(tmp_path / "r.csv", skiprows=1)
    np.testing.assert_allclose(targets, X[:, 0] * 0.25, atol=1e-6)


@pytest.mark.parametrize("how", ["pairs", "em"])
def test_rows_with_missing_entries(how, tmp_path, run):
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(3000, 1)) + 0.5 * rng.normal(size=(3000, 3))
    lines = [",".join("" if rng.random() < 0.2 else f"{v:.6f}" for v in row) for row in rows]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    map_, sketch, model = (tmp_path / name for name in ("map.json", "rows.sketch", "model.json"))
    options = ["--task", "regression", "--missing", how, "-o", map_]
    assert run("design", tmp_path / "rows.csv", *options)[0] == 0
    assert run("sketch", tmp_path / "rows.csv", "--features", map_, "-o", sketch)[0] == 0
    assert sl.load(sketch).count == 3000
    assert run("learn", "regression", sketch, "--target", "c", "-o", model)[0] == 0
    found = json.loads(model.read_text())
    assert (np.abs(np.array(found["coefficients"]) - 1 / 2.25) < 4 * np.array(found["standard_errors"])).all()
    assert 0 < np.max(found["standard_errors"]) < 0.05
    assert run("learn", "pca", sketch, "-k", "1", "-o", model)[0] == 0
    code, _, err = run("design", tmp_path / "rows.csv", "--missing", "median", "-o", map_)
    assert code != 0
    assert "--missing median needs --encode" in err
    bounds = ["--lower=-9,-9,-9", "--upper", "9,9,9"]
    code, out, err = run("design", tmp_path / "rows.csv", *options, *bounds)
    if how == "em":
        assert code == 0
        assert "exact sums" in out.decode()
        assert sl.load(map_).radius == pytest.approx(9 * 3**0.5)
        code, _, err = run("design", *bounds, *options)
        assert "fills gaps as a sample of rows says: give one, or use --missing pairs" in err
    else:
        assert "give either data or both --lower and --upper" in err
    assert code != 0


def test_a_model_is_a_start(folder, tmp_path, run):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert run("learn", "kmeans", folder / "fourier.sketch", "-k", "4", "-o", first)[0] == 0
    assert run("learn", "gmm", folder / "fourier.sketch", "-k", "4", "--start", first, "-o", second)[0] == 0
    found = [json.loads(path.read_text()) for path in (first, second)]
    np.testing.assert_allclose(found[0]["centers"], found[1]["means"], atol=1.0)


def test_a_second_map_from_a_mixture(folder, tmp_path, run):
    found, centres, target = tmp_path / "gmm.json", tmp_path / "pca.json", tmp_path / "second.json"
    code, _, err = run("learn", "gmm", folder / "fourier.sketch", "-k", "4", "--covariance", "diag", "-o", found)
    assert code == 0, err
    code, out, err = run("design", "--previous", found, "-k", "4", "--seed", "3", "-o", target)
    assert code == 0, err
    phi = sl.load(target)
    assert phi == sl.design(previous=sl.Model.load(found), task="gmm", n_components=4, seed=3)
    assert phi.columns == ("a", "b", "c")
    assert phi.size == 10 * 4 * (3 + 1 + 3)  # diagonal covariances, as those of the model
    assert "4 components of an earlier model" in out.decode() + err
    code, _, err = run("learn", "pca", folder / "quadratic.sketch", "-k", "2", "-o", centres)
    assert code == 0, err
    for arguments, word in [
        (["--previous", centres], "has no mixture"),
        (["--previous", found, "--lower", "0", "--upper", "1"], "instead of data"),
        (["--previous", found, "--task", "pca"], "--task gmm"),
        (["--previous", found, "--missing", "pairs"], "combines with -k and --seed alone"),
        (["--previous", found, "--columns", "a"], "combines with -k and --seed alone"),
        (["--previous", found, "--where", "a > 0"], "combines with -k and --seed alone"),
    ]:
        code, _, err = run("design", *arguments, "-o", tmp_path / "third.json")
        assert code == (5 if word == "has no mixture" else 2)
        assert word in err
