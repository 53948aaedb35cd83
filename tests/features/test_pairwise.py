"""Second moments from the pairs of entries that are there: exact sums, estimates beside pandas and EM, and refusals."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sketchlearn as sl
from sketchlearn.exceptions import SketchFileError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from missing import coefficients, em, holes, left, matrix


def rows(n=3000, d=5, share=0.2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.7 * rng.normal(size=(n, d)) + 3.0
    return holes(X, share, rng).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_parts_have_the_bytes_of_the_whole(dtype):
    X = rows(dtype=dtype)
    phi = sl.PairwiseFeatures.draw(dim=5, radius=9.0, center=np.full(5, 3.0))
    whole = sl.sketch(X, phi)
    order = np.random.default_rng(1).permutation(len(X))
    cuts = np.split(X[order], [1, 7, 900, 2000])
    assert sl.merge([sl.sketch(part, phi, workers=1) for part in cuts]).to_bytes() == whole.to_bytes()
    assert (whole - sl.sketch(X[:500], phi)).sums.tobytes() == sl.sketch(X[500:], phi).sums.tobytes()
    table = sl.sketch(X, phi, group_by=np.arange(len(X)) % 7)
    assert table.union() == whole
    weights = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = sl.sketch(X, phi, sample_weight=weights.astype(float))
    assert weighted.sums.tobytes() == sl.sketch(np.repeat(X, weights, axis=0), phi).sums.tobytes()
    half = sl.sketch(X, phi, sample_weight=weights / 2)
    np.testing.assert_allclose(half.mean, weighted.mean, rtol=1e-12)
    assert sl.Sketch.from_bytes(whole.to_bytes()) == whole


@pytest.mark.parametrize(("radius", "unit"), [(None, 1e-12), (60.0, 60.0 / 2**15)])
def test_counts_means_and_covariances_are_those_of_the_pairs(radius, unit):
    X = rows()
    X[:, 4] = np.where(np.arange(len(X)) < 5, X[:, 4], np.nan)
    phi = sl.PairwiseFeatures.draw(dim=5, radius=radius, center=[3.0, 0.0, 3.0, -1.0, 3.0])
    s = sl.sketch(X, phi)
    there = ~np.isnan(X)
    np.testing.assert_allclose(phi.shares(s.sums, s.weight), there.T.astype(float) @ there / len(X), atol=1e-12)
    means = np.nanmean(X, 0)
    # an entry is off by half a unit at most
    found = phi.row_mean_from_sums(s.sums, float(s.weight))
    np.testing.assert_allclose(found, means, atol=0.5 * unit + 1e-9)
    centred = np.where(there, X - means, 0.0)
    expected = centred.T @ centred / (there.T.astype(float) @ there)
    S, _ = phi._covariance(s.sums, float(s.weight))
    np.testing.assert_allclose(S, expected, atol=0.5 * unit * 2 * np.nanmax(np.abs(X)) + 1e-9)
    np.testing.assert_array_equal(s.lower, np.nanmin(X, 0))
    np.testing.assert_array_equal(s.upper, np.nanmax(X, 0))


@pytest.mark.parametrize("radius", [None, 50.0])
def test_complete_rows_are_as_all_products(radius):
    X = rows(share=0.0)
    center = np.full(5, 3.0)
    a = sl.sketch(X, sl.PairwiseFeatures.draw(dim=5, radius=radius, center=center))
    b = sl.sketch(X, sl.QuadraticFeatures.draw(dim=5, radius=radius, center=center))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
    weight = float(a.weight)
    for name in ("centred_mean_from_sums", "row_mean_from_sums"):
        np.testing.assert_allclose(*(getattr(s.features, name)(s.sums, weight) for s in (a, b)), rtol=1e-9)
    one, other = (sl.CompressiveLinearRegression().fit_sketch(s) for s in (a, b))
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-6)
    np.testing.assert_allclose(one.standard_errors_, other.standard_errors_, rtol=2e-3)


def test_features_of_rows_average_to_those_of_the_sketch():
    X = rows(500)
    phi = sl.PairwiseFeatures.draw(dim=5, radius=6.0, center=np.full(5, 3.0))
    np.testing.assert_allclose(sl.sketch(X, phi).mean, np.nanmean(phi(X), axis=0), atol=2e-3)


def test_far_rows_and_infinite_ones():
    phi = sl.PairwiseFeatures.draw(dim=2)
    X = np.array([[1.0, np.nan], [np.nan, np.nan], [np.inf, 1.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match="row 2"):
        sl.sketch(X, phi)
    s = sl.sketch(X, phi, on_invalid="skip")
    assert (s.count, s.skipped) == (3, 1)
    np.testing.assert_allclose(phi.shares(s.sums, s.weight), np.array([[2, 1], [1, 1]]) / 3)
    far = rows() + 1e6
    found = matrix(sl.sketch(far, sl.design(far, task="pca", missing="pairs")))
    near = matrix(sl.sketch(rows(), sl.design(rows(), task="pca", missing="pairs")))
    np.testing.assert_allclose(found, near, rtol=1e-6, atol=1e-8)


def test_a_column_without_entries_is_named_when_it_is_needed():
    phi = sl.PairwiseFeatures.draw(dim=3).with_columns(["a", "b", "c"])
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[:, 1] = np.nan
    part = sl.sketch(X, phi)
    assert sl.Sketch.from_bytes(part.to_bytes()) == part
    with pytest.raises(ValueError, match="b holds nothing: their covariance is not known"):
        sl.CompressivePCA(1).fit_sketch(part)
    X = np.random.default_rng(1).normal(size=(20, 3))
    X[::2, 0], X[1::2, 1] = np.nan, np.nan
    with pytest.raises(ValueError, match="no row holds both a and b"):
        sl.CompressivePCA(1).fit_sketch(sl.sketch(X, phi))
    both = part + sl.sketch(np.ones((2, 3)), phi)
    assert np.isfinite(both.lower).all()


def test_impossible_counts_are_refused():
    s = sl.sketch(rows(100), sl.PairwiseFeatures.draw(dim=5, radius=20.0))
    sums = s.sums.copy()
    sums[-1] += 2**40
    with pytest.raises(SketchFileError, match="no rows can have these sums"):
        sl.Sketch.from_bytes(_with(s, sums).to_bytes())
    sums = s.sums.copy()
    i, j = np.triu_indices(10)
    sums[np.flatnonzero((i == 5) & (j == 9))[0]] = 100 * 2**30
    with pytest.raises(SketchFileError, match="more rows would hold two columns than hold one of them"):
        sl.Sketch.from_bytes(_with(s, sums).to_bytes())


def _with(sketch, sums):
    from dataclasses import replace

    return replace(sketch, sums=sums)


def test_what_can_not_be_done_is_said():
    phi = sl.PairwiseFeatures.draw(dim=5, radius=20.0)
    with pytest.raises(TypeError, match="no sensitivity is known of pairwise features"):
        sl.privatize(sl.sketch(rows(), phi), epsilon=1.0, public_map=True)
    with pytest.raises(ValueError, match="can't be projected"):
        phi.with_projection(sl.Projection.draw(dim=20, size=5))
    with pytest.raises(ValueError, match="missing='pairs' is for the tasks pca, regression, cca"):
        sl.design(rows(), task="kmeans", missing="pairs")
    with pytest.raises(ValueError, match="missing='mean': choose 'em', 'pairs'"):
        sl.design(rows(), task="pca", missing="mean")
    with pytest.raises(ValueError, match="leave out size"):
        sl.design(rows(), task="pca", missing="pairs", size=4)
    with pytest.raises(ValueError, match="missing must be 'em', 'pairs' or None"):
        sl.CompressivePCA(missing="drop").fit(rows())
    with pytest.raises(ValueError, match="NaN"):
        sl.CompressivePCA(1).fit(rows())


def test_other_recipes_are_refused():
    recipe = sl.PairwiseFeatures.draw(dim=3).recipe()
    for change in ({"size": 5}, {"radius": -1.0}, {"center": 3}, {"variant": "exact"}):
        with pytest.raises(ValueError, match=r"size|products|radius|center|fields"):
            sl.FeatureMap.from_recipe({**recipe, **change})


def test_principal_components_and_regression_come_near_an_em_on_the_rows():
    """20 000 rows with a fifth of the entries gone: within 3 % of an EM."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(20_000, 3)) @ rng.normal(size=(3, 10)) * 1.5 + rng.normal(size=(20_000, 10))
    true, holed = np.cov(X.T), holes(X, 0.2, rng)
    theirs = em(holed)[1]
    pca = sl.CompressivePCA(3, missing="pairs").fit(holed)
    np.testing.assert_allclose(pca.explained_variance_, np.linalg.eigvalsh(theirs)[::-1][:3], rtol=0.03)
    held = np.trace(pca.components_ @ true @ pca.components_.T)
    V = np.linalg.eigh(theirs)[1][:, -3:]
    assert held > 0.99 * np.trace(V.T @ true @ V)
    reg = sl.CompressiveLinearRegression(missing="pairs").fit(holed[:, :-1], holed[:, -1])
    assert left(true, reg.coef_) < 1.03 * left(true, coefficients(theirs))
    assert reg.reliable_
    assert "from the pairs of entries" in reg.verdict_


