import copy
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.decoders.families import DIAGONAL
from sketchlearn.models import MODELS


def data(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) + 8 * np.eye(3)[rng.integers(3, size=n)]


@pytest.fixture(scope="module")
def models():
    X = data()
    fits = {
        "kmeans": sl.CompressiveKMeans(3, random_state=0).fit(X),
        "medians": sl.CompressiveKMedians(3, random_state=0).fit(X),
        "stable": sl.CompressiveStableMixture(1, random_state=0).fit(np.random.default_rng(0).normal(size=(3000, 1))),
        "pca": sl.CompressivePCA(2, random_state=0).fit(X),
        "regression": sl.CompressiveLinearRegression().fit(X[:, :2], X[:, 2]),
        "mixture-regression": sl.CompressiveMixtureRegressor(1, random_state=0).fit(X[:, :2], X[:, 2]),
        "densities": sl.CompressiveClassifier("lda").fit(X, X.argmax(1)),
        "anomaly": sl.CompressiveAnomalyDetector(sketch_size=6, random_state=0).fit(X),
        "verifier": sl.CompressiveVerifier(1, sketch_size=20, random_state=0).fit(X).enroll("a", X[:100] + 1.0),
        "subspaces": sl.CompressiveSubspaces(1, random_state=0).fit(X[:500]),
        "spectral": sl.CompressiveSpectralClustering(3, random_state=0).fit(X[:300]),
        "cca": sl.CompressiveCCA(1).fit(X[:, :2], X[:, 2:]),
        "ica": sl.CompressiveICA(random_state=0).fit(np.random.default_rng(0).laplace(size=(3000, 2))),
        "dictionary": sl.CompressiveDictionaryLearning(2, random_state=0).fit(X),
        "nmf": sl.CompressiveNMF(2, random_state=0).fit(X**2),
        "least squares": sl.CompressiveClassifier(sketch_size=6, random_state=0).fit(X, X.argmax(1)),
    }
    for kind in ("full", "tied", "diag", "spherical"):
        fits[kind] = sl.CompressiveGaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    found = {name: sl.Model.of(fit) for name, fit in fits.items()}
    found["family"] = sl.decode(fits["diag"].sketch_, 2, task="family", family=DIAGONAL, random_state=0)
    return found


NAMES = [
    *("kmeans", "medians", "stable", "pca", "regression", "full", "tied", "diag", "spherical"),
    *("mixture-regression", "densities", "least squares", "anomaly", "verifier", "subspaces", "spectral", "cca", "ica"),
    *("dictionary", "nmf"),
    "family",
]


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(models, name, tmp_path):
    model = models[name]
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again.to_json() == model.to_json()
    assert repr(again) == repr(model)
    assert again == model
    for key in model.layout:
        if isinstance(getattr(model, key), np.ndarray):
            np.testing.assert_array_equal(getattr(again, key), getattr(model, key))
    if model.mixture is not None:
        np.testing.assert_array_equal(again.mixture.full_covariances(), model.mixture.full_covariances())


def test_every_task_is_covered(models):
    assert {m.task for m in models.values()} == {task for task in MODELS if not task.startswith("toy-")}


