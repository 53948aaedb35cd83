import numpy as np
import pytest
from reference import factors as reference

from sketchlearn.decoders.families import DIAGONAL, Factors
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import Objective, refine
from sketchlearn.features.operator import DenseOperator
from sketchlearn.kernels import tiers


def _problem(d=3, m=150, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(m, d)) * 1.2
    means = np.array([[-2.0] * d, [2.0] * d])
    v = rng.normal(size=(2, 2, d)) * 0.5
    s = np.einsum("kra,krb->kab", v, v) + 0.1 * np.eye(d)
    z = np.zeros(m, complex)
    for a, c, each in zip((0.4, 0.6), means, s, strict=True):
        z += a * np.exp(1j * w @ c - 0.5 * ((w @ each) * w).sum(1))
    u = np.full(m, 1 / m, np.float32)
    box = np.full(d, -10.0), np.full(d, 10.0)
    parts = np.stack([z.real, z.imag]).astype(np.float32)
    return Problem(DenseOperator.of(w), parts, u, 1e6, np.zeros(m), np.zeros(d), 1.0, box, np.ones(m, bool)), means, s


def _state(means, variance, rank=0, seed=1):
    k, d = means.shape
    diagonals, weights = np.full((k, d), variance), np.full(k, 1 / k)
    if not rank:
        return State(DIAGONAL, weights, means, diagonals)
    family = Factors(rank)
    return State(family, weights, means, family.widened(diagonals, weights, np.random.default_rng(seed)))


def test_gradients():
    problem, means, _ = _problem()
    objective = Objective(problem, _state(means + 0.1, 0.4, rank=2), 1e-6, 10.0, 1e-3, boxed=False)
    rng = np.random.default_rng(2)
    x = objective.start + 0.01 * rng.normal(size=len(objective.start))
    _, gradient = objective(x)
    for _ in range(8):
        way = rng.normal(size=len(x))
        way /= np.linalg.norm(way)
        ahead, behind = objective(x + 1e-2 * way)[0], objective(x - 1e-2 * way)[0]
        assert gradient @ way == pytest.approx((ahead - behind) / 2e-2, rel=0.05, abs=0.05 * np.abs(gradient).max())


def test_factors_find_covariances_that_diagonals_miss():
    problem, means, s = _problem()
    diagonal = refine(problem, _state(means, 0.5), 100, largest=10.0)
    family = Factors(2)
    shapes = family.widened(diagonal.shapes, diagonal.weights, np.random.default_rng(0))
    full = refine(problem, State(family, diagonal.weights, diagonal.means, shapes), 300, largest=10.0)
    assert full.value < 1e-2 * diagonal.value
    np.testing.assert_allclose(full.covariances, s, atol=0.05)


def test_tiles_make_no_difference(monkeypatch):
    start = _state(_problem()[1], 0.5, rank=1, seed=0)
    whole = refine(_problem(m=700)[0], start, 20, largest=10.0, strength=1e-4)
    monkeypatch.setattr("sketchlearn.decoders.problem._TILE", 1)
    tiled = refine(_problem(m=700)[0], start, 20, largest=10.0, strength=1e-4)
    np.testing.assert_allclose(tiled.means, whole.means, atol=1e-3)


def test_compiled_and_plain_loops_agree():
    rng = np.random.default_rng(0)
    loops = tiers.loops("factors")
    projected, damping = rng.normal(size=(6, 50)).astype(np.float32), rng.normal(size=(2, 50)).astype(np.float32)
    one, other = damping.copy(), damping.copy()
    loops.damp(projected, one)
    reference.damp(projected, other)
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    one, other = projected.copy(), projected.copy()
    loops.scale(one, damping)
    reference.scale(other, damping)
    np.testing.assert_allclose(one, other, rtol=1e-6)