def test_canonical_correlations_and_sources():
    X = rows(5000, 6)
    both = sl.CompressiveCCA(1, missing="pairs").fit(X[:, :3], X[:, 3:])
    S = em(X)[1]
    a, b = (np.linalg.inv(np.linalg.cholesky(S[at, at])) for at in (slice(0, 3), slice(3, 6)))
    assert abs(both.correlations_[0] - np.linalg.svd(a @ S[:3, 3:] @ b.T)[1][0]) < 0.02
    names = [f"c{j}" for j in range(6)]
    table = pa.table({name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate(names)})
    assert table.column("c0").null_count > 0
    from_table, here = (sl.CompressivePCA(2, missing="pairs").fit(data) for data in (table, X))
    np.testing.assert_allclose(from_table.components_, here.components_, atol=1e-6)
    again = sl.CompressivePCA(2, missing="pairs").partial_fit(X[:2000]).partial_fit(X[2000:])
    np.testing.assert_allclose(np.abs(again.components_), np.abs(from_table.components_), atol=1e-5)


def test_errors_cover_what_pairs_leave_uncertain():
    """Intervals from 60 tables; textbook errors would cover about half."""
    rng = np.random.default_rng(3)
    S = 0.5 * np.eye(4) + 0.5
    inside = []
    for _ in range(60):
        X = holes(rng.normal(size=(1000, 4)) @ np.linalg.cholesky(S).T, 0.3, rng)
        fit = sl.CompressiveLinearRegression(0.0, missing="pairs").fit(X[:, :3], X[:, 3])
        inside.append(np.abs(fit.coef_ - coefficients(S)) < 1.96 * fit.standard_errors_)
    assert 0.90 < np.mean(inside) < 0.99  # 180 intervals, three to a table: standard error below 0.025


def test_a_penalty_damps_what_is_uncertain():
    X = sl.datasets.load_table("wine", standardize=True).rows
    X = X - X.mean(0)
    holed, true = holes(X, 0.2, np.random.default_rng(5)), X.T @ X / len(X)
    s = sl.sketch(holed, sl.design(holed, task="regression", missing="pairs"))
    plain, damped = (sl.CompressiveLinearRegression(alpha).fit_sketch(s) for alpha in (0.0, "auto"))
    assert left(true, damped.coef_) < left(true, plain.coef_)
    assert "a penalty of" in damped.verdict_
    assert "a penalty of" not in plain.verdict_
