import numpy as np
import pytest
from scipy.optimize import check_grad

import sketchlearn as sl
from sketchlearn.decoders.lowrank import Problem
from sketchlearn.decoders.lowrank.burer_monteiro import descend
from sketchlearn.features import operator

RANDOM = ["gaussian", "sphere", "complex", "difference"]


def _problem(variant, d=7, m=20, seed=0):
    rng = np.random.default_rng(seed)
    phi = sl.QuadraticFeatures.draw(dim=d, size=m, variant=variant, seed=seed)
    U = rng.normal(size=(d, 2))
    return Problem.from_features(phi, phi(U.T).sum(0)), U, rng


@pytest.mark.parametrize("variant", RANDOM)
def test_operator_and_adjoint_are_each_others(variant):
    problem, U, rng = _problem(variant)
    np.testing.assert_allclose(problem.measure(U), problem.measurements, rtol=1e-10)
    np.testing.assert_allclose(problem.measure_matrix(U @ U.T), problem.measurements, rtol=1e-10, atol=1e-12)
    S, v = rng.normal(size=(7, 7)), rng.normal(size=20)
    S = S + S.T
    left, right = problem.measure_matrix(S) @ v / problem.size, np.sum(S * problem.adjoint(v))
    assert left == pytest.approx(right, rel=1e-10)
    V = rng.normal(size=(7, 3))
    np.testing.assert_allclose(problem.adjoint_times(v, V), problem.adjoint(v) @ V, atol=1e-12)
    if problem.has_trace:
        np.testing.assert_allclose(problem.measure(np.eye(7)), 1.0, rtol=1e-12)


@pytest.mark.parametrize("variant", RANDOM)
def test_the_loss_has_the_gradient_it_says(variant):
    problem, _, rng = _problem(variant)
    y = problem.measurements

    def value(x):
        return problem.loss(problem.measure(x.reshape(7, 3)) - y)[0]

    def gradient(x):
        U = x.reshape(7, 3)
        slope = problem.loss(problem.measure(U) - y)[1]
        return 2.0 * problem.adjoint_times(slope, U).ravel()

    x = rng.normal(size=21)
    assert check_grad(value, gradient, x) < 1e-5 * np.linalg.norm(gradient(x))


def test_the_balanced_loss_is_nearly_an_isometry():
    """Eigenvalues of the Hessian, identity included: unbalanced, that of the identity is 10 times larger."""
    d = 20
    phi = sl.QuadraticFeatures.draw(dim=d, size=40_000, variant="sphere", seed=0)
    problem = Problem.from_features(phi, np.ones(phi.size))
    rng = np.random.default_rng(0)
    for S in (np.eye(d), np.outer(np.eye(d)[0], np.eye(d)[0]), rng.normal(size=(d, d))):
        S = (S + S.T) / np.linalg.norm(S + S.T)
        bent = 2.0 * problem.loss(problem.measure_matrix(S))[0] / problem.curvature
        assert 0.8 < bent < 2.1


def test_directions_of_any_size_give_the_same_problem(monkeypatch):
    """Kept as float64, as float32, or as bytes that are widened block by block."""
    rng = np.random.default_rng(0)
    phi = sl.QuadraticFeatures.draw(dim=6, size=50, variant="sphere", seed=0)
    U, v = rng.normal(size=(6, 2)), rng.normal(size=50)
    whole = Problem.from_features(phi, np.ones(50))
    for name in ("_DOUBLE_ENTRIES", "_SINGLE_ENTRIES"):
        monkeypatch.setattr(operator, name, 0)
        other = Problem.from_features(phi, np.ones(50))
        if name == "_SINGLE_ENTRIES":
            other.operator._step = 7
        np.testing.assert_allclose(other.measure(U), whole.measure(U), rtol=1e-4)
        np.testing.assert_allclose(other.adjoint_times(v, U), whole.adjoint_times(v, U), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(other.factors, whole.factors, rtol=1e-12)


def test_descent_finds_the_isotropic_part():
    d = 30
    phi = sl.QuadraticFeatures.draw(dim=d, size=400, seed=0)
    rng = np.random.default_rng(0)
    U = rng.normal(size=(d, 2))
    y = phi(U.T).sum(0) + 0.5 * phi(np.eye(d)).sum(0)
    estimate, loss = descend(Problem.from_features(phi, y), rng.normal(size=(d, 2)), None, 500)
    assert estimate.isotropic == pytest.approx(0.5, rel=1e-3)
    assert loss < 1e-10
    np.testing.assert_allclose(estimate.factor @ estimate.factor.T, U @ U.T, atol=0.01)


def test_exact_features_have_no_problem():
    with pytest.raises(ValueError, match="no decoding"):
        Problem.from_features(sl.QuadraticFeatures.draw(dim=3), np.ones(6))
