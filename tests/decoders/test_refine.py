import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.decoders.families import GAUSSIANS, SHARED, Known, Stable
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import Objective, refine
from sketchlearn.features.operator import DenseOperator

FAMILIES = {**GAUSSIANS, "shared": SHARED, "known": Known(0.3), "stable": Stable("diag"), "stable-full": Stable()}


@pytest.fixture(scope="module")
def problem():
    X, _, _ = gaussian_clusters(3, 3, 30, n=3000)
    return Problem.from_sketch(sl.sketch(X, sl.design(X, n_components=3, seed=1)))


def _start(family, k=3, d=3, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(k, d, d)) * 0.2 + 0.5 * np.eye(d)
    full = root @ np.swapaxes(root, 1, 2)
    weights = np.array([0.2, 0.3, 0.5])
    shapes = family.from_covariances(full, np.ones(k))
    return State(family, weights, rng.normal(size=(k, d)), shapes)


@pytest.mark.parametrize("strength", [0.0, 1e-3])
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_agree_with_finite_differences(problem, name, strength):
    objective = Objective(problem, _start(FAMILIES[name]), 1e-6, 4.0, strength, boxed=False)
    rng = np.random.default_rng(1)
    v = np.clip(objective.start + 0.05 * rng.normal(size=len(objective.start)), objective.lower, objective.upper)
    _, gradient = objective(v)
    for _ in range(8):
        direction, step = rng.normal(size=len(v)), 1e-6
        slope = (_value(objective, v + step * direction) - _value(objective, v - step * direction)) / (2 * step)
        assert slope == pytest.approx(gradient @ direction, abs=2e-6 * np.linalg.norm(gradient))


def test_a_trial_step_to_a_singular_covariance_is_no_error(problem):
    """A line search may go where no covariance can be inverted: it has to come back, as from any other bad step."""
    objective = Objective(problem, _start(GAUSSIANS["full"]), 1e-6, 4.0, 1e-3, boxed=False)
    v, parts = objective.start.copy(), objective.chart.diagonal
    shapes = v[objective.k * (objective.d + 1) :].reshape(objective.unit_p.shape)
    shapes[0, parts] = -1000.0 / objective.unit_p[0, parts]  # widths of exp(-1000)
    with pytest.raises(np.linalg.LinAlgError):
        objective.chart.penalty(*objective.chart.shapes(objective.parts(v)[2]))
    value, gradient = objective(v)
    assert value > 1e6 * objective(objective.start)[0]
    assert (gradient == 0).all()


def _value(objective, v):
    """The objective written out again in float64: the compiled one is float32, too coarse for differences."""
    p, state = objective.problem, objective.state(v)
    w, z = DenseOperator(p.operator.frequencies().astype(float)), p.z[0].astype(float) + 1j * p.z[1]
    atoms = state.family.values(state.means, state.shapes, w)
    value = p.u.astype(float) @ np.abs(z - state.weights @ atoms) ** 2
    if objective.strength:
        shapes, kept = objective.chart.shapes(objective.parts(v)[2])
        value += objective.strength * objective.chart.penalty(shapes, kept)[0]
    return value / objective.unit_f


@pytest.mark.parametrize("kind", GAUSSIANS)
def test_refinement_reaches_the_noise_floor_on_its_own_model(kind):
    rng = np.random.default_rng(3)
    k, d, n = 3, 3, 40_000
    truth = _start(GAUSSIANS[kind], seed=5)
    means = truth.means * 6
    labels = rng.choice(k, n, p=truth.weights)
    X = means[labels] + np.einsum("nab,nb->na", np.linalg.cholesky(truth.covariances)[labels], rng.normal(size=(n, d)))
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X[:2000], n_components=6, seed=0)))
    begin = State(
        truth.family, truth.weights, (means - problem.center) / problem.scale, truth.shapes / problem.scale**2 * 2
    )
    state = refine(problem, begin, 300)
    floor, deviation = problem.floor(state)
    assert state.value / floor < 1 + 5 * deviation
    np.testing.assert_allclose(state.means * problem.scale + problem.center, means, atol=0.1)


def test_number_of_parameters():
    assert [family.parameters(5, 3) for family in GAUSSIANS.values()] == [25, 35, 50, 26]
