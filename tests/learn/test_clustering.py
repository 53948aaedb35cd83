import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from clusters import gaussian_clusters
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as sl

BOTH = [sl.CompressiveKMeans, sl.CompressiveKMedians]


@parametrize_with_checks([sl.CompressiveKMeans(n_clusters=4)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow  # the estimators share all but the decoder
@parametrize_with_checks([sl.CompressiveKMedians(n_clusters=4)])
def test_scikit_learn_conventions_of_medians(estimator, check):
    check(estimator)


def _data(seed=0):
    return gaussian_clusters(4, 3, 100, n=4000, seed=seed)[0]


@pytest.mark.parametrize("cls", BOTH)
def test_fit_from_rows_batches_and_sketch_agree(cls):
    X = _data()
    whole = cls(4, random_state=0).fit(X)
    again = cls(4, random_state=0).fit_sketch(whole.sketch_)
    np.testing.assert_allclose(np.sort(again.cluster_centers_, 0), np.sort(whole.cluster_centers_, 0), rtol=1e-3)
    streamed = cls(4, features=whole.sketch_.features, random_state=0)
    for part in np.array_split(X, 7):
        streamed.partial_fit(part)
    assert streamed.sketch_ == whole.sketch_
    assert streamed.predict(X).shape == (len(X),)
    with pytest.raises(AttributeError, match="labels_"):
        _ = streamed.labels_


def test_close_to_kmeans():
    X = _data(1)
    km = sl.CompressiveKMeans(4, random_state=0).fit(X)
    reference = KMeans(4, n_init=10, random_state=0).fit(X)
    assert -km.score(X) / reference.inertia_ < 1.01
    assert km.inertia_ == pytest.approx(reference.inertia_, rel=0.05)
    assert km.reliable_
    np.testing.assert_array_equal(km.labels_, km.predict(X))
    np.testing.assert_array_equal(km.transform(X).argmin(1), km.labels_)
    shares = np.bincount(km.labels_, minlength=4) / len(X)
    np.testing.assert_allclose(km.weights_, shares, atol=0.02)


def test_medians_resist_outliers_more_than_means():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(3000, 2)), rng.normal(size=(300, 2)) * 3 + [12, 0]])
    means = sl.CompressiveKMeans(1, random_state=0).fit(X).cluster_centers_[0]
    medians = sl.CompressiveKMedians(1, random_state=0).fit(X).cluster_centers_[0]
    assert np.linalg.norm(medians) < np.linalg.norm(means)


def test_weights_are_repetition():
    X = _data()[:600]
    w = np.random.default_rng(0).integers(0, 3, len(X))
    a = sl.CompressiveKMeans(4, random_state=0).fit(X, sample_weight=w)
    b = sl.CompressiveKMeans(4, random_state=0).fit(np.repeat(X, w, 0))
    assert a.sketch_ == b.sketch_
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    tiny = sl.CompressiveKMeans(4, random_state=0).fit(X, sample_weight=w / w.sum())
    np.testing.assert_allclose(np.sort(tiny.cluster_centers_, 0), np.sort(a.cluster_centers_, 0), rtol=0.05)
    with pytest.raises(ValueError, match="zero"):
        sl.CompressiveKMeans(4).fit(X, sample_weight=np.zeros(len(X)))


def test_in_pipelines_searches_frames_and_pickles():
    X = _data()
    model = make_pipeline(StandardScaler(), sl.CompressiveKMeans(4, random_state=0)).fit(X)
    assert set(model.predict(X)) == {0, 1, 2, 3}
    search = GridSearchCV(sl.CompressiveKMeans(random_state=0), {"n_clusters": [2, 4]}, cv=2).fit(X)
    assert search.best_params_ == {"n_clusters": 4}
    km = (
        sl.CompressiveKMeans(4, random_state=0).set_output(transform="pandas").fit(pd.DataFrame(X, columns=list("abc")))
    )
    assert km.transform(pd.DataFrame(X, columns=list("abc"))).columns.tolist() == km.get_feature_names_out().tolist()
    assert km.get_feature_names_out()[0] == "compressivekmeans0"
    copy = pickle.loads(pickle.dumps(km))
    np.testing.assert_array_equal(copy.cluster_centers_, km.cluster_centers_)
    assert len(pickle.dumps(km)) < X.nbytes / 2  # the rows are not carried along
    assert clone(km).get_params() == km.get_params()


