import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.decoders.covariances import KINDS
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.refine import Fit, chunk_of, noise_floor, refine


@pytest.fixture(scope="module")
def problem():
    X, _, _ = gaussian_clusters(3, 3, 30, n=3000)
    return Problem.from_sketch(sl.sketch(X, sl.design(X, n_components=3, seed=1)))


def _start(kind, k=3, d=3, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(k, d, d)) * 0.2 + 0.5 * np.eye(d)
    full = root @ np.swapaxes(root, 1, 2)
    s = {
        "spherical": np.trace(full, axis1=1, axis2=2) / d,
        "diag": np.diagonal(full, axis1=1, axis2=2).copy(),
        "full": full,
        "tied": full.mean(0),
    }[kind]
    return Fit(rng.normal(size=(k, d)), np.array([0.2, 0.3, 0.5]), s, np.inf)


@pytest.mark.parametrize("strength", [0.0, 1e-3])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_agree_with_finite_differences(problem, kind, strength):
    chunk = chunk_of(problem, _start(kind), kind, 1e-6, 4.0, strength)
    rng = np.random.default_rng(1)
    v = chunk.start + 0.05 * rng.normal(size=len(chunk.start))
    _, gradient = chunk.objective(v)
    for _ in range(8):
        direction, step = rng.normal(size=len(v)), 1e-6
        slope = (_objective(chunk, v + step * direction) - _objective(chunk, v - step * direction)) / (2 * step)
        assert slope == pytest.approx(gradient @ direction, abs=2e-6 * np.linalg.norm(gradient))


def _objective(chunk, v):
    """The objective written out again in float64: the compiled one is float32, too coarse for differences."""
    p = chunk.problem
    means, weights, s, kept = chunk._move(v)
    full = sl.Mixture(weights, means, chunk.shape.per_component(s)).full_covariances()
    w, z = p.operator.forward(np.eye(3)).T.astype(float), p.z[0].astype(float) + 1j * p.z[1]
    atoms = np.exp(1j * w @ means.T - 0.5 * np.einsum("ja,kab,jb->jk", w, np.broadcast_to(full, (3, 3, 3)), w))
    value = p.u.astype(float) @ np.abs(z - atoms @ weights) ** 2
    if chunk.strength:
        value += chunk.strength * chunk._penalty(s, kept)[0]
    return value / chunk.unit_f


@pytest.mark.parametrize("kind", KINDS)
def test_refinement_reaches_the_noise_floor_on_its_own_model(kind):
    rng = np.random.default_rng(3)
    k, d, n = 3, 3, 40_000
    truth = _start(kind, seed=5)
    means = truth.means * 6
    covariances = np.broadcast_to(truth.covariances, (k, d, d)) if kind == "tied" else truth.covariances
    full = sl.Mixture(truth.weights, means, covariances).full_covariances()
    labels = rng.choice(k, n, p=truth.weights)
    X = means[labels] + np.einsum("nab,nb->na", np.linalg.cholesky(full)[labels], rng.normal(size=(n, d)))
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X[:2000], n_components=6, seed=0)))
    begin = Fit(
        (means - problem.center) / problem.scale, truth.weights, truth.covariances / problem.scale**2 * 2, np.inf
    )
    fit = refine(problem, begin, kind, 300)
    floor, deviation = noise_floor(problem, fit, kind)
    assert fit.value / floor < 1 + 5 * deviation
    np.testing.assert_allclose(fit.means * problem.scale + problem.center, means, atol=0.1)


def test_number_of_parameters():
    assert [shape.parameters(5, 3) for shape in KINDS.values()] == [25, 35, 50, 26]