def test_columns_are_kept_and_otherwise_numbered():
    X = data()
    phi = sl.design(X[:500], n_components=3).with_columns(["a", "b", "c"])
    named = sl.Model.of(sl.CompressiveKMeans(3, random_state=0).fit_sketch(sl.sketch(X, phi)))
    assert named.columns == ("a", "b", "c")
    assert json.loads(named.to_json())["columns"] == ["a", "b", "c"]
    plain = sl.Model.of(sl.CompressiveKMeans(3, random_state=0).fit(X))
    assert plain.columns[0] == "column 0"
    assert json.loads(plain.to_json())["columns"] is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda m: m.update(format="other"), "not a model"),
        (lambda m: m.update(version=2), "version 2, this library reads version 1"),
        (lambda m: m.update(version=None), "version None"),
        (lambda m: m.update(task="magic"), "known tasks: .*kmeans"),
        (lambda m: m.update(rows=-1), "rows"),
        (lambda m: m.update(rows="many"), "rows"),
        (lambda m: m.pop("centers"), "'centers' is missing"),
        (lambda m: m.update(centers=[[1, 2], [3]]), "centers"),
        (lambda m: m.update(centers=[["x"]]), "centers"),
        (lambda m: m.update(weights=[1.0]), "weights"),
        (lambda m: m["weights"].__setitem__(0, -1.0), "negative"),
        (lambda m: m.update(columns=["a"]), "3 names"),
        (lambda m: m["mixture"].update(means=[[0.0]]), "means"),
        (lambda m: m["mixture"].update(covariances=[[[1.0]]]), "covariances"),
        (lambda m: m["mixture"].pop("covariances"), "covariances"),
        (lambda m: m["profile"].update(misfit=[1.0]), "misfit"),
        (lambda m: m.update(sketch=[]), "sketch"),
        (lambda m: m.update(ratio="low"), "ratio"),
        (lambda m: m.update(version=True), "version True"),
        (lambda m: m.update(reliable="false"), "true or false"),
        (lambda m: m.update(verdict=3), "should be text"),
        (lambda m: m.update(rows=10**400), "rows"),
        (lambda m: m.update(columns=["a", "b", "\ud800"]), "3 names"),
        (lambda m: m["mixture"].update(covariances=[-1.0, 1.0, 1.0]), "negative variances"),
    ],
)
def test_damaged_models_are_refused(models, change, word):
    facts = json.loads(models["kmeans"].to_json())
    change(facts)
    with pytest.raises(sl.ModelFileError, match=word):
        sl.Model.from_json(json.dumps(facts), "m.json")


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[]", b"{", b"null", b"[" * 100_000])
def test_what_is_no_model_at_all(text):
    with pytest.raises(sl.ModelFileError, match="not a model"):
        sl.Model.from_json(text)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_an_error_or_a_drawable_model(models, data):
    name = data.draw(st.sampled_from(NAMES))
    facts = json.loads(models[name].to_json())
    facts.pop("checksum")  # which would refuse any change; files by hand have none
    key = data.draw(st.sampled_from(sorted(facts)))
    wrong = st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=3), st.lists(st.floats(), max_size=3))
    changed = copy.deepcopy(facts)
    changed[key] = data.draw(st.one_of(wrong, st.dictionaries(st.text(max_size=3), wrong, max_size=2)))
    try:
        model = sl.Model.from_json(json.dumps(changed))
    except sl.ModelFileError:
        return
    assert sl.plots.report(model).encode().startswith(b"<!doctype html>")


def test_a_regression_on_some_columns_can_be_read_back():
    s = sl.sketch(data(), sl.design(data()[:500], n_components=2, task="regression"))
    model = sl.Model.of(sl.CompressiveLinearRegression().fit_sketch(s, 2, [0]))
    assert sl.Model.from_json(model.to_json()).columns == ("column 0", "column 1", "column 2")
    assert model.headline == "column 2 from 1 column, 4,000 rows"


def test_frames_give_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data(), columns=["x", "y", "z"])
    assert sl.Model.of(sl.CompressiveKMeans(3, random_state=0).fit(frame)).columns == ("x", "y", "z")
    model = sl.Model.of(sl.CompressiveLinearRegression().fit(frame[["x", "y"]], frame["z"]))
    assert (model.predictors, model.columns) == (("x", "y"), ("x", "y", "target"))
    assert sl.Model.from_json(model.to_json()).to_json() == model.to_json()


def test_fractional_weights_and_subclasses():
    class Mine(sl.CompressiveKMedians):
        pass

    X = data(500)
    model = sl.Model.of(Mine(3, random_state=0).fit(X, sample_weight=np.full(500, 0.75)))
    assert model.criterion == "medians"
    assert model.headline.startswith("3 clusters of 375.0 rows")


