import warnings

import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.designs.spread import far, remarks, standard_units, usual


def test_wild_values_are_told_from_wide_columns():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=3000), rng.random(3000) < 0.03, np.zeros(3000), rng.lognormal(0, 1, 3000)])
    assert usual(rows).all()  # flags, constants and long tails are no accidents
    rows[[5, 70, 900], 0] = -999_999
    assert np.flatnonzero(far(rows).any(1)).tolist() == [5, 70, 900]
    assert far(rows)[5].tolist() == [True, False, False, False]
    half = np.concatenate([rng.normal(size=(900, 1)), rng.normal(1e9, 1.0, (100, 1))])
    assert usual(half).all()  # a tenth of the rows is a cluster
    half[900:] = 9999.0  # but a number that comes again and again is a code
    assert np.flatnonzero(far(half)[:, 0]).tolist() == list(range(900, 1000))
    assert "100 values far from all others (such as 9999)" in str(remarks(half, None, False)[0])
    assert usual(np.repeat([[0.0], [1.0], [1e6]], [600, 300, 100], axis=0)).all()  # unless all numbers are such


def test_pictures_have_no_wild_values():
    rng = np.random.default_rng(3)
    shares = np.geomspace(0.001, 1.0, 300)  # of the pictures in which a pixel is not black, with faint ones
    rows = np.where(rng.random((2000, 300)) < shares, np.clip(rng.normal(0.4, 0.4, (2000, 300)), 0.01, 1.0), 0.0)
    assert remarks(rows, None, True) == []
    rows[:5, 100:110] = 255.0
    found = remarks(rows, None, True)
    assert len(found) == 4
    assert "column 100 holds 5 values" in str(found[0])
    assert str(found[3]) == "values far from all others in 7 more columns, too"


def test_scale_and_units_ignore_wild_values():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1500, 2)) * [1.0, 20.0]
    clean = sl.design(rows, n_components=3, standardize=True)
    rows[:3, 0] = -999_999
    with pytest.warns(sl.DataWarning, match="column 0 holds 3 values far from all others"):
        same = sl.design(rows, n_components=3, standardize=True)
    np.testing.assert_allclose(same.spread, clean.spread, rtol=0.01)
    with pytest.warns(sl.DataWarning):
        assert sl.design(rows, n_components=3).scale == pytest.approx(
            sl.design(rows[3:], n_components=3).scale, rel=0.1
        )
    with pytest.warns(sl.DataWarning):
        mixture = sl.design(rows, n_components=3, task="gmm", covariance_type="diag")
    assert mixture.scale < 100


def test_columns_in_different_units_are_named_and_standardized_ones_are_not():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(1000, 2)) * [1.0, 1000.0]
    assert [str(remark) for remark in remarks(rows, ["age", "income"], True)] == [
        (
            "column 'income' has 100.0% of the variance; standardize=True, or dividing columns by their spread, "
            "gives all of them the same weight"
        )
    ]
    with pytest.warns(sl.DataWarning, match="column 1 has"):
        sl.CompressiveKMeans(2, random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.CompressiveKMeans(2, standardize=True, random_state=0).fit(rows)
        sl.design(rows, n_components=2, task="gmm")


def test_constant_columns_and_bounds_cannot_be_standardized():
    with pytest.raises(ValueError, match="column 'b' is constant"):
        standard_units(np.ones((5, 2)) * [[1.0], [2.0], [3.0], [4.0], [5.0]] * [1, 0], ["a", "b"])
    with pytest.raises(ValueError, match="give one"):
        sl.design(bounds=([0.0], [1.0]), standardize=True)
    with pytest.raises(ValueError, match="needs Fourier features"):
        sl.design(np.random.default_rng(0).normal(size=(50, 2)), task="pca", standardize=True)


@pytest.mark.parametrize("kind", ["wide", "outlier", "sentinels"])
def test_centres_are_in_the_box_and_near_the_mass(kind):
    X = gaussian_clusters(3, 2, 400, n=3000, seed=3)[0] * 5 + [40.0, 40.0]
    if kind == "wide":
        X[:, 1] *= 1000
    elif kind == "outlier":
        X[17, 0] = 1e9
    else:
        X[[5, 500, 2000], 0] = -999_999
    clean = np.delete(X, [5, 17, 500, 2000], axis=0)
    with pytest.warns(sl.DataWarning):
        km = sl.CompressiveKMeans(3, random_state=0).fit(X)
    low, high = clean.min(0), clean.max(0)
    if kind == "wide":
        assert (km.cluster_centers_ >= low - 1e-9).all()
        assert (km.cluster_centers_ <= high + 1e-9).all()
    else:
        from sklearn.cluster import KMeans

        best = KMeans(3, n_init=10, random_state=0).fit(clean)
        assert -km.score(clean) < 1.05 * best.inertia_


def test_sparse_pilots_and_generators():
    sparse = pytest.importorskip("scipy.sparse")
    rows = np.random.default_rng(0).normal(size=(300, 3))
    assert sl.design(sparse.csr_array(rows), n_components=2) == sl.design(rows, n_components=2)
    a = sl.design(rows, n_components=2, seed=np.random.default_rng(1))
    assert a == sl.design(rows, n_components=2, seed=np.random.default_rng(1))
    assert a != sl.design(rows, n_components=2, seed=np.random.default_rng(2))
