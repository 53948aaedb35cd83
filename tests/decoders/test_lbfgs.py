import numpy as np
import pytest
from scipy.optimize import minimize

from sketchlearn.decoders.steps.lbfgs import lbfgs


def _rosenbrock(x):
    value = np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    gradient = np.zeros_like(x)
    gradient[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    gradient[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return value, gradient


def test_a_quadratic_is_solved():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(20, 20))
    matrix, target = root @ root.T + np.eye(20), rng.normal(size=20)
    infinite = np.full(20, np.inf)
    x, _, _ = lbfgs(
        lambda x: (0.5 * x @ matrix @ x - target @ x, matrix @ x - target),
        np.zeros(20),
        -infinite,
        infinite,
        300,
        10,
        1e-14,
    )
    np.testing.assert_allclose(x, np.linalg.solve(matrix, target), atol=1e-4)


@pytest.mark.parametrize("bound", [np.inf, 0.7])
def test_as_good_as_scipy_with_and_without_bounds(bound):
    start, lower, upper = np.full(6, -0.5), np.full(6, -1.0), np.full(6, bound)
    x, value, steps = lbfgs(_rosenbrock, start, lower, upper, 500, 10, 1e-12)
    reference = minimize(_rosenbrock, start, jac=True, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True)))
    assert value <= reference.fun + 1e-4
    assert ((x >= lower) & (x <= upper)).all()
    assert 0 < steps <= 500


def test_values_never_rise_and_steps_are_counted():
    seen = []

    def watched(x):
        value, gradient = _rosenbrock(x)
        seen.append(value)
        return value, gradient

    infinite = np.full(4, np.inf)
    _, value, steps = lbfgs(watched, np.full(4, 2.0), -infinite, infinite, 7)
    assert steps == 7
    assert value <= seen[0]
    assert value == min(seen)


def test_a_start_at_the_minimum_stays():
    infinite = np.full(4, np.inf)
    x, value, steps = lbfgs(_rosenbrock, np.ones(4), -infinite, infinite, 50)
    assert (value, steps) == (0.0, 0)
    np.testing.assert_array_equal(x, 1.0)


def test_infinite_values_are_backed_away_from():
    def wall(x):
        return (np.inf, x) if x[0] > 1 else ((x[0] - 0.9) ** 2, 2 * (x - 0.9))

    x, _, _ = lbfgs(wall, np.array([-30.0]), np.array([-np.inf]), np.array([np.inf]), 50, tolerance=1e-12)
    assert x[0] == pytest.approx(0.9, abs=1e-4)