def test_what_no_model_can_be_made_of():
    with pytest.raises(TypeError, match="CompressivePCA"):
        sl.Model.of(3)
    with pytest.raises(ValueError, match="learned nothing yet"):
        sl.Model.of(sl.CompressiveKMeans(2))
    X = data(300)
    with pytest.raises(TypeError, match="one target"):
        sl.Model.of(sl.CompressiveLinearRegression().fit(X[:, :1], X[:, 1:]))
    embedding = sl.FourierFeatures.draw(dim=3, size=20, scale=1.0)
    with pytest.raises(TypeError, match="embedding"):
        sl.Model.of(sl.CompressivePCA(2, embedding=embedding).fit(X))


def test_models_predict_like_their_estimators(models):
    X = data(300, seed=9)
    pandas = pytest.importorskip("pandas")
    unit = np.array([1.0, 100.0, 0.01])
    phi = sl.design(data()[:500], n_components=3).standardized([0, 0, 0], unit).with_columns(["x", "y", "z"])
    scaled = sl.CompressiveKMeans(3, random_state=0).fit_sketch(sl.sketch(data() * unit, phi))
    frame = pandas.DataFrame(X * unit, columns=["x", "y", "z"])[["z", "x", "y"]]
    model = sl.Model.from_json(sl.Model.of(scaled).to_json())
    np.testing.assert_array_equal(model.predict(frame), scaled.predict(frame[["x", "y", "z"]]))
    for kind in ("full", "tied", "diag", "spherical"):
        gm = sl.CompressiveGaussianMixture(3, covariance_type=kind, random_state=0).fit(data())
        np.testing.assert_array_equal(sl.Model.of(gm).predict(X), gm.predict(X))
    regression = sl.CompressiveLinearRegression().fit(X[:, :2], X[:, 2])
    np.testing.assert_allclose(sl.Model.of(regression).predict(X[:, :2]), regression.predict(X[:, :2]))
    with pytest.raises(TypeError, match="can't predict"):
        models["pca"].predict(X)
    with pytest.raises(ValueError, match="3 columns"):
        models["kmeans"].predict(X[:, :2])


OLD = Path(__file__).parent / "data"


@pytest.mark.parametrize("path", sorted(OLD.glob("version1-*.json")), ids=lambda path: path.stem)
def test_files_of_the_first_release_stay_readable(path):
    facts = json.loads(path.read_text())
    model = sl.Model.load(path)
    assert model.task == facts["task"]
    assert list(model.columns) == (facts["columns"] or [f"column {i}" for i in range(facts["n_columns"])])
    for name in model.layout:
        if name != "mixture" and facts.get(name) is not None:
            np.testing.assert_array_equal(getattr(model, name), facts[name])
    if "mixture" in facts:
        np.testing.assert_array_equal(model.mixture.means, facts["mixture"]["means"])
    assert (model.verdict, model.reliable, model.ratio) == tuple(map(facts.get, ("verdict", "reliable", "ratio")))
    written = json.loads(model.to_json())
    assert {key: written[key] for key in facts if facts[key] is not None} == {
        key: value for key, value in facts.items() if value is not None
    }
    assert sl.plots.report(model)


def test_there_is_an_old_file_of_every_task():
    assert {sl.Model.load(path).task for path in OLD.glob("*.json")} >= {"kmeans", "gmm", "stable", "pca", "regression"}


def test_standard_errors_travel_with_the_model(models, tmp_path):
    for name, centers in (("kmeans", "centers_std"), ("diag", "means_std")):
        models[name].save(tmp_path / "model.json")
        back = sl.Model.load(tmp_path / "model.json")
        np.testing.assert_allclose(getattr(back, centers), getattr(models[name], centers))
        assert (back.weights_std > 0).all()
    assert 0 < models["kmeans"].smallest < 0.1
    assert models["kmeans"].closest > 0

    assert {sl.Model.load(path).task for path in OLD.glob("*.json")} >= {"kmeans", "gmm", "stable", "pca", "regression"}
