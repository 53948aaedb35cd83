"""Random projections in front of feature maps: numbers, recipes, sketches, estimators, models, the command line."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from reference import projection as reference
from sklearn.metrics import adjusted_rand_score

import sketchlearn as sl
from sketchlearn.cli import main
from sketchlearn.features.portable import Bits
from sketchlearn.kernels import _projection_compiled

D, P = 60, 8


def clusters(n: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters in sixty columns of different units, so far apart that eight projections tell them apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    return (4.0 * rng.normal(size=(3, D))[labels] + rng.normal(size=(n, D))) * np.linspace(0.5, 2.0, D) + 7.0, labels


def test_projections_are_sums_with_signs_from_the_seed() -> None:
    X, _ = clusters(20)
    P1 = sl.Projection.draw(D, P, seed=3, center=X.mean(0), spread=X.std(0))
    words = Bits(3, 9).words(-(-D * P // 64))
    bits = np.array([(int(words[i // 64]) >> (i % 64)) & 1 for i in range(D * P)]).reshape(D, P)
    np.testing.assert_array_equal(P1.signs, 1 - 2 * bits)
    np.testing.assert_allclose(P1(X), (X - X.mean(0)) / X.std(0) @ P1.signs / np.sqrt(P), atol=1e-13)
    assert P1.fingerprint == "addd0c202c55c9336881e9e8d0f5215b"


def test_squared_distances_are_kept_on_average() -> None:
    """Over many seeds the mean ratio is 1, with the variance 2 / size of sums of signs (for spread-out differences)."""
    x = np.random.default_rng(0).normal(size=(1, D))
    ratios = [float((sl.Projection.draw(D, P, seed=s)(x) ** 2).sum() / (x**2).sum()) for s in range(400)]
    assert abs(np.mean(ratios) - 1.0) < 4 * np.sqrt(2 / P / 400)
    assert 0.6 < np.var(ratios) / (2 / P) < 1.3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_tiers_and_batches_give_the_same_bits(dtype: type) -> None:
    X = clusters(103)[0].astype(dtype)
    X.flags.writeable = False
    P1 = sl.Projection.draw(D, P, seed=1, center=X.mean(0), spread=X.std(0) + 0.5)
    found = []
    for loops in (_projection_compiled, reference):
        out = np.zeros((len(X), P))
        loops.project(X, P1.center, P1.spread, P1.signs, out)
        found.append(out)
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(P1(X), np.concatenate([P1(part) for part in np.array_split(X, 17)]))
    np.testing.assert_array_equal(P1(X), P1(np.asfortranarray(X)))


@pytest.mark.parametrize(
    "inner",
    [
        sl.FourierFeatures.draw(dim=P, size=30, scale=3.0),
        sl.FourierFeatures.draw(dim=P, size=40, scale=3.0, features_per_row=10),
        sl.FourierFeatures.draw(dim=P, size=32, scale=3.0, structure="gr2", quantized=True),
        sl.QuadraticFeatures.draw(dim=P, radius=50.0),
        sl.QuarticFeatures.draw(dim=P, radius=50.0),
        sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=P, size=10, scale=3.0)),
    ],
    ids=["fourier", "subsampled", "one bit", "quadratic", "quartic", "embedded"],
)
def test_a_sketch_of_projected_rows(inner: sl.FeatureMap) -> None:
    X, labels = clusters(400)
    P1 = sl.Projection.draw(D, P, seed=2, center=X.mean(0))
    phi = inner.with_projection(P1)
    s = sl.sketch(X, phi)
    plain = sl.sketch(P1(X), inner)
    np.testing.assert_array_equal(s.sums, plain.sums)
    np.testing.assert_array_equal(s.lower, plain.lower)
    assert s == sl.sketch(X[:111], phi) + sl.sketch(X[111:], phi)
    np.testing.assert_array_equal((s - sl.sketch(X[:111], phi)).sums, sl.sketch(X[111:], phi).sums)
    assert sl.Sketch.from_bytes(s.to_bytes()) == s
    assert pickle.loads(pickle.dumps(phi)) == phi == sl.FeatureMap.from_recipe(json.loads(phi.recipe_json()))
    stream = sl.Accumulator(phi)
    for batch in np.array_split(X, 9):
        stream.update(batch)
    assert stream.sketch() == s
    assert sl.merge(sl.sketch(X, phi, group_by=labels).values()).count == 400


def test_sketches_of_other_projections_dont_add() -> None:
    X, _ = clusters(300)
    a, b = (sl.sketch(X, sl.design(X, n_components=3, projection=P, seed=s)) for s in (0, 1))
    with pytest.raises(sl.IncompatibleSketchError, match="other values of center, projection"):
        a + b
    recipe = a.features.recipe()
    recipe["projection"]["fingerprint"] = "0" * 32
    with pytest.raises(sl.SketchFileError, match="fingerprint"):
        sl.sketch(X, sl.FeatureMap.from_recipe(recipe))


def test_columns_are_read_by_name_and_bad_rows_named() -> None:
    X, _ = clusters(200)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(D)])
    phi = sl.design(frame, n_components=3, projection=P, standardize=True)
    assert phi.inputs == D
    assert phi.input_columns == tuple(frame.columns)
    assert sl.sketch(frame[frame.columns[::-1]], phi) == sl.sketch(frame, phi)
    with pytest.raises(ValueError, match="c3"):
        sl.sketch(frame.drop(columns="c3"), phi)
    with pytest.raises(ValueError, match="8 columns"):
        sl.Accumulator(phi).update(np.zeros((2, P)))
    frame.iloc[5, 4] = np.nan
    with pytest.raises(ValueError, match=r"row 5 .*NaN or a null in column 'c4'"):
        sl.sketch(frame, phi)
    assert sl.sketch(frame, phi, on_invalid="skip").skipped == 1


def test_after_an_encoder() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 20)), columns=[f"x{i}" for i in range(20)])
    frame["kind"] = np.array(["a", "b", "c"])[rng.integers(3, size=300)]
    encoder = sl.Encoder.fit(frame)
    phi = sl.design(frame, n_components=2, encoder=encoder, projection=6)
    assert (phi.dim, phi.inputs, phi.encoder) == (6, encoder.dim, encoder)
    assert sl.FeatureMap.from_recipe(json.loads(phi.recipe_json())) == phi
    rows = sl.read(frame, encoder=encoder).sample(300)
    few = sl.sketch(phi.projection(rows), phi.with_encoder(None).with_projection(None))
    np.testing.assert_array_equal(sl.sketch(frame, phi).sums, few.sums)


def test_estimators_take_rows_and_answer_about_rows() -> None:
    X, labels = clusters()
    km = sl.CompressiveKMeans(3, projection=P, standardize=True, random_state=0).fit(X)
    assert km.n_features_in_ == D
    assert km.cluster_centers_.shape == (3, P)
    assert adjusted_rand_score(labels, km.predict(X)) > 0.95
    means = km.cluster_means(X)
    truth = np.array([X[labels == i].mean(0) for i in range(3)])
    order = [int(np.argmin(((means - t) ** 2).sum(1))) for t in truth]
    assert np.abs(means[order] - truth).max() < 0.5  # rows of a cluster have a spread of 2 at most
    model = sl.Model.from_json(sl.Model.of(km).to_json())
    np.testing.assert_array_equal(model.predict(X), km.predict(X))
    again = sl.CompressiveKMeans(3, random_state=0).fit_sketch(km.sketch_)
    np.testing.assert_array_equal(again.predict(X), km.predict(X))
    gm = sl.CompressiveGaussianMixture(3, covariance_type="spherical", projection=P, random_state=0).fit(X)
    assert adjusted_rand_score(labels, gm.predict(X)) > 0.9
    assert gm.sample(4)[0].shape == (4, P)
    for task, make in (("classifier", sl.CompressiveClassifier), ("anomaly", sl.CompressiveAnomalyDetector)):
        phi = sl.design(X, task=task, projection=P, size=40)
        learned = make(features=phi, random_state=0).fit(X, *([labels] if task == "classifier" else []))
        loaded = sl.Model.from_json(sl.Model.of(learned).to_json())
        np.testing.assert_array_equal(loaded.predict(X), learned.predict(X))


def test_models_of_columns_refuse_projections() -> None:
    X, _ = clusters(300)
    phi = sl.QuadraticFeatures.draw(dim=P).with_projection(sl.Projection.draw(D, P))
    with pytest.raises(ValueError, match="about the columns themselves"):
        sl.CompressivePCA(2, features=phi).fit(X)
    with pytest.raises(ValueError, match="about the columns themselves"):
        sl.CompressivePCA(2).fit_sketch(sl.sketch(X, phi))
    with pytest.raises(ValueError, match="can't use a projection"):
        sl.design(X, task="pca", projection=P)
    with pytest.raises(ValueError, match="give one"):
        sl.design(bounds=([0.0] * D, [1.0] * D), projection=P)
    with pytest.raises(ValueError, match="fewer columns"):
        sl.design(X, projection=D)
    with pytest.raises(ValueError, match="has its own projection"):
        sl.CompressiveKMeans(2, features=phi, projection=P).fit(X)


def test_from_the_command_line(tmp_path, capsys) -> None:
    X, labels = clusters()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(D)])
    frame.to_parquet(tmp_path / "rows.parquet")
    data, sketch, model, out = (str(tmp_path / name) for name in ("rows.parquet", "s.sketch", "m.json", "p.csv"))
    assert main(["sketch", data, "-k", "3", "--standardize", "--projection", str(P), "-o", sketch]) == 0
    assert main(["learn", "kmeans", sketch, "-k", "3", "-o", model]) == 0
    assert main(["predict", model, data, "-o", out]) == 0
    assert adjusted_rand_score(labels, pd.read_csv(out)["cluster"]) > 0.95
    assert (
        main(["design", data, "-k", "3", "--standardize", "--projection", str(P), "-o", str(tmp_path / "f.json")]) == 0
    )
    capsys.readouterr()
    assert main(["info", sketch]) == 0
    assert "8 random projections of 60 columns" in capsys.readouterr().out
