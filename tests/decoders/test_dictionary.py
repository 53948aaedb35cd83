"""Dictionaries: recovery of more atoms than columns, claimed errors, counts of atoms that are wrong, verdicts."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import orthogonal_mp

import sketchlearn as sl
from sketchlearn.decoders.dictionary import _descended, _slopes, most_atoms
from sketchlearn.decoders.ica import CumulantMetric
from sketchlearn.models.dictionary import sparse_codes


def sparse(n=50_000, d=6, k=9, share=0.15, noise=0.05, seed=0):
    """Rows of few atoms each, and the atoms."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(k, d))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    a = rng.normal(size=(n, k)) * (rng.random((n, k)) < share)
    return a @ D + noise * rng.normal(size=(n, d)) + 3.0, D


def distances(found, true):
    cosines = np.abs(found @ true.T)
    at = linear_sum_assignment(-cosines)
    return np.sqrt(np.maximum(2.0 - 2.0 * cosines[at], 0.0))


def decoded(X, k, **options):
    s = sl.sketch(X, sl.design(X[:2000], task="dictionary", n_components=k))
    return sl.decode(s, k, task="dictionary", random_state=0, **options)


def test_slopes_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    V, atoms, step = rng.normal(size=(20, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    difference = [((V @ (atoms + sign * 1e-5 * step).T) ** 4).sum(1) for sign in (1, -1)]
    np.testing.assert_allclose(_slopes(V, atoms) @ step.ravel(), (difference[0] - difference[1]) / 2e-5, rtol=1e-6)


def test_exact_cumulants_give_exact_atoms():
    rng = np.random.default_rng(1)
    V, atoms = rng.normal(size=(60, 4)), rng.normal(size=(5, 4))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    near = atoms + 0.02 * rng.normal(size=atoms.shape)
    found = _descended(((V @ atoms.T) ** 4).sum(1), V, near, CumulantMetric(V, None))
    np.testing.assert_allclose(found.atoms, atoms, atol=1e-6)


def test_codes_are_those_of_matching_pursuit():
    X, D = sparse(200, seed=1)
    expected = orthogonal_mp(D.T, X.T, n_nonzero_coefs=3).T
    np.testing.assert_allclose(sparse_codes(X, D, 3), expected, atol=1e-8)


def test_more_atoms_than_columns_are_found_and_their_errors_known():
    for seed, k in ((2, 9), (3, 8), (4, 5)):
        X, D = sparse(k=k, seed=seed)
        found = decoded(X, k)
        assert found.reliable, found.verdict
        off = distances(found.components, D)
        assert off.max() < 0.25  # a cosine of 0.97
        assert (off < 4.0 * found.errors.max()).all()
        np.testing.assert_allclose(found.mean, 3.0, atol=0.05)
        np.testing.assert_allclose(found.variances, 0.15, rtol=0.3)
        assert found.n_nonzero == np.ceil(0.15 * k)


def test_the_number_of_atoms_is_checked():
    X, _ = sparse(seed=2)
    fewer = decoded(X, 7)
    assert str(fewer.code) == "misfit"
    assert fewer.ratio > 2.5
    for seed, words in ((2, "9 atoms explain"), (3, "does not determine atom 10")):
        more = decoded(sparse(seed=seed)[0], 10)
        assert str(more.code) == "undetermined"
        assert words in more.verdict


def test_normal_rows_have_no_atoms():
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    assert str(decoded(X, 3).code) == "undetermined"


def test_how_many_atoms_a_sketch_determines():
    assert most_atoms(1000, 6) == 20  # 126 numbers of a quartic form
    X = sparse(3000, seed=0)[0]
    with pytest.raises(ValueError, match="at most 20 atoms"):
        decoded(X, 21)
    with sl.decoding_budget(0.001), pytest.raises(ValueError, match="budget"):
        decoded(X, 9)
    with pytest.raises(TypeError, match="quartic"):
        sl.decode(sl.sketch(X, sl.QuadraticFeatures.draw(dim=6)), 1, task="dictionary")
    with pytest.raises(ValueError, match="pilot"):
        sl.design(dim=4, task="dictionary")
    s = sl.sketch(np.ones((100, 6)), sl.QuarticFeatures.draw(dim=6, size=120))
    assert not sl.decode(s, 2, task="dictionary").reliable
