"""Posterior moments of phases: the compiled loops, those of NumPy, and plain integration agree."""

import numpy as np
import pytest
from reference import amp as reference

from sketchlearn.kernels import tiers


def _case(seed, k, m, nugget):
    rng = np.random.default_rng(seed)
    phases, widths = rng.uniform(-3, 3, (k, m)), rng.uniform(0.05, 5.0, (k, m))
    amplitude = rng.dirichlet(np.ones(k))[:, None] * rng.uniform(0.3, 1.0, (k, m))
    truth = phases + widths * rng.normal(size=(k, m))
    z = (amplitude * np.exp(1j * truth)).sum(0) + np.sqrt(nugget / 2) * rng.normal(size=m)
    arrays = [np.cos(phases), np.sin(phases), np.exp(-0.5 * widths**2), amplitude]
    arrays += [np.stack([z.real, z.imag]), np.full(m, nugget), widths]
    return [np.ascontiguousarray(a, np.float32) for a in arrays]


def _moments(module, case, points=32, reach=4.0):
    cosine, sine, spread, amplitude, z, nugget, widths = case
    sums = np.zeros((5, len(nugget)), np.float32)
    module.interference(cosine, sine, spread, amplitude, sums)
    shift, left = np.zeros_like(widths), np.zeros_like(widths)
    grid = np.linspace(-4, 4, points).astype(np.float32)
    logs = np.zeros(points, np.float32)
    module.moments(cosine, sine, spread, amplitude, sums, z, nugget, widths, np.float32(reach), grid, logs, shift, left)
    return sums, shift, left


@pytest.mark.parametrize("nugget", [1e-5, 1e-2])
def test_compiled_and_numpy_loops_agree(nugget):
    case = _case(0, 6, 300, nugget)
    for a, b in zip(_moments(tiers.loops("amp"), case), _moments(reference, case), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_sums_are_mean_and_covariance_of_random_phases():
    cosine, sine, spread, amplitude, _, nugget, widths = _case(1, 3, 4, 1e-3)
    sums, _, _ = _moments(reference, [cosine, sine, spread, amplitude, np.zeros((2, 4), np.float32), nugget, widths])
    rng = np.random.default_rng(0)
    phases = np.arctan2(sine, cosine) + widths * rng.normal(size=(200_000, 3, 4))
    total = (amplitude * np.exp(1j * phases)).sum(1)
    error = 5 / np.sqrt(200_000)  # moduli are at most 1
    np.testing.assert_allclose(sums[0] + 1j * sums[1], total.mean(0), atol=error)
    np.testing.assert_allclose(2 * sums[2], total.real.var(0) + total.imag.var(0), atol=error)
    np.testing.assert_allclose(2 * sums[3], total.imag.var(0) - total.real.var(0), atol=error)
    cross = ((total.real - total.real.mean(0)) * (total.imag - total.imag.mean(0))).mean(0)
    np.testing.assert_allclose(-sums[4], cross, atol=error)


@pytest.mark.parametrize("nugget", [1e-3, 1e-1])
def test_moments_are_those_of_plain_integration(nugget):
    case = _case(2, 4, 60, nugget)
    cosine, sine, _spread, amplitude, z, noise, widths = (a.astype(np.float64) for a in case)
    sums, shift, left = _moments(tiers.loops("amp"), case, points=32)
    own = reference._parts(*case[:4])
    x = np.linspace(-8, 8, 6001)
    for i in range(4):
        for j in np.flatnonzero(widths[i] < 2.5):
            m0, m1, s0, s1, s2 = (float(sums[row, j] - own[row][i, j]) for row in range(5))
            covariance = np.array([[s0 - s1, -s2], [-s2, s0 + s1]]) + noise[j] * np.eye(2)
            t = np.arctan2(sine[i, j], cosine[i, j]) + widths[i, j] * x
            r = z[:, j, None] - np.array([[m0], [m1]]) - amplitude[i, j] * np.stack([np.cos(t), np.sin(t)])
            log = -0.5 * np.einsum("an,ab,bn->n", r, np.linalg.inv(covariance), r) - 0.5 * x**2
            p = np.exp(log - log.max())
            p /= p.sum()
            mean = p @ x
            assert shift[i, j] == pytest.approx(mean, abs=0.01)
            assert left[i, j] == pytest.approx(p @ (x - mean) ** 2, abs=0.01)


def test_phases_of_which_nothing_is_known_keep_mean_and_variance():
    case = _case(3, 2, 50, 1e-3)
    case[-1][:] = 10.0
    _, shift, left = _moments(tiers.loops("amp"), case)
    assert (shift == 0).all()
    assert (left == 1).all()