def test_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        km = sl.CompressiveKMeans(3, random_state=0).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), km)
        pipeline.fit(_data()[:500], sample_weight=np.ones(500))


def test_errors_of_its_own():
    X = _data()[:100]
    with pytest.raises(ValueError, match="n_clusters"):
        sl.CompressiveKMeans(0).fit(X)
    with pytest.raises(ValueError, match="n_samples=3"):
        sl.CompressiveKMeans(4).fit(X[:3])
    with pytest.raises(TypeError, match="for rows use fit"):
        sl.CompressiveKMeans(4).fit_sketch(X)
    with pytest.raises(ValueError, match="columns"):
        sl.CompressiveKMeans(4, features=sl.FourierFeatures.draw(dim=9, size=50)).fit(X)
    with pytest.raises(AttributeError, match="fit"):
        _ = sl.CompressiveKMeans(4).cluster_centers_


@pytest.mark.parametrize("estimator", [sl.CompressiveKMeans, sl.CompressiveKMedians])
def test_a_standardised_map_means_standardised_distances(estimator):
    rng = np.random.default_rng(0)
    rows = 5 * rng.normal(size=(4, 3))[rng.integers(4, size=20_000)] + rng.normal(size=(20_000, 3))
    unit, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, 0.0, -1e5])
    X = rows * unit + shift
    phi = sl.design(rows[:1000], n_components=4)
    plain = estimator(4, random_state=0).fit_sketch(sl.sketch(rows, phi))
    scaled = estimator(4, random_state=0).fit_sketch(sl.sketch(X, phi.standardized(shift, unit)))
    assert scaled.reliable_
    order = [np.lexsort(m.cluster_centers_.T) for m in (plain, scaled)]
    got = (scaled.cluster_centers_[order[1]] - shift) / unit
    # two decodings of one sketch: they differ by far less than the error of the centres, 1 / sqrt(5000)
    np.testing.assert_allclose(got, plain.cluster_centers_[order[0]], atol=0.005)
    assert scaled.inertia_ == pytest.approx(plain.inertia_, rel=0.01)
    assert scaled.score(X) == pytest.approx(plain.score(rows), rel=0.001)
    np.testing.assert_allclose(np.sort(scaled.transform(X[:50])), np.sort(plain.transform(rows[:50])), atol=0.02)
    again = sl.Sketch.from_bytes(scaled.sketch_.to_bytes())
    np.testing.assert_array_equal(again.features.spread, unit)
    table = sl.sweep(scaled.sketch_, range(2, 6), random_state=0)
    assert table.recommended == 4
    np.testing.assert_allclose(np.sort(table.models[2].means[:, 2]), np.sort(scaled.cluster_centers_[:, 2]), rtol=0.05)


def test_standard_errors_follow_the_units_of_the_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2)) + 10 * rng.integers(2, size=(5000, 1))
    plain = sl.CompressiveKMeans(2, random_state=0).fit(X)
    assert plain.centers_std_.shape == (2, 2)
    assert (plain.centers_std_ > 0.5 / np.sqrt(2500)).all()
    assert (plain.centers_std_ < 3.0 / np.sqrt(2500)).all()
    wide = sl.CompressiveKMeans(2, random_state=0).fit(X * 1000)
    np.testing.assert_allclose(np.sort(wide.centers_std_ / 1000, 0), np.sort(plain.centers_std_, 0), rtol=0.2)
    real = sl.CompressiveKMeans(2, random_state=0).fit(rng.uniform(size=(5000, 2)))
    assert real.centers_std_ is None
