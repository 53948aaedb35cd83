"""Plans are data; summers are found by their kind; loops are chosen in one place."""

import importlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.kernels import Plan, atoms, lloyd, prepare, tiers

MAPS = [
    sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=0, center=[1.0, 0.0, 2.0]),
    sl.QuadraticFeatures.draw(dim=3, size=5, variant="complex", radius=2.0),
    sl.QuadraticFeatures.draw(dim=3, radius=2.0),
    sl.QuadraticFeatures.draw(dim=3, size=5),
    sl.QuadraticFeatures.draw(dim=3),
]


@pytest.mark.parametrize("phi", MAPS, ids=repr)
def test_a_plan_travels_and_says_it_all(phi):
    plan = pickle.loads(pickle.dumps(phi.plan()))
    assert (plan.dim, plan.sums_shape, plan.sums_dtype) == (phi.dim, phi.sums_shape, phi.sums_dtype)
    X = np.random.default_rng(0).normal(size=(100, 3))
    summer = prepare(plan)
    np.testing.assert_array_equal(summer.sum_rows(X).sums, phi.sum_rows(X).sums)
    starts = np.array([0, 30, 30, 100])
    for part, (a, b) in zip(summer.sum_runs(X, starts), ((0, 30), (30, 30), (30, 100)), strict=True):
        np.testing.assert_allclose(part.sums, phi.sum_rows(X[a:b]).sums, rtol=1e-12, atol=1e-12)
    X[[3, 7], [0, 1]] = np.nan, np.inf
    X[9] = 1e200
    assert np.flatnonzero(~summer.valid(X)).tolist() == [3, 7, 9]
    assert summer.sum_rows(X, skip_invalid=True).skipped == 3
    assert summer.sum_rows(X).first_invalid == 3


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).integers(0, 5, 200)], ids=["plain", "weighted"])
@pytest.mark.parametrize("tier", tiers.TIERS)
def test_every_tier_gives_the_same_integers(tier, weights, monkeypatch):
    X = np.random.default_rng(0).normal(size=(200, 3)) * 3
    want = [phi.sum_rows(X, weights).sums for phi in MAPS[:3]]
    monkeypatch.setenv("SKETCHLEARN_KERNEL", tier)
    monkeypatch.setattr(tiers, "_active", None)
    for phi, sums in zip(MAPS, want, strict=False):
        np.testing.assert_array_equal(prepare(phi.plan()).sum_rows(X, weights).sums, sums)
    for phi in MAPS[3:]:
        np.testing.assert_allclose(phi.mean_from_sums(prepare(phi.plan()).sum_rows(X).sums, 200), phi(X).mean(0), 1e-5)


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"'magic'; known: .*fourier.*rows"):
        prepare(Plan("magic", 1, (1,), np.dtype(np.int64)))
    with pytest.raises(ValueError, match="needs its features"):
        prepare(Plan("rows", 1, (1,), np.dtype(np.int64)))


def _real(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def test_both_versions_of_the_decoders_loops_agree(monkeypatch):
    results = []
    for module in (tiers.loops, lambda family: importlib.import_module(f"reference.{family}")):
        monkeypatch.setattr(tiers, "loops", module)
        rng = np.random.default_rng(0)
        phases, weights = _real(rng, 4, 50) * 5, np.abs(_real(rng, 4))
        out = []
        for damping in (-np.abs(_real(rng, 1, 50)), -np.abs(_real(rng, 4, 50))):
            cosine, sine, model, along = (np.empty(s, np.float32) for s in ((4, 50), (4, 50), (2, 50), 4))
            atoms.atoms(phases, damping, weights, cosine, sine, model)
            out += [cosine.copy(), sine.copy(), model]
            atoms.products(cosine, sine, _real(rng, 2, 50), along)
            out += [cosine, sine, along]
            turned, along = phases.copy(), np.empty(4, np.float32)
            atoms.correlate(turned, _real(rng, 2, 50), np.empty(50, np.float32), along)
            out += [turned, along]
        squares, z, u = np.abs(_real(rng, 50)), _real(rng, 2, 50), np.abs(_real(rng, 50))
        turned, along = phases.copy(), np.empty(4, np.float32)
        room = np.empty((4, 50), np.float32), np.empty((2, 50), np.float32)
        out += [atoms.shared(turned, np.exp(-squares), squares, z, u, weights, *room, along), turned, along]
        x = (_real(rng, 300, 2) + 9 * rng.integers(0, 3, (300, 1))).astype(np.float32)
        w = rng.uniform(size=300)
        centers = lloyd.seed_centers(x, w, 3, rng.uniform(size=(3, 4)))
        labels, cost = lloyd.lloyd(x, w, centers, 50, 1e-9)
        assert cost == pytest.approx((w * ((x - centers[labels]) ** 2).sum(1)).sum(), rel=1e-4)
        results.append([*out, centers, labels, cost])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_one_width_is_the_general_misfit_and_its_gradient():
    rng = np.random.default_rng(1)
    phases, weights, squares = _real(rng, 4, 50) * 5, np.abs(_real(rng, 4)), np.abs(_real(rng, 50))
    z, u = _real(rng, 2, 50), np.abs(_real(rng, 50))
    cosine, sine, model, along = (np.empty(s, np.float32) for s in ((4, 50), (4, 50), (2, 50), 4))
    atoms.atoms(phases, -squares[None] / 2, weights, cosine, sine, model)
    residual = z - model
    atoms.products(cosine, sine, u * residual, along)
    turned, room, seen = phases.copy(), np.empty((4, 50), np.float32), np.empty(4, np.float32)
    value, spread = atoms.shared(turned, np.exp(-squares / 2), squares, z, u, weights, room, np.empty_like(z), seen)
    assert value == pytest.approx((u * residual**2).sum(), rel=1e-5)
    assert spread == pytest.approx((u * squares * residual * model).sum(), rel=1e-4)
    np.testing.assert_allclose(turned, sine, atol=1e-5)
    np.testing.assert_allclose(seen, along, atol=1e-4)


def test_both_versions_of_limited_memory_agree():
    versions = [tiers.loops("lbfgs"), importlib.import_module("reference.lbfgs")]
    rng = np.random.default_rng(2)
    x, gradient = rng.uniform(0, 1, 30).round(1), rng.normal(size=30)
    bounds = np.zeros(30), np.ones(30)
    steps, changes = rng.normal(size=(2, 5, 30))
    bends = np.abs((steps * changes).sum(1))
    results = []
    for loops in versions:
        direction, trial, step, change, room = np.empty(30), np.empty(30), np.empty(30), np.empty(30), np.empty(5)
        arguments = (x, gradient, *bounds, steps, changes, bends, room)
        slopes = [loops.descend(*arguments, count, 3, 0.7, direction) for count in (0, 2, 5)]
        promised = loops.advance(x, direction, 0.5, *bounds, gradient, trial)
        products = loops.remember(x, trial, gradient, 2 * gradient, step, change)
        results.append([slopes, direction, promised, trial, products, step, change])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_centre_without_points_stays():
    x, centers = np.zeros((4, 1), np.float32), np.array([[0.0], [5.0]], np.float32)
    lloyd.lloyd(x, np.ones(4), centers, 10, 1e-9)
    assert centers.tolist() == [[0.0], [5.0]]


def _python(script, **environment):
    env = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run


def test_maps_and_designs_load_neither_numba_nor_scikit_learn():
    script = (
        "import sys, sketchlearn.features, sketchlearn.designs\n"
        "print([m for m in ('numba', 'sklearn', 'scipy.optimize') if m in sys.modules])"
    )
    assert _python(script).stdout.strip() == "[]"
