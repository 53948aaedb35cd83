"""Non-negative components: recovery, errors, what is not determined, real rows beside a factorisation of the rows."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, nnls
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import sketchlearn as sl
from sketchlearn.decoders.nmf import _span
from sketchlearn.models.nmf import nonnegative_codes


def factored(n=10_000, d=30, k=4, noise=0.1, zeros=0.6, seed=0):
    """Sparse combinations of components with some zeros, and noise of each column."""
    rng = np.random.default_rng(seed)
    W = rng.exponential(size=(k, d)) * (rng.random((k, d)) >= zeros)
    X = rng.exponential(size=(n, k)) * (rng.random((n, k)) < 0.7) @ W
    return X + noise * rng.normal(size=(n, d)) * rng.uniform(0.5, 1.5, d), W


def distances(found, true):
    """Of components and true ones of length 1, matched."""
    a, b = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) for x in (found, true))
    at = linear_sum_assignment(-a @ b.T)
    return np.linalg.norm(a[at[0]] - b[at[1]], axis=1)


def decoded(X, k, **options):
    s = sl.sketch(X, sl.design(X[:1000], task="nmf"))
    return sl.decode(s, k, task="nmf", random_state=0, **options)


def left(components, X):
    return float(((X - nonnegative_codes(X, components) @ components) ** 2).sum())


def test_codes_are_those_of_nnls():
    rng = np.random.default_rng(0)
    W, X = rng.random((6, 10)), rng.normal(size=(200, 10)) + 0.3
    W[5] = W[4]  # of which any share of both is right
    found = nonnegative_codes(X, W)
    errors = [nnls(W.T, x)[1] for x in X]
    np.testing.assert_allclose(np.linalg.norm(X - found @ W, axis=1), errors, rtol=1e-8)
    assert (nonnegative_codes(X, np.zeros((2, 10))) == 0).all()


def test_components_are_found_and_their_errors_known():
    for seed in range(4):
        X, W = factored(seed=seed)
        found = decoded(X, 4)
        assert found.reliable, found.verdict
        errors = distances(found.components, W)
        assert errors.max() < 0.03
        # what is claimed holds the errors of all entries: three of these are hardly ever exceeded
        assert (errors < 3.0 * found.errors.max()).all()


def test_they_add_up_to_the_mean_and_reconstruct_as_well_as_those_of_rows():
    X, _ = factored(11_000, noise=0.3, seed=5)
    X, new = X[:10_000], X[10_000:]
    found = decoded(X, 4)
    np.testing.assert_allclose(found.components.sum(0), X.mean(0), atol=0.02 * X.mean())
    peer = NMF(4, init="nndsvda", max_iter=300).fit(np.maximum(X[:1000], 0.0))
    assert left(found.components, new) < 1.01 * left(peer.components_, new)
    assert 0.8 < found.reconstruction_err**2 / left(found.components, X) < 1.0 + 1e-6  # what no coefficients explain


def test_the_misfit_is_chi_squared_for_any_coefficients():
    misfits = []
    for seed in range(20):
        X, _ = factored(2000, d=12, k=2, noise=0.5, seed=seed)
        span = _span(X.T @ X / len(X), 2, len(X), np.zeros((12, 12)))
        misfits.append(span.misfit / span.floor)
    # 43 degrees of freedom: the mean of 20 has a standard error of sqrt(2 / 43 / 20)
    assert abs(np.mean(misfits) - 1.0) < 4.0 * np.sqrt(2.0 / 43.0 / 20.0)


def test_components_without_zeros_are_not_determined():
    rng = np.random.default_rng(1)
    W = rng.uniform(0.5, 1.5, (3, 20))
    X = rng.exponential(size=(10_000, 3)) @ W + 0.1 * rng.normal(size=(10_000, 20))
    found = decoded(X, 3)
    assert str(found.code) == "undetermined"
    assert "zeros" in found.verdict
    assert distances(found.components, W).max() > 0.1


def test_a_misfit_is_named_and_rows_are_reconstructed():
    X = load_digits().data
    order = np.random.default_rng(0).permutation(len(X))
    X, new = X[order[:1200]], X[order[1200:]]
    found = decoded(X, 6)
    assert (str(found.code), found.decoder) == ("misfit", "draws")
    peer = NMF(6, init="nndsvda", max_iter=200, tol=1e-3).fit(X)
    assert left(found.components, new) < 1.06 * left(peer.components_, new)
    cone = decoded(X, 6, decoder="cone")
    assert left(cone.components, new) > left(found.components, new)
    assert [stage["stage"] for stage in found.trace] == ["span", "draws"]


def test_too_many_and_too_few():
    X, _ = factored(500, d=6, k=2, noise=0.0, zeros=0.4, seed=2)
    more = decoded(X, 3)
    assert str(more.code) == "undetermined"
    assert "2 directions" in more.verdict
    assert (more.components.any(1)).sum() == 2
    assert "nothing tests it" in decoded(factored(500, d=4, k=2, seed=3)[0], 2).verdict
    assert "too few rows" in decoded(factored(20, d=20, k=2, seed=3)[0], 2).verdict
    with pytest.raises(ValueError, match="between 1 and n_features=6"):
        decoded(X, 7)
    with pytest.raises(TypeError, match="all products"):
        sl.decode(sl.sketch(X, sl.QuadraticFeatures.draw(dim=6, size=4)), 1, task="nmf")
    assert str(decoded(np.full((50, 3), 2.0), 1).code) == "undetermined"
    assert str(decoded(np.zeros((50, 3)), 1).code) == "undetermined"
    assert not decoded(np.random.default_rng(0).normal(size=(500, 5)) - 3.0, 2).reliable


def test_units_of_columns_change_units_of_components():
    X, _ = factored(seed=7)
    units = 10.0 ** np.linspace(-3, 3, X.shape[1])
    one, other = decoded(X, 4), decoded(X * units, 4)
    both = [each.components / np.array([1.0, units][i]) for i, each in enumerate((one, other))]
    assert distances(*both).max() < 1e-3


def test_missing_entries_and_releases():
    X, W = factored(20_000, d=16, k=3, noise=0.2, seed=8)
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    errors = {}
    for missing in ("em", "pairs"):
        found = sl.CompressiveNMF(3, missing=missing, random_state=0).fit(gaps)
        errors[missing] = found.errors_.max()
        assert distances(found.components_, W).max() < 3.0 * errors[missing]
        assert found.solution_.ratio < 2.5
    assert errors["em"] < errors["pairs"] < 0.2
    phi = sl.design(bounds=(np.zeros(16), np.full(16, 20.0)), task="nmf")
    s = sl.sketch(X, phi)
    exact, noisy = (sl.decode(each, 3, task="nmf", random_state=0) for each in (s, sl.privatize(s, 3.0, 1e-6)))
    assert exact.ratio < 2.5
    assert "noise of the release" in noisy.verdict
    assert np.isfinite(noisy.components).all()
