import numpy as np
import pytest
from reference import factors as reference

from sketchlearn.decoders.factored import Factored, _Coordinates, refine_factored
from sketchlearn.decoders.problem import Problem
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


@pytest.mark.parametrize("rank", [0, 2])
def test_gradients(rank):
    problem, means, _ = _problem()
    start = Factored.round(means + 0.1, np.array([0.5, 0.5]), 0.4)
    if rank:
        start = start.with_factors(rank, np.random.default_rng(1))
    coordinates = _Coordinates(problem, start, 10.0, 1e-3)
    rng = np.random.default_rng(2)
    x = coordinates.start + 0.01 * rng.normal(size=len(coordinates.start))
    _, gradient = coordinates.objective(x)
    for _ in range(8):
        way = rng.normal(size=len(x))
        way /= np.linalg.norm(way)
        ahead, behind = coordinates.objective(x + 1e-2 * way)[0], coordinates.objective(x - 1e-2 * way)[0]
        assert gradient @ way == pytest.approx((ahead - behind) / 2e-2, rel=0.05, abs=0.05 * np.abs(gradient).max())


def test_factors_find_covariances_that_diagonals_miss():
    problem, means, s = _problem()
    diagonal = refine_factored(problem, Factored.round(means, np.full(2, 0.5), 0.5), 100, largest=10.0, strength=0.0)
    rng = np.random.default_rng(0)
    full = refine_factored(problem, diagonal.with_factors(2, rng), 300, largest=10.0, strength=0.0)
    assert full.value < 1e-2 * diagonal.value
    np.testing.assert_allclose(full.fit().covariances, s, atol=0.05)
    assert diagonal.fit().covariances.shape == (2, 3)


def test_tiles_make_no_difference(monkeypatch):
    problem, means, _ = _problem(m=700)
    start = Factored.round(means, np.full(2, 0.5), 0.5).with_factors(1, np.random.default_rng(0))
    whole = refine_factored(problem, start, 20, largest=10.0, strength=1e-4)
    monkeypatch.setattr("sketchlearn.decoders.factored._TILE", 1)
    tiled = refine_factored(problem, start, 20, largest=10.0, strength=1e-4)
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
