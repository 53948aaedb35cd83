"""The decoder for measurements that noise nearly hides: its formulas by integration and Monte Carlo."""

import numpy as np
import pytest
from scipy import integrate

import sketchlearn as sl
from sketchlearn.decoders.lowrank.burer_monteiro import burer_monteiro
from sketchlearn.decoders.lowrank.problem import Problem
from sketchlearn.decoders.lowrank.shrunk import _conditional, _expected, seen, shrunk


def _problem(S, variant="orthogonal", bases=3, noise=0.0, laplace=False, seed=0):
    d = len(S)
    phi = sl.QuadraticFeatures.draw(dim=d, size=bases * d, variant=variant, seed=seed)
    bare = Problem.from_features(phi, np.zeros(phi.size))
    rng = np.random.default_rng(seed)
    draw = rng.laplace(size=phi.size) / np.sqrt(2) if laplace else rng.standard_normal(phi.size)
    y = bare.measure_matrix(S) + noise * draw
    return Problem(bare.operator, bare.factors, y, bare.has_trace, added=np.full(phi.size, noise**2), laplace=laplace)


@pytest.mark.parametrize(("s", "b"), [(1.0, 0.3), (0.2, 1.0), (1.0, 1.0)])
def test_conditional_expectation_behind_laplace_noise(s, b):
    for y in (-3.0, 0.1, 1.7):

        def joint(z, power, y=y):
            return z**power * np.exp(-0.5 * (z / s) ** 2 - abs(y - z) / b)

        parts = [
            sum(integrate.quad(joint, *ends, args=(power,), epsabs=0.0)[0] for ends in ((-12 * s, y), (y, 12 * s)))
            for power in (0, 1)
        ]
        assert _conditional(np.array([y]), s, b)[1][0] == pytest.approx(parts[1] / parts[0], rel=1e-6, abs=1e-9)
    rng = np.random.default_rng(0)
    z = s * rng.standard_normal(200_000)
    y, noise = _expected(z + b * rng.laplace(size=len(z)), s, b)
    # as if seen through normal noise of this variance: slope 1 on z, and variance of the sum
    assert np.mean(y * z) / s**2 == pytest.approx(1.0, abs=6 * np.sqrt((s**2 + noise) / s**2 / len(z)))
    assert np.mean(y * y) == pytest.approx(s**2 + noise, rel=0.03)
    assert noise < 2 * b * b  # less than the variance of the noise itself
    if b > 2 * s:
        assert noise < 1.4 * b * b  # down to one half of it, where noise prevails


@pytest.mark.parametrize("variant", ["sphere", "orthogonal", "complex", "difference"])
def test_lengths_of_measurements_beyond_the_trace(variant):
    problem = _problem(np.eye(6), variant)
    d = problem.dim
    for j in (0, 5):
        unit = np.zeros(problem.size)
        unit[j] = 1.0
        A = problem.adjoint(unit) * problem.size
        A0 = A - np.trace(A) / d * np.eye(d)
        assert problem.traceless_lengths()[j] == pytest.approx((A0**2).sum(), rel=1e-9)


def test_noise_alone_gives_its_own_linear_estimate_and_little_noise_the_matrix():
    rng = np.random.default_rng(1)
    d = 30
    V = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    S = V @ np.diag([2.0, 1.0]) @ V.T + 0.01 * np.eye(d)
    found = shrunk(_problem(S, bases=12, noise=1e-5), 2, rng)
    np.testing.assert_allclose(found.factor @ found.factor.T + found.isotropic * np.eye(d), S, atol=2e-3)
    problem = _problem(0.0 * S, bases=4, noise=1.0)
    left = problem.measurements - problem.measurements.mean()
    linear = np.linalg.eigh(problem.adjoint(left))[1][:, -1]
    top = shrunk(problem, 1, rng).factor[:, 0]
    assert abs(top @ linear) / np.linalg.norm(top) > 0.9


@pytest.mark.slow
def test_the_law_of_the_noise_is_worth_as_much_as_its_variance():
    """In one setting, many draws: captured energy with Laplace's law, with its variance alone, and of least squares."""
    d, k, bases = 30, 2, 6
    gains, over = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        V = np.linalg.qr(rng.normal(size=(d, k)))[0]
        S = V @ V.T
        problem = _problem(S, bases=bases, noise=0.09, laplace=True, seed=seed)
        plain = Problem(
            problem.operator, problem.factors, problem.measurements, True, added=problem.added, laplace=False
        )
        energy = []
        for each in (problem, plain):
            U = np.linalg.svd(shrunk(each, k, rng).factor, full_matrices=False)[0][:, :k]
            energy.append(np.trace(U.T @ S @ U) / k)
        U = np.linalg.svd(burer_monteiro(problem, k, rng).factor, full_matrices=False)[0][:, :k]
        gains.append(energy[0] - energy[1])
        over.append(energy[0] - np.trace(U.T @ S @ U) / k)
    assert np.mean(gains) > 0
    assert np.mean(over) > 0


def test_what_is_seen_of_normal_noise_is_all_of_it():
    y, signal, noise = seen(np.array([1.0, -1.0, 2.0]), np.full(3, 0.5), False)
    np.testing.assert_array_equal(y, [1.0, -1.0, 2.0])
    assert signal == pytest.approx(1.5)
    np.testing.assert_array_equal(noise, 0.5)
