import numpy as np
import pytest
from scipy import special, stats

from sketchlearn.features import portable


def test_log_and_exp_are_accurate():
    x = np.exp(np.random.default_rng(0).uniform(-700, 700, 20_000))
    np.testing.assert_allclose(portable.log(x), np.log(x), rtol=5e-16, atol=1e-16)
    y = np.random.default_rng(1).uniform(-700, 700, 20_000)
    np.testing.assert_allclose(portable.exp(y), np.exp(y), rtol=5e-15)
    assert portable.exp(np.array([-800.0, 0.0]))[0] == 0.0


def test_normal_quantile_is_accurate():
    u = np.concatenate([np.random.default_rng(0).uniform(size=20_000), 10.0 ** -np.arange(1, 16)])
    np.testing.assert_allclose(portable.normal_quantile(u), special.ndtri(u), rtol=1e-13, atol=1e-15)


def test_total_is_the_sum():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 64, 1000):
        x = rng.normal(size=(3, n))
        np.testing.assert_allclose(portable.total(x), x.sum(-1), rtol=1e-12, atol=1e-12)


def test_orthonormalize():
    rows = portable.orthonormalize(np.random.default_rng(0).normal(size=(5, 8, 12)))
    np.testing.assert_allclose(rows @ np.swapaxes(rows, 1, 2), np.broadcast_to(np.eye(8), (5, 8, 8)), atol=1e-13)


def test_streams_are_independent_and_repeatable():
    a, b = portable.Bits(5, 1).uniforms(10_000), portable.Bits(5, 2).uniforms(10_000)
    assert np.array_equal(a, portable.Bits(5, 1).uniforms(10_000))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.05  # 5 standard errors
    assert stats.kstest(a, "uniform").pvalue > 1e-4
    assert sorted(portable.Bits(5, 1).permutation(100)) == list(range(100))


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_any_64_bit_seed(seed):
    assert portable.Bits(seed, 1).uniforms(3).shape == (3,)
