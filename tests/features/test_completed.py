"""Second moments from completed rows: expectations, the EM map, exact sums, estimates beside EM, and refusals."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import LinAlgWarning

import sketchlearn as sl
from sketchlearn.designs.completed import pilot_moments
from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.patterns import Information, Patterns

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from missing import captured, coefficients, em, holes, left, matrix


def rows(n=3000, d=5, share=0.2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.7 * rng.normal(size=(n, d)) + 3.0
    return holes(X, share, rng).astype(dtype)


def law(d=4, seed=1):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    return rng.normal(size=d), A @ A.T + 0.1 * np.eye(d)


def every_gap(d):
    """All patterns of gaps, in which each column is there three times of four."""
    there = (np.arange(2**d)[:, None] >> np.arange(d)) % 2 == 1
    return Patterns(there, 3 ** there.sum(1))


def expected(row, mean, S):
    """First and second moment of a normal row about the mean, given the entries that are there."""
    o = ~np.isnan(row)
    P = S[:, o] @ np.linalg.inv(S[np.ix_(o, o)])
    filled = P @ (row - mean)[o]
    return filled, np.outer(filled, filled) + S - P @ S[o]


@pytest.mark.parametrize("radius", [None, 40.0])
def test_features_are_conditional_expectations(radius):
    X, (mean, S) = rows(200, 4), law()
    X[0], X[1] = np.nan, 1.0
    center = np.array([3.0, 1.0, -2.0, 0.5])
    phi = sl.CompletedFeatures.draw(mean, S, Patterns.of(X), center=center, radius=radius)
    true = []
    for row in X:
        filled, second = expected(row, mean, S)
        about = mean - center
        true.append(second + np.outer(filled, about) + np.outer(about, filled) + np.outer(about, about))
    upper = np.triu_indices(4)
    np.testing.assert_allclose(phi(X), np.array([m[upper] for m in true]), rtol=1e-9, atol=1e-7)
    unit = 1e-9 if radius is None else radius * 2.0**-15 * np.abs(phi(X)).max()
    np.testing.assert_allclose(sl.sketch(X, phi).mean, phi(X).mean(0), atol=unit)


def test_what_gaps_tell_is_the_derivative_of_the_em_map():
    """Of normal rows, ``I - K`` is the change of one step of EM with where it begins: by finite differences."""
    S = law()[1]
    gaps = every_gap(4)

    def step(at):
        """One step of EM on rows of the law, from another covariance."""
        after = np.zeros_like(S)
        for o, weight in zip(gaps.there, gaps.weights, strict=True):
            P = at[:, o] @ np.linalg.inv(at[np.ix_(o, o)])
            after += weight * (P @ S[np.ix_(o, o)] @ P.T + at - P @ at[o])
        return after

    np.testing.assert_allclose(step(S), S, atol=1e-12)
    told = Information(S, np.linalg.inv(S), gaps)
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(4, 4))
        X = 1e-5 * (X + X.T)
        moved = (step(S + X) - step(S - X)) / 2.0
        np.testing.assert_allclose(moved, X - told.apply(X[None])[0], atol=1e-3 * np.abs(X).max())
        np.testing.assert_allclose(told.solve(told.apply(X[None]))[0], X, atol=1e-6 * np.abs(X).max())


@pytest.mark.parametrize("far", [0.0, 1.0])
def test_gaps_independent_of_all_values_leave_no_bias_wherever_the_map_begins(far):
    """Each row with each pattern of gaps: mean and covariance are those of the complete rows, to the last digits."""
    d = 4
    rng = np.random.default_rng(2)
    X = rng.standard_t(3, size=(40, d)) @ rng.normal(size=(d, d))
    gaps = every_gap(d)
    holed = np.concatenate([np.where(there, X, np.nan) for there in gaps.there])
    weights = np.repeat(gaps.counts, len(X)).astype(float)
    mean, S = law()
    phi = sl.CompletedFeatures.draw(X.mean(0) + far * mean, np.cov(X.T) + far * S, gaps)
    s = sl.sketch(holed, phi, sample_weight=weights)
    np.testing.assert_allclose(phi.row_mean_from_sums(s.sums, float(s.weight)), X.mean(0), atol=1e-7)
    np.testing.assert_allclose(matrix(s), np.cov(X.T, ddof=0), rtol=1e-6, atol=1e-6)


def test_from_independent_columns_the_estimate_is_that_of_pairs():
    X = rows()
    center = np.nanmean(X, 0)
    gaps = Patterns.of(X)
    s = sl.sketch(X, sl.CompletedFeatures.draw(center, np.diag(np.nanvar(X, 0)), gaps))
    pairs = sl.sketch(X, sl.PairwiseFeatures.draw(dim=5, center=center))
    np.testing.assert_allclose(matrix(s)[np.triu_indices(5)], pairs.mean, atol=1e-6)


def test_the_pilot_is_where_an_em_stands_still():
    X = rows(1500, 6)
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    for given in (None, weights):
        mean, S = pilot_moments(X, given, Patterns.of(X, given))
        repeated = X if given is None else np.repeat(X, given.astype(int), axis=0)
        theirs = em(repeated)
        noise = 1.0 / np.sqrt(len(X))
        np.testing.assert_allclose(mean, theirs[0], atol=0.2 * noise * np.sqrt(S.max()))
        np.testing.assert_allclose(S, theirs[1], atol=0.2 * noise * S.max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_parts_have_the_bytes_of_the_whole(dtype):
    X = rows(dtype=dtype)
    phi = sl.design(X[:1000], task="pca", missing="em", bounds=(np.full(5, -9.0), np.full(5, 15.0)))
    whole = sl.sketch(X, phi)
    order = np.random.default_rng(1).permutation(len(X))
    cuts = np.split(X[order], [1, 7, 900, 2000])
    assert sl.merge([sl.sketch(part, phi, workers=1) for part in cuts]).to_bytes() == whole.to_bytes()
    assert (whole - sl.sketch(X[:500], phi)).sums.tobytes() == sl.sketch(X[500:], phi).sums.tobytes()
    assert sl.sketch(X, phi, group_by=np.arange(len(X)) % 7).union() == whole
    weights = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = sl.sketch(X, phi, sample_weight=weights.astype(float))
    assert weighted.sums.tobytes() == sl.sketch(np.repeat(X, weights, axis=0), phi).sums.tobytes()
    half = sl.sketch(X, phi, sample_weight=weights / 2)
    np.testing.assert_allclose(half.mean, weighted.mean, rtol=1e-12)
    assert sl.Sketch.from_bytes(whole.to_bytes()) == whole
    merged = sl.CompressiveLinearRegression().fit_sketch(sl.merge([sl.sketch(part, phi) for part in cuts]))
    np.testing.assert_array_equal(merged.coef_, sl.CompressiveLinearRegression().fit_sketch(whole).coef_)


def test_a_map_is_its_recipe():
    X = rows(500, 9)
    phi = sl.design(X, task="pca", missing="em").with_columns(list("abcdefghi"))
    for again in (
        pickle.loads(pickle.dumps(phi)),
        sl.FeatureMap.from_recipe(json.loads(phi.recipe_json())),
        sl.Sketch.from_bytes(sl.sketch(X, phi).to_bytes()).features,
    ):
        assert again == phi
        assert sl.sketch(X, again) == sl.sketch(X, phi)
    other = sl.design(X[:400], task="pca", missing="em").with_columns(list("abcdefghi"))
    with pytest.raises(sl.IncompatibleSketchError, match="other values of center, covariance, mean, patterns"):
        sl.sketch(X, phi) + sl.sketch(X, other)


def test_other_recipes_are_refused():
    recipe = sl.design(rows(), task="pca", missing="em").recipe()
    gaps = recipe["patterns"]
    negative = sl.CompletedFeatures.draw(np.zeros(5), np.eye(5), Patterns.of(rows())).recipe()["covariance"]
    for change in (
        {"size": 5}, {"radius": -1.0}, {"center": None}, {"mean": 3}, {"covariance": recipe["mean"]}, {"variant": 1},
        {"patterns": None}, {"patterns": {**gaps, "counts": gaps["counts"][1:]}}, {"patterns": {**gaps, "more": 1}},
        {"patterns": {**gaps, "counts": [0] * len(gaps["counts"])}},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"size|products|radius|center|fields|mean|covariance|patterns"):
            sl.FeatureMap.from_recipe({**recipe, **change})
    assert sl.FeatureMap.from_recipe({**recipe, "covariance": negative}).dim == 5
    with pytest.raises(ValueError, match="positive definite"):
        sl.CompletedFeatures.draw(np.zeros(5), -np.eye(5), Patterns.of(rows()))
    with pytest.raises(ValueError, match="symmetric"):
        sl.CompletedFeatures.draw(np.zeros(5), np.triu(np.ones((5, 5))), Patterns.of(rows()))
    with pytest.raises(ValueError, match="patterns are for 5 columns"):
        sl.CompletedFeatures.draw(np.zeros(2), np.eye(2), Patterns.of(rows()))


def test_impossible_sums_are_refused():
    from dataclasses import replace

    s = sl.sketch(rows(100), sl.design(rows(), task="pca", missing="em", bounds=(np.zeros(5), np.full(5, 9.0))))
    sums = s.sums.copy()
    sums[-6] += 100 * 2**30
    with pytest.raises(SketchFileError, match="what rows miss would vary more than the columns do"):
        sl.Sketch.from_bytes(replace(s, sums=sums).to_bytes())
    sums = s.sums.copy()
    sums[-1] = 101
    with pytest.raises(SketchFileError, match="more rows would hold a column than there are"):
        sl.Sketch.from_bytes(replace(s, sums=sums).to_bytes())


@pytest.mark.parametrize("kind", ["factors", "collinear", "heavy"])
@pytest.mark.parametrize("given", ["nothing", "a column"])
def test_components_and_regression_are_those_of_an_em_on_the_rows(kind, given, monkeypatch):
    """12 000 rows and a pilot of 1500: within 1 % of an EM where pairs are up to many times worse."""
    monkeypatch.setattr("sketchlearn.sources.pilot.GAP_ROWS", 1500)
    rng = np.random.default_rng(3)
    n, d = 12_000, 6
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) * 1.5 + rng.normal(size=(n, d))
    if kind == "heavy":
        X /= np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)
    if kind == "collinear":  # correlations of 0.99
        X = rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, d))
        X[:, -1] = X[:, :-1] @ rng.normal(size=d - 1) + 0.1 * rng.normal(size=n)
    true = np.cov(X.T)
    holed = holes(X, 0.2, rng)
    if given == "a column":
        gone = (rng.random(X.shape) < 0.4) & (X[:, :1] > 0)
        gone[:, 0] = False
        holed = np.where(gone, np.nan, X)
    theirs = em(holed)[1]
    pca = sl.CompressivePCA(2, missing="em").fit(holed)
    np.testing.assert_allclose(pca.explained_variance_, np.linalg.eigvalsh(theirs)[::-1][:2], rtol=0.03)
    held = np.trace(pca.components_ @ true @ pca.components_.T)
    assert held > 0.999 * captured(theirs, 2, true)
    reg = sl.CompressiveLinearRegression(missing="em").fit(holed[:, :-1], holed[:, -1])
    assert left(true, reg.coef_) < 1.01 * left(true, coefficients(theirs))
    assert reg.reliable_
    assert "those of an EM on the rows" in reg.verdict_


def test_real_rows_are_within_a_hundredth_of_an_em():
    """Ten columns that are nearly collinear."""
    X = sl.datasets.load_table("breast-cancer", standardize=True).rows[:, :10]
    X = X - X.mean(0)
    true, holed = X.T @ X / len(X), holes(X, 0.2, np.random.default_rng(5))
    s = sl.sketch(holed, sl.design(holed, task="regression", missing="em"))
    theirs = em(holed, 400)[1]
    assert left(true, coefficients(matrix(s))) < 1.01 * left(true, coefficients(theirs))
    assert captured(matrix(s), 3, true) > 0.999 * captured(theirs, 3, true)


def test_errors_cover_what_gaps_leave_uncertain():
    """Intervals from 60 tables, with a constant and without."""
    rng = np.random.default_rng(3)
    S = 0.2 * np.eye(4) + 0.8
    inside, through = [], []
    for _ in range(60):
        X = holes(rng.normal(size=(1000, 4)) @ np.linalg.cholesky(S).T, 0.3, rng)
        fit = sl.CompressiveLinearRegression(missing="em").fit(X[:, :3], X[:, 3])
        off, errors = np.append(fit.coef_ - coefficients(S), fit.intercept_), fit.standard_errors_
        inside.append(np.abs(off) < 1.96 * np.append(errors, fit.intercept_standard_error_))
        fit = sl.CompressiveLinearRegression(missing="em", fit_intercept=False).fit(X[:, :3], X[:, 3])
        through.append(np.abs(fit.coef_ - coefficients(S)) < 1.96 * fit.standard_errors_)
    # 240 and 180 intervals, three and four to a table: standard error below 0.025
    assert 0.90 < np.mean(inside) < 0.995
    assert 0.90 < np.mean(through) < 0.995


def test_complete_rows_are_as_all_products():
    X = rows(share=0.0)
    a = sl.sketch(X, sl.design(rows()[:500], task="regression", missing="em"))
    b = sl.sketch(X, sl.design(X, task="regression"))
    np.testing.assert_allclose(matrix(a), matrix(b), rtol=1e-8, atol=1e-10)
    one, other = (sl.CompressiveLinearRegression().fit_sketch(s) for s in (a, b))
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-7)


def test_collinear_and_constant_columns_are_told():
    X = rows(2000, 4, share=0.0)
    X = np.column_stack([X[:, 0], X[:, 0] + X[:, 1], X[:, 1], np.full(len(X), 7.0), X[:, 2]])
    holed = holes(X, 0.2, np.random.default_rng(1))
    s = sl.sketch(holed, sl.design(holed, task="regression", missing="em"))
    S, true = matrix(s), np.cov(X.T, ddof=0)
    np.testing.assert_allclose(S, true, atol=0.15 * true.max())
    null = np.array([1.0, -1.0, 1.0, 0.0, 0.0])
    assert null @ S @ null < 1e-5 * true.max()
    with pytest.warns(LinAlgWarning, match="vary in 2 of 4 directions"):
        fit = sl.CompressiveLinearRegression().fit_sketch(s)
    assert abs(fit.coef_[3]) == 0.0
    assert not fit.reliable_


def test_what_can_not_be_done_is_said():
    X = rows()
    phi = sl.design(X, task="pca", missing="em", bounds=(np.zeros(5), np.ones(5)))
    with pytest.raises(TypeError, match="no sensitivity is known of completed features"):
        sl.privatize(sl.sketch(X, phi), epsilon=1.0, public_map=True)
    with pytest.raises(ValueError, match="can't be projected"):
        phi.with_projection(sl.Projection.draw(dim=20, size=5))
    with pytest.raises(ValueError, match="missing='em' is for the tasks pca, regression, cca"):
        sl.design(X, task="kmeans", missing="em")
    with pytest.raises(ValueError, match="fills gaps as a sample of rows says: give one, or use missing='pairs'"):
        sl.design(task="pca", missing="em", bounds=(np.zeros(5), np.ones(5)))
    with pytest.raises(ValueError, match="can't be combined with a projection, standardize or an encoder"):
        sl.design(X, task="pca", missing="em", standardize=True)
    with pytest.raises(ValueError, match="leave out size"):
        sl.design(X, task="pca", missing="em", size=4)
    apart = X.copy()
    apart[::2, 0], apart[1::2, 1] = np.nan, np.nan
    with pytest.raises(
        ValueError, match="0 of 3000 pilot rows hold both column 0 and column 1, and for 5 columns 15 are"
    ):
        sl.design(apart, task="pca", missing="em")
    with pytest.raises(ValueError, match=r"rows hold both column .*design from more rows"):
        sl.CompressivePCA(1, missing="em").fit(X[:8])
    infinite = X.copy()
    infinite[2, 1] = np.inf
    with pytest.raises(ValueError, match="row 2"):
        sl.sketch(infinite, phi)
    assert sl.sketch(infinite, phi, on_invalid="skip").skipped == 1


def test_a_column_without_entries_is_named_when_it_is_needed():
    X = rows()
    phi = sl.design(X, task="pca", missing="em").with_columns(["a", "b", "c", "d", "e"])
    empty = X.copy()
    empty[:, 1] = np.nan
    part = sl.sketch(empty, phi)
    assert sl.Sketch.from_bytes(part.to_bytes()) == part
    with pytest.raises(ValueError, match="b holds nothing: its covariances are not known"):
        sl.CompressivePCA(1).fit_sketch(part)
    assert sl.CompressivePCA(1).fit_sketch(part + sl.sketch(X, phi)).reliable_


def test_canonical_correlations_and_sources():
    X = rows(5000, 6)
    both = sl.CompressiveCCA(1, missing="em").fit(X[:, :3], X[:, 3:])
    S = em(X)[1]
    a, b = (np.linalg.inv(np.linalg.cholesky(S[at, at])) for at in (slice(0, 3), slice(3, 6)))
    assert abs(both.correlations_[0] - np.linalg.svd(a @ S[:3, 3:] @ b.T)[1][0]) < 0.005
    names = [f"c{j}" for j in range(6)]
    table = pa.table({name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate(names)})
    from_table, here = (sl.CompressivePCA(2, missing="em").fit(data) for data in (table, X))
    np.testing.assert_allclose(from_table.components_, here.components_, atol=1e-6)
    again = sl.CompressivePCA(2, missing="em").partial_fit(X[:2000]).partial_fit(X[2000:])
    np.testing.assert_allclose(np.abs(again.components_), np.abs(from_table.components_), atol=5e-3)


def test_parts_may_have_other_shares_of_gaps_than_the_pilot():
    """A pilot of one site with few gaps, and sites with many, in other columns."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20_000, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(20_000, 5))
    holed = np.where(rng.random(X.shape) < [0.4, 0.1, 0.3, 0.0, 0.2], np.nan, X)
    phi = sl.design(holes(X[:3000], 0.1, rng), task="pca", missing="em")
    s = sl.sketch(holed, phi)
    np.testing.assert_allclose(phi.held(s.sums, float(s.weight)), 1.0 - np.isnan(holed).mean(0), atol=1e-12)
    theirs, true = em(holed)[1], np.cov(X.T)
    np.testing.assert_allclose(matrix(s), theirs, atol=5e-3 * theirs.max())
    assert left(true, coefficients(matrix(s))) < 1.003 * left(true, coefficients(theirs))


def test_a_column_that_is_constant_in_the_pilot_may_vary_later():
    rng = np.random.default_rng(6)
    X = rng.normal([0.0, 0.0, 3.0, 0.0], size=(3000, 4))
    pilot, later = X.copy(), holes(X, 0.2, rng)
    pilot[:, 2] = 3.0
    s = sl.sketch(later, sl.design(holes(pilot, 0.2, rng)[:1000], task="pca", missing="em"))
    np.testing.assert_allclose(matrix(s), em(later)[1], atol=0.05)
