"""Independent components: noise of cumulants by simulation, exact recovery, outliers, normal sources, verdicts."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.ica import cumulant_covariance, source_moments


def mixed(n, d, seed, outliers=0.0):
    """Sources, half flat and half peaked, mixed at random."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    flat = rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d // 2))
    S = np.concatenate([flat, rng.laplace(size=(n, d - d // 2)) / np.sqrt(2)], axis=1)
    X = S @ A.T + rng.normal(size=d)
    X[rng.random(n) < outliers] *= 20.0
    return X, A


def amari(P):
    """How far a matrix is from one entry per row and column, between 0 and 1."""
    P = np.abs(P)
    d = len(P)
    rows, columns = (P / P.max(1, keepdims=True)).sum(1) - 1, (P / P.max(0)).sum(0) - 1
    return (rows.sum() + columns.sum()) / (2 * d * (d - 1))


def decoded(X, **options):
    s = sl.sketch(X, sl.design(X[:2000], task="ica"))
    return sl.decode(s, X.shape[1], task="ica", random_state=0, **options)


# -- noise -------------------------------------------------------------------------------------------


def test_moments_of_sources():
    found = np.array(source_moments(np.array([-1.2, 0.0, 3.0])))
    np.testing.assert_allclose(found[:, 0], [9 / 5, 27 / 7, 9.0], rtol=0.01)  # uniform, where the family ends
    np.testing.assert_allclose(found[:, 1:], [[3, 6], [15, 90], [105, 2520]], rtol=1e-3)


def test_the_covariance_of_cumulants_is_that_of_simulated_rows():
    rng = np.random.default_rng(0)
    n, repeats = 400, 1500
    V = rng.normal(size=(6, 3))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    kurtosis = np.array([-1.2, 3.0, 0.0])
    residuals = []
    for _ in range(repeats):
        S = np.column_stack(
            [rng.uniform(-np.sqrt(3), np.sqrt(3), n), rng.laplace(size=n) / np.sqrt(2), rng.normal(size=n)]
        )
        p = (S - S.mean(0)) @ V.T
        values, vectors = np.linalg.eigh(np.cov(S.T, bias=True))
        seen = V @ (vectors * np.sqrt(values)) @ vectors.T  # the model, with the sample covariance
        residuals.append((p**4).mean(0) - 3 * (p**2).mean(0) ** 2 - seen**4 @ kurtosis)
    expected = cumulant_covariance(V, kurtosis)
    found = np.cov(np.array(residuals).T) * n
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # entries have a standard error of about (1 + tails) / sqrt(repeats); finite rows add a bias of order 1 / n
    np.testing.assert_allclose(found / scale, expected / scale, atol=0.25)
    normal = cumulant_covariance(V, np.zeros(3))
    np.testing.assert_allclose(normal, 24.0 * (V @ V.T) ** 4, rtol=1e-3)
    values = np.linalg.eigvalsh(cumulant_covariance(rng.normal(size=(40, 3)), kurtosis))
    assert values[0] > -1e-9 * values[-1]


# -- recovery ----------------------------------------------------------------------------------------


def test_sources_are_separated_and_the_leakage_is_what_it_says():
    found = [decoded(X) for X, _ in (mixed(20_000, 6, seed) for seed in range(4))]
    errors = []
    for seed, solution in enumerate(found):
        P = solution.components @ mixed(1, 6, seed)[1]
        assert solution.reliable, solution.verdict
        assert solution.n_sources == 6
        assert amari(P) < 0.012
        P /= np.abs(P).max(1, keepdims=True)
        errors.append(np.sqrt((np.sum(P**2) - 6) / 30))
    assert 0.5 < np.mean(errors) / np.mean([s.leakage for s in found]) < 2.0
    kurtosis, std = found[0].kurtosis, found[0].kurtosis_std
    assert (np.abs(kurtosis[:3]) > np.abs(kurtosis[3:])).all()  # peaked ones first
    np.testing.assert_allclose(kurtosis[3:], -1.2, atol=6 * std.max())


def test_better_than_equal_weights():
    """Fourth cumulants weighted by what they are worth, against the fixed points of the cubic contrast on rows."""
    from sklearn.decomposition import FastICA

    ours, theirs = [], []
    for seed in range(3):
        X, A = mixed(20_000, 6, 10 + seed)
        ours.append(amari(decoded(X).components @ A))
        cube = FastICA(6, whiten="unit-variance", fun="cube", random_state=0).fit(X)
        theirs.append(amari(cube.components_ @ A))
    assert np.median(ours) < np.median(theirs)


def test_outliers_are_clipped():
    X, A = mixed(20_000, 5, 3, outliers=0.001)
    assert amari(decoded(X).components @ A) < 0.05
    X[0] *= 1e9
    assert amari(decoded(X).components @ A) < 0.05


def test_affine_maps_change_nothing():
    X, _ = mixed(5000, 3, 4)
    B = np.array([[1.0, 0.3, 0.0], [0.0, 2.0, 0.1], [0.5, 0.0, 100.0]])
    one, other = decoded(X), decoded(X @ B.T - 9.0)
    a, b = (X - one.mean) @ one.components.T, (X @ B.T - 9.0 - other.mean) @ other.components.T
    np.testing.assert_allclose(np.abs(np.corrcoef(a.T, b.T)[:3, 3:].diagonal()), 1.0, atol=1e-3)


def test_a_map_without_a_pilot_finds_them_too():
    rng = np.random.default_rng(5)
    A = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    X = rng.uniform(-1.7, 1.7, (10_000, 4)) @ A.T
    found = sl.decode(sl.sketch(X, sl.QuarticFeatures.draw(dim=4, size=80)), 4, task="ica", random_state=0)
    assert amari(found.components @ A) < 0.02


def test_collinear_columns_have_fewer_sources():
    X, _ = mixed(5000, 3, 6)
    found = decoded(np.column_stack([X, X[:, 0] + X[:, 1], np.full(5000, 3.0)]))
    assert found.components.shape == (3, 5)
    assert found.n_sources == 3


# -- verdicts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("normal", "code"), [(1, "reliable"), (2, "undetermined"), (3, "undetermined")])
def test_normal_sources_are_counted(normal, code):
    rng = np.random.default_rng(7)
    S = np.column_stack([rng.uniform(-1, 1, (20_000, 3 - normal)), rng.normal(size=(20_000, normal))])
    found = decoded(S @ rng.normal(size=(3, 3)))
    assert found.n_sources == 3 - normal
    assert str(found.code) == code


def test_dependent_sources_are_a_misfit():
    rng = np.random.default_rng(8)
    X = rng.laplace(size=(20_000, 3)) * np.sqrt(rng.chisquare(3, size=(20_000, 1)))
    trace = decoded(X, trace=True)
    assert str(trace.code) == "misfit"
    assert len(trace.trace[0]["rounds"]) == 10
    assert trace.ratio > 2.5


def test_bad_sketches_are_refused():
    X = np.zeros((10, 4))
    with pytest.raises(TypeError, match="quartic"):
        sl.decode(sl.sketch(X, sl.QuadraticFeatures.draw(dim=4)), 1, task="ica")
    with pytest.raises(ValueError, match="too few"):
        sl.decode(sl.sketch(X, sl.QuarticFeatures.draw(dim=4, size=12)), 1, task="ica")
    with pytest.raises(ValueError, match="pilot"):
        sl.design(dim=4, task="ica")
