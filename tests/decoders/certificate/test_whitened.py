"""The noise of a sketch under a mixture, its split into what is fitted and what is left, and the fit in its metric."""

import numpy as np
import pytest

from sketchlearn.decoders.certificate.tangent import Tangent, remainders
from sketchlearn.decoders.certificate.whitened import (
    Whitened,
    real,
    remainder_covariance,
    remainder_variance,
    simplex_basis,
)
from sketchlearn.decoders.families import DIAGONAL, FULL, SHARED, SPHERICAL
from sketchlearn.decoders.state import State

FAMILIES = {"shared": SHARED, "spherical": SPHERICAL, "diag": DIAGONAL, "full": FULL}


def _state(kind, k=3, d=3, seed=0):
    rng = np.random.default_rng(seed)
    means, weights = rng.normal(size=(k, d)) * 2, rng.dirichlet(np.full(k, 5.0))
    if kind == "shared":
        s = np.array([0.3])
    elif kind == "spherical":
        s = rng.uniform(0.1, 0.5, k)
    elif kind == "diag":
        s = rng.uniform(0.1, 0.5, (k, d))
    else:
        root = rng.normal(size=(k, d, d)) * 0.4
        s = root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(d)
    return State(FAMILIES[kind], weights, means, s)


def _rows(state, n, rng):
    owner = rng.choice(len(state.weights), n, p=state.weights)
    step = state.family.draw(state.shapes, owner, state.dim, rng)
    return state.means[owner] + step, owner, step


KINDS = ("shared", "spherical", "diag", "full")


@pytest.mark.parametrize("kind", KINDS)
def test_the_remainder_is_what_weights_and_means_do_not_explain(kind):
    rng = np.random.default_rng(1)
    state, w = _state(kind), rng.normal(size=(6, 3)) * 1.5
    rows, owner, step = _rows(state, 400_000, rng)
    g = Whitened(w, np.zeros(6, complex), 100.0, state).atoms(state)
    left = np.exp(1j * rows @ w.T) - g.T[owner] * (1 + 1j * step @ w.T)
    drawn = real(left.T)
    np.testing.assert_allclose(remainder_covariance(w, state), drawn @ drawn.T / len(rows), atol=0.01)


@pytest.mark.parametrize("kind", ["shared"])
def test_the_blocks_are_those_of_the_whole_covariance(kind):
    state, w = _state(kind), np.random.default_rng(1).normal(size=(5, 3))
    whole = remainder_covariance(w, state)
    direct, conjugate = remainder_variance(w, state)
    np.testing.assert_allclose(np.diag(whole)[:5], 0.5 * (direct + conjugate.real), atol=1e-12)
    np.testing.assert_allclose(np.diag(whole)[5:], 0.5 * (direct - conjugate.real), atol=1e-12)
    np.testing.assert_allclose(np.diag(whole[:5, 5:]), 0.5 * conjugate.imag, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_the_model(kind):
    state, w = _state(kind), np.random.default_rng(2).normal(size=(7, 3))
    problem = Whitened(w, np.zeros(7, complex), 100.0, state)
    tangents, model = problem.tangents(state)
    np.testing.assert_allclose(model, problem.model(state), atol=1e-12)
    for j in range(tangents.shape[1]):
        step = np.zeros(tangents.shape[1])
        step[j] = 1e-6
        ahead, behind = problem.moved(step), problem.moved(-step)
        slope = (problem.model(ahead) - problem.model(behind)) / 2e-6
        np.testing.assert_allclose(tangents[:, j], slope, atol=2e-6)


@pytest.mark.parametrize("frequencies", [40, 400])
def test_whitened_noise_has_unit_variance_where_rows_count(frequencies):
    rng = np.random.default_rng(3)
    state = _state("shared", k=3, d=8)
    w = rng.normal(size=(frequencies, 8)) * 2.0
    problem = Whitened(w, np.zeros(frequencies, complex), 1e6, state)
    noise = remainders(problem, rng, 3000)
    assert np.median((noise**2).mean(1)) == pytest.approx(1.0, abs=0.1)


def test_the_adjoint_of_whitening():
    rng = np.random.default_rng(4)
    for m in (20, 400):
        problem = Whitened(rng.normal(size=(m, 7)), np.zeros(m, complex), 1e4, _state("shared", d=7))
        a, b = rng.normal(size=2 * m), rng.normal(size=2 * m)
        assert problem.white(a) @ b == pytest.approx(a @ problem.white_adjoint(b))


def test_added_noise_lowers_the_weight_of_a_frequency():
    state, w = _state("shared", d=8), np.random.default_rng(5).normal(size=(400, 8))
    plain = Whitened(w, np.zeros(400, complex), 1e4, state)
    noisy = Whitened(w, np.zeros(400, complex), 1e4, state, extra=np.full(400, 1e-2))
    ones = np.ones(800)
    assert np.abs(noisy.white(ones)).max() < 0.2 * np.abs(plain.white(ones)).max()


def test_the_basis_of_the_simplex():
    for k in (2, 3, 7):
        basis = simplex_basis(k)
        np.testing.assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-12)
        np.testing.assert_allclose(basis.sum(0), 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_polishing_finds_the_model_of_a_noiseless_sketch(kind):
    rng = np.random.default_rng(6)
    state = _state(kind, k=3, d=2)
    w = rng.normal(size=(120, 2)) * 1.5
    problem = Whitened(w, np.zeros(120, complex), 1e6, state)
    problem.z = problem.atoms(state) @ state.weights
    problem.y = real(problem.z)
    moved = state.means + 0.05 * rng.normal(size=state.means.shape)
    problem.state = State(state.family, state.weights, moved, 1.1 * state.shapes)
    problem.refresh()
    problem.settle(4)
    np.testing.assert_allclose(problem.state.means, state.means, atol=1e-4)
    np.testing.assert_allclose(problem.state.covariances, state.covariances, rtol=1e-2, atol=1e-4)


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_sketches():
    rng = np.random.default_rng(7)
    state = State.shared(np.array([0.3, 0.7]), np.array([[-2.0, 0.0], [2.0, 1.0]]), 0.25)
    w = rng.normal(size=(60, 2)) * np.exp(rng.uniform(-1, 1.5, (60, 1)))
    n, means, weights = 2000, [], []
    for _ in range(150):
        rows = _rows(state, n, rng)[0]
        problem = Whitened(w, np.exp(1j * rows @ w.T).mean(0), float(n), state)
        problem.settle()
        means.append(problem.state.means.ravel())
        weights.append(problem.state.weights)
    covariance = Tangent(Whitened(w, np.zeros(60, complex), float(n), state)).covariance() / n
    expected = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.std(means, axis=0), expected[:4], rtol=0.3)
    np.testing.assert_allclose(np.std(weights, axis=0), expected[4:], rtol=0.3)
