"""Options that all estimators share: standardised columns, invalid rows, numbers chosen by a sweep, sparse rows."""

import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl

MAKERS = [
    lambda **o: sl.CompressiveKMeans(3, random_state=0, **o),
    lambda **o: sl.CompressiveKMedians(3, random_state=0, **o),
    lambda **o: sl.CompressiveGaussianMixture(3, covariance_type="spherical", random_state=0, **o),
    lambda **o: sl.CompressivePCA(2, random_state=0, **o),
]
each = pytest.mark.parametrize("make", MAKERS, ids=["kmeans", "kmedians", "gmm", "pca"])


@pytest.fixture(scope="module")
def rows():
    return gaussian_clusters(3, 2, 400, n=3000, seed=0)[0]


@each
def test_invalid_rows_are_left_out_and_counted(make, rows):
    dirty = np.insert(rows, [0, 1000], np.nan, axis=0)
    with pytest.raises(ValueError, match="NaN"):
        make().fit(dirty)
    with pytest.raises(ValueError, match="on_invalid"):
        make(on_invalid="drop").fit(rows)
    found = make(on_invalid="skip").fit(dirty)
    assert (found.sketch_.count, found.sketch_.skipped) == (3000, 2)
    weighted = make(on_invalid="skip", features=found.sketch_.features).fit(dirty, sample_weight=np.ones(len(dirty)))
    assert weighted.sketch_.count == 3000


def test_invalid_rows_of_a_regression(rows):
    y = rows @ [1.0, 2.0]
    y[7], X = np.nan, rows.copy()
    X[9, 0] = np.inf
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        sl.CompressiveLinearRegression().fit(X, y)
    found = sl.CompressiveLinearRegression(on_invalid="skip").fit(X, y)
    assert found.n_samples_ == len(X) - 2
    np.testing.assert_allclose(found.coef_, [1.0, 2.0], rtol=1e-6)


@each
def test_sparse_rows_give_the_same_sketch(make, rows):
    sparse = pytest.importorskip("scipy.sparse")
    weights = np.arange(len(rows)) % 3
    dense = make().fit(rows, sample_weight=weights)
    given = make(features=dense.sketch_.features).fit(sparse.csr_array(rows), sample_weight=weights)
    assert given.sketch_ == dense.sketch_
    own = make().fit(sparse.coo_array(rows))
    use = own.transform if isinstance(own, sl.CompressivePCA) else own.predict
    np.testing.assert_allclose(use(sparse.csr_array(rows)), use(rows), atol=1e-9)


@each
def test_generators_are_random_states(make, rows):
    a, b, c = (
        make().set_params(random_state=np.random.default_rng(seed)).fit(rows).sketch_.features for seed in (1, 1, 2)
    )
    assert a == b
    assert a != c or isinstance(make(), sl.CompressivePCA)  # two columns are kept whole


def test_standardized_clusters_do_not_depend_on_units(rows):
    unit = np.array([1.0, 1e4])
    plain = sl.CompressiveKMeans(3, standardize=True, random_state=0).fit(rows)
    scaled = sl.CompressiveKMeans(3, standardize=True, random_state=0).fit(rows * unit)
    order, other = plain.cluster_centers_[:, 0].argsort(), scaled.cluster_centers_[:, 0].argsort()
    spread = rows.std(0)
    np.testing.assert_allclose(
        scaled.cluster_centers_[other] / unit / spread, plain.cluster_centers_[order] / spread, atol=0.05
    )
    assert np.mean(np.argsort(order)[plain.predict(rows)] == np.argsort(other)[scaled.predict(rows * unit)]) > 0.99


def test_the_number_of_clusters_is_chosen_by_a_sweep(rows):
    km = sl.CompressiveKMeans("auto", random_state=0).fit(rows[:1500])
    assert km.n_clusters == "auto"
    assert len(km.cluster_centers_) == km.sweep_.recommended == 3
    gm = sl.CompressiveGaussianMixture("auto", covariance_type="spherical", random_state=0).fit(rows)
    assert len(gm.weights_) == gm.sweep_.recommended == 3
    assert len(gm.to_sklearn().means_) == 3
    with pytest.raises(ValueError, match="positive integer or 'auto'"):
        sl.CompressiveKMeans("many").fit(rows)
    few = sl.CompressiveKMeans("auto", random_state=0).fit(rows[:5])
    assert len(few.cluster_centers_) <= 5
    km.partial_fit(rows[1500:])  # other rows of the same clusters
    assert "sweep_" not in vars(km)
    assert len(km.cluster_centers_) == 3


@pytest.mark.parametrize("method", ["ridge", "lda", "mixture", "mean"])
def test_classifiers_leave_out_invalid_rows(method):
    rng = np.random.default_rng(3)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 2)) + 6.0 * y[:, None]
    dirty = X.copy()
    dirty[[3, 8, 50], [0, 1, 0]] = np.nan, np.inf, np.nan
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        sl.CompressiveClassifier(method, sketch_size=40, random_state=0).fit(dirty, y)
    found = sl.CompressiveClassifier(method, sketch_size=40, on_invalid="skip", random_state=0).fit(dirty, y)
    assert found.class_counts_.tolist() == [198, 199]
    assert found.score(X, y) > 0.98
    found.partial_fit(dirty, y)
    assert found.class_counts_.tolist() == [396, 398]


def test_other_estimators_leave_out_invalid_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2))
    y, dirty = X @ [1.0, 2.0], np.where(np.arange(300)[:, None] == 7, np.nan, X)
    regressor = sl.CompressiveMixtureRegressor(1, on_invalid="skip", random_state=0).fit(dirty, y)
    assert regressor.sketch_.count == 299
    np.testing.assert_allclose(regressor.predict(X), y, atol=1e-3)
    assert sl.CompressiveLDA(1, on_invalid="skip").fit(dirty, y > 0).class_counts_.sum() == 299
