"""Noise of a symmetric matrix: its law, how it is rounded, and what a row can move."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import sketchlearn as sl
from sketchlearn.privacy import InsecureNoiseWarning, insecure_noise, matrices, privatize
from sketchlearn.privacy.mechanism import choose_mechanism
from sketchlearn.privacy.sensitivity import row_bounds


def test_of_one_column_it_is_laplace_noise():
    """scale (Y'Y - Z'Z) of two normal variables each is the difference of two exponential ones of mean 2 scale."""
    drawn = matrices.draw(20_000, 1, 1000.0).ravel()
    assert stats.kstest(drawn / 2000.0, "laplace").pvalue > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 5])
def test_variances_and_the_law_of_a_diagonal_entry(dim):
    n = 8000 // dim
    drawn = matrices.draw(n, dim, 1e8) / 1e8
    squares, products = matrices.variances(dim, 1.0)
    i, j = np.triu_indices(dim, 1)
    # the kurtosis of these laws is below 9: relative standard error of a variance sqrt(8 / n)
    assert np.var(drawn[:, 0, 0]) == pytest.approx(squares, rel=5 * math.sqrt(8 / n))
    assert np.var(drawn[:, i, j]) == pytest.approx(products, rel=5 * math.sqrt(8 / n))
    chi = stats.chi2(dim + 1).rvs(size=(2, 100_000), random_state=0)
    assert stats.ks_2samp(drawn[:, 1, 1], chi[0] - chi[1]).pvalue > 1e-6
    seen = np.mean(drawn[:, 0, 0] > matrices.count_tail(dim, 1.0, 0.02))
    assert seen <= 0.02


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_density_is_that_of_the_proof(dim):
    """Where no eigenvalue is positive the integral of the proof is constant: the density is exp(tr W / (2 scale))."""
    drawn = matrices.draw(2000, dim, 1e8) / 1e8
    negative = drawn[np.linalg.eigvalsh(drawn)[:, -1] < 0]
    assert len(negative) > 5
    traces = -np.trace(negative, axis1=1, axis2=2)
    assert stats.kstest(traces, stats.chi2(dim * (dim + 1)).cdf).pvalue > 1e-6


def test_no_event_is_told_apart_by_more_than_the_trace():
    """Log ratios of probabilities of events with and without a row; where W is negative definite the bound is met."""
    rng = np.random.default_rng(0)
    n, dim = 400_000, 2
    z = rng.normal(size=(n, 2 * (dim + 1), dim))
    signs = np.repeat([1.0, -1.0], dim + 1)
    noise = (np.swapaxes(z, 1, 2) * signs) @ z
    row = np.array([0.9, 0.5])
    bound = 0.5 * float(row @ row)

    def events(M):
        values = np.linalg.eigvalsh(M)
        along = np.einsum("nij,i,j->n", M, row, row)
        return [values[:, 1] < 0, values[:, 0] > 1, values[:, 1] < 2, M[:, 0, 1] > 2, along > 3, along < -3,
                values[:, 1] - values[:, 0] < 2]  # fmt: skip

    ratios = []
    for without, with_row in zip(events(noise), events(noise + np.outer(row, row)), strict=True):
        error = 5.0 * math.sqrt(1.0 / without.sum() + 1.0 / with_row.sum())
        ratios.append(math.log(with_row.mean() / without.mean()))
        assert abs(ratios[-1]) <= bound + error
    assert ratios[0] == pytest.approx(-bound, abs=0.04)  # 5 standard errors


def test_noise_that_would_not_fit_is_never_chosen():
    """Before anything is charged: where matrix noise could leave int64 it is no option."""
    bounds = row_bounds(sl.QuadraticFeatures.draw(dim=100, radius=1.0))
    chosen = choose_mechanism(bounds, 5050, 1e-4)
    assert chosen.name == "matrix-laplace"
    assert matrices.draw(1, 101, chosen.scale).shape == (1, 101, 101)
    assert choose_mechanism(bounds, 5050, 1.3e-5).name == "discrete-laplace"
    with pytest.raises(OverflowError, match="does not fit 64-bit sums"):
        choose_mechanism(bounds, 5050, 1e-6)
    with pytest.raises(OverflowError, match="does not fit 64-bit sums"):
        matrices.draw(1, 101, 2.0**46)


def test_normal_variables_are_known_to_two_units():
    for pair in matrices._accepted(200):
        coarse, fine = pair.normals(40), pair.normals(160)
        for a, b in zip(coarse, fine, strict=True):
            assert abs(a * 2**120 - b) < 2 * 2**120 + 2
    normal = np.array([pair.normals(60) for pair in matrices._accepted(5000)], float).ravel() * 2.0**-60
    assert stats.kstest(normal, "norm").pvalue > 1e-6


def test_rounding_is_that_of_real_numbers():
    """More bits of the same uniform numbers change no entry; too few are noticed."""
    pairs = matrices._accepted(36)
    signs = np.repeat([1.0, -1.0], 4)
    unknown = 0
    for scale in (Fraction(10**6), Fraction(3**30, 7)):
        for bits in (24, 30, 44, 88, 200):
            normal = np.array([z for pair in pairs for z in pair.normals(bits)], object)[: 3 * 8 * 3].reshape(3, 8, 3)
            found = matrices._rounded(normal, signs, bits, scale)
            if found is None:
                unknown += 1
                continue
            fine = np.array([z for pair in pairs for z in pair.normals(300)], object)[: 3 * 8 * 3].reshape(3, 8, 3)
            whole = np.einsum("nri,r,nrj->nij", fine, signs.astype(int).astype(object), fine)
            exact = [[[math.floor(scale * Fraction(v, 4**300) + Fraction(1, 2)) for v in r] for r in m] for m in whole]
            assert (found == np.array(exact)).all()
    assert 0 < unknown < 8


def test_no_row_moves_the_matrix_by_more_than_its_trace():
    rng = np.random.default_rng(0)
    for d in (2, 7):
        phi = sl.QuadraticFeatures.draw(dim=d, radius=1.0)
        reach = row_bounds(phi).matrix
        rows = rng.normal(size=(400, d))
        rows *= rng.uniform(0.5, 3.0, size=(400, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.vstack([rows, np.eye(d), -np.eye(d), np.ones((1, d))])
        for row in rows:
            sums = sl.sketch(row[None], phi).sums
            r = sums[phi.size :]
            products = np.zeros((d, d), np.int64)
            products[np.triu_indices(d)] = sums[: phi.size]
            assert (products[np.triu_indices(d)] == np.outer(r, r)[np.triu_indices(d)]).all()  # of rank one
            assert int(r @ r) + reach.constant**2 <= reach.trace
        assert reach.moved("replace-one", 3) == 6 * reach.trace


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_releases_of_products_say_their_noise(relation):
    rng = np.random.default_rng(1)
    X = 0.3 * rng.normal(size=(5000, 6))
    phi = sl.QuadraticFeatures.draw(dim=6, radius=1.0)
    exact = sl.sketch(X, phi)
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0), pytest.warns(sl.privacy.RepeatedReleaseWarning):
        many = [privatize(exact, 1.0, relation=relation, public_map=True) for _ in range(300)]
    record = many[0].privacy
    assert record.mechanism == "matrix-laplace"
    assert record.delta == 0.0
    off = np.array([s.sums - exact.sums for s in many], float)
    np.testing.assert_allclose(off.var(0) / record.variances_of_sums(), 1.0, atol=5 * math.sqrt(8 / 300))
    counts = np.array([s.count for s in many]) - 5000.0
    if relation == "add-remove":
        assert counts.var() == pytest.approx(record.weight_variance, rel=5 * math.sqrt(8 / 300))
    else:
        assert not counts.any()
    assert sl.Sketch.from_bytes(many[0].to_bytes()) == many[0]


def test_matrix_noise_is_the_least_from_two_columns_on():
    for d, name in ((1, "discrete-laplace"), (2, "matrix-laplace"), (50, "matrix-laplace"), (600, "discrete-laplace")):
        phi = sl.QuadraticFeatures.draw(dim=d, radius=1.0)
        assert choose_mechanism(row_bounds(phi), phi.size, 1.0).name == name


def test_pure_epsilon_captures_nearly_all_energy():
    """50 columns, 70 000 rows of norm 1, epsilon 0.5: 0.992 to 0.9994 over spectra; 0.92 by products one by one."""
    rng = np.random.default_rng(0)
    n, d, k = 70_000, 50, 10
    X = rng.normal(size=(n, d)) / np.sqrt(1.0 + np.arange(d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    s = privatize(sl.sketch(X, sl.QuadraticFeatures.draw(dim=d, radius=1.0)), 0.5, public_map=True)
    V = sl.decode(s, k, task="pca", random_state=0).vectors[:, :k]
    C = np.cov(X.T)
    assert np.trace(V.T @ C @ V) > 0.99 * np.linalg.eigvalsh(C)[-k:].sum()
