"""The last step of mixtures: nearer to the truth than before, with honest errors, and only where it can be trusted."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import sketchlearn as sl
from sketchlearn.decoders.mixtures.default import decode_problem, mixture_problem


def _data(kind, seed, n=30_000, k=3, d=4):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(k, d)) * 6
    deviations = np.exp(rng.uniform(-0.7, 0.7, (k, d if kind == "diag" else 1)))
    owner = rng.integers(k, size=n)
    return means[owner] + deviations[owner] * rng.normal(size=(n, d)), means


def _sketch(X, kind, seed):
    phi = sl.design(X[:1000], n_components=3, task="gmm", covariance_type=kind, seed=seed)
    return sl.sketch(X, phi, progress=False)


@pytest.mark.parametrize("kind", ["spherical", "diag"])
def test_intervals_of_means_cover_the_truth(kind):
    inside = []
    for seed in range(4):
        X, means = _data(kind, seed)
        s = sl.sketch(
            X, sl.design(X[:1000], n_components=3, task="gmm", covariance_type=kind, seed=seed), progress=False
        )
        solution = sl.decode(s, 3, task="gmm", covariance_type=kind, random_state=0)
        assert solution.reliable
        assert solution.weights_std.shape == (3,)
        own = linear_sum_assignment(((solution.means[:, None] - means) ** 2).sum(2))[1]
        inside += (np.abs((solution.means - means[own]) / solution.means_std) < 1.96).ravel().tolist()
    assert 0.8 < np.mean(inside) <= 1.0


def test_the_step_lowers_the_error_of_widths():
    before, after = [], []
    for seed in range(4):
        X, means = _data("diag", seed)
        s = sl.sketch(
            X, sl.design(X[:1000], n_components=3, task="gmm", covariance_type="diag", seed=seed), progress=False
        )
        plain = decode_problem(mixture_problem(s, "diag"), 3, "diag", rng=np.random.default_rng(0)).solution
        done = sl.decode(s, 3, task="gmm", covariance_type="diag", random_state=0)
        for solution, errors in ((plain, before), (done, after)):
            own = linear_sum_assignment(((solution.means[:, None] - means) ** 2).sum(2))[1]
            rows = ((X[:, None] - means) ** 2).sum(2).argmin(1)
            exact = np.stack([X[rows == l].var(0) for l in own])
            errors.append(np.mean((solution.covariances / exact - 1) ** 2))
    assert np.mean(after) < np.mean(before)


def test_no_step_where_the_model_is_refuted_or_tied():
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.5, size=(20_000, 2)) + 8 * rng.integers(2, size=(20_000, 1))
    s = sl.sketch(X, sl.design(X[:1000], n_components=2, task="gmm", seed=0), progress=False)
    solution = sl.decode(s, 2, task="gmm", random_state=0)
    assert not solution.reliable
    assert solution.means_std is None
    assert sl.decode(s, 2, task="gmm", covariance_type="tied", random_state=0).means_std is None
