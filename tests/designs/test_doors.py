"""`sl.design`, the estimators and the command line make the same map from the same rows and the same request."""

import json
import pickle

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.designs import tasks
from sketchlearn.sources.pilot import PILOT_ROWS, Reservoir, choose

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings("ignore::sketchlearn.exceptions.DataWarning")

NAMES = ["a", "b", "c", "d"]
ESTIMATORS = {
    "kmeans": lambda **how: sl.CompressiveKMeans(n_clusters=3, **how),
    "kmedians": lambda **how: sl.CompressiveKMedians(n_clusters=3, **how),
    "gmm": lambda **how: sl.CompressiveGaussianMixture(n_components=3, **how),
    "stable": lambda **how: sl.CompressiveStableMixture(n_components=3, **how),
    "pca": lambda **how: sl.CompressivePCA(n_components=3, **how),
    "regression": lambda **how: sl.CompressiveLinearRegression(n_components=3, **how),
    "cca": lambda random_state: sl.CompressiveCCA(),
    "dictionary": lambda **how: sl.CompressiveDictionaryLearning(3, **how),
    "nmf": lambda **how: sl.CompressiveNMF(3, **how),
    "classifier": lambda **how: sl.CompressiveClassifier(**how),
    "ica": lambda **how: sl.CompressiveICA(**how),
    "subspaces": lambda **how: sl.CompressiveSubspaces(n_subspaces=3, dim=2, **how),
    "anomaly": lambda **how: sl.CompressiveAnomalyDetector(**how),
}


def _rows(n):
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(3, 4)) * [5.0, 1.0, 20.0, 3.0] + [0.0, 40.0, 0.0, 0.0]
    return centers[rng.integers(3, size=n)] + rng.normal(size=(n, 4))


def _map_of(estimator, data, task):
    """The map that `fit` designs, without decoding anything."""
    estimator._solve = lambda: None
    if task in ("regression", "cca"):
        estimator.fit(data, "d")
    elif task == "classifier":
        estimator.fit(data, "label")
    else:
        estimator.fit(data)
    return estimator.sketch_.features


@pytest.fixture(scope="module", params=[900, 5000], ids=["all rows", "a pilot"])
def table(request, tmp_path_factory):
    """The same rows as an array and as a file of several row groups, few or more than a pilot has."""
    rows = _rows(request.param)
    folder = tmp_path_factory.mktemp("doors")
    columns = dict(zip(NAMES, rows.T, strict=True))
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=700)
    labels = pa.array(np.where(rows[:, 0] > 0, "x", "y"))
    pq.write_table(pa.table({**columns, "label": labels}), folder / "labelled.parquet", row_group_size=700)
    return rows, folder


def test_every_task_has_an_estimator_here():
    # sketches for monitoring and of columns are compared or drawn from, not learned from
    assert {task for task in tasks() if not task.startswith(("coarse", "test-"))} - {"monitoring", "columns"} == set(
        ESTIMATORS
    )


@pytest.mark.parametrize("task", ESTIMATORS)
def test_three_doors_one_map(task, table, monkeypatch, capsys):
    from sketchlearn.cli import main

    rows, folder = table
    path = str(folder / "rows.parquet")
    asked = sl.design(path, n_components=3, task=task, seed=7)
    assert asked.columns == tuple(NAMES)
    assert asked == sl.design(rows, n_components=3, task=task, seed=7).with_columns(NAMES)
    assert asked == sl.design(pa.table(dict(zip(NAMES, rows.T, strict=True))), n_components=3, task=task, seed=7)
    source = str(folder / "labelled.parquet") if task == "classifier" else path
    assert asked == _map_of(ESTIMATORS[task](random_state=7), source, task)
    monkeypatch.chdir(folder)
    words = ["design", path, "-k", "3", "--task", task, "--seed", "7", "-o", f"{task}.json"]
    assert main(words) == 0
    written = json.loads((folder / f"{task}.json").read_text())
    assert sl.FeatureMap.from_recipe(written["features"]) == asked
    assert written["reason"] == asked.reason
    assert main(["info", f"{task}.json"]) == 0
    assert asked.reason in capsys.readouterr().out


@pytest.mark.parametrize("standardize", [False, True])
def test_arrays_with_weights_take_the_same_way(standardize):
    rows = _rows(5000)
    weights = np.where(rows[:, 0] > 0, 3.0, 1.0)
    asked = sl.design(rows, n_components=3, seed=7, sample_weight=weights, standardize=standardize)
    found = ESTIMATORS["kmeans"](random_state=7, standardize=standardize)
    found._solve = lambda: None
    assert found.fit(rows, sample_weight=weights).sketch_.features == asked
    assert asked != sl.design(rows, n_components=3, seed=7, standardize=standardize)


def test_projections_take_the_same_way():
    rows = np.random.default_rng(0).normal(size=(3000, 60)) * np.linspace(1, 5, 60)
    for standardize in (False, True):
        asked = sl.design(rows, n_components=3, seed=7, projection=5, standardize=standardize)
        found = ESTIMATORS["kmeans"](random_state=7, projection=5, standardize=standardize)
        found._solve = lambda: None
        assert found.fit(rows).sketch_.features == asked


def test_the_reason_says_numbers_and_is_no_part_of_the_map(tmp_path):
    rows = _rows(900)
    phi = sl.design(rows, n_components=3)
    assert "120 features" in phi.reason
    assert "900 pilot rows" in phi.reason
    plain = sl.FeatureMap.from_recipe(phi.recipe())
    assert plain.reason == ""
    assert (plain == phi, hash(plain) == hash(phi), plain.fingerprint == phi.fingerprint) == (True, True, True)
    assert pickle.loads(pickle.dumps(phi)).reason == phi.reason
    assert phi.with_columns(NAMES).reason == phi.reason
    a, b = sl.sketch(rows, phi), sl.sketch(rows, plain)
    assert a == b
    assert a.features.reason == phi.reason
    for task in tasks():
        if not task.startswith(("coarse", "test-")):
            assert sl.design(rows, n_components=2, task=task).reason, task


def test_explain_still_works_and_warns():
    with pytest.warns(FutureWarning, match="reason"):
        phi, why = sl.design(_rows(100), n_components=2, explain=True)  # type: ignore[call-overload]
    assert why == phi.reason


def test_a_pilot_is_a_fair_sample_with_fair_weights():
    """Sums over a pilot estimate sums over all rows: the error is within five standard deviations of the estimate."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(20_000, 1))
    weights = rng.exponential(size=20_000) ** 2
    truth = (weights * rows[:, 0] ** 2).sum() / weights.sum()
    found = []
    for seed in range(40):
        few, own, _ = choose(rows, weights, seed)
        assert len(few) == PILOT_ROWS
        found.append((own * few[:, 0] ** 2).sum() / own.sum())
    assert abs(np.mean(found) - truth) < 5 * np.std(found) / np.sqrt(len(found))
    # as accurate as so many rows drawn by weight would be, at least
    assert np.std(found) < 1.3 * np.sqrt(2.0 / PILOT_ROWS)


def test_blocks_change_no_pilot():
    rows = np.random.default_rng(3).normal(size=(9000, 2))
    rows[17] = np.nan
    whole, parts = Reservoir(500, 1), Reservoir(500, 1)
    whole.add(rows)
    for start in range(0, 9000, 450):
        parts.add(rows[start : start + 450])
    np.testing.assert_array_equal(whole.pilot().rows, parts.pilot().rows)
    assert whole.pilot().weights is None
    assert len(whole.pilot().rows) == 500
