"""Guarantees for a given map."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn import theory


def gaussian_map(m, d=5, **options):
    return sl.FourierFeatures.draw(dim=d, size=m, scale=1.0, radial="gaussian", seed=0, **options)


@pytest.mark.parametrize(("factor", "lower", "upper"), [(5, 0.5, 1.7), (50, 0.85, 1.2)])
def test_ratios_of_the_known_probe(factor, lower, upper):
    # a probe elsewhere: .77 to 1.32 at 5kd and .91 to 1.11 at 50kd, with independent frequencies
    found = theory.isometry(gaussian_map(25 * factor, directions="iid", radii="iid"), 5, pairs=40)
    assert lower < found.lower < 1 < found.upper < upper


def test_distances_are_those_of_the_kernel():
    """Against the closed form of a Gaussian kernel."""
    phi = gaussian_map(20_000, d=3)
    rng = np.random.default_rng(0)
    points, others = rng.normal(size=(2, 4, 3))
    weights, masses = rng.dirichlet(np.ones(4), 2)
    both, signed = np.concatenate([points, others]), np.concatenate([weights, -masses])
    kernel = np.exp(-0.5 * ((both[:, None] - both[None]) ** 2).sum(2))
    found = theory._squared(phi, points, weights, others, masses)
    assert abs(found / (signed @ kernel @ signed) - 1) < 0.05


def test_weighted_features_have_a_bounded_lipschitz_constant():
    # 1 / (s sqrt(4 + 2/d)) times the root of the law's normaliser
    phi = sl.FourierFeatures.draw(dim=5, size=5000, scale=1.0, radial="weighted", seed=0)
    plain = theory.lipschitz(gaussian_map(5000))
    assert abs(plain - 1.0) < 0.1
    assert theory.lipschitz(phi) < 1.2


def test_kinds_are_kept_apart():
    found = theory.isometry(gaussian_map(100), 3, pairs=7)
    assert len(found.ratios) == 21
    assert all(len(found.of_kind(kind).ratios) == 7 for kind in theory.KINDS)
    with pytest.raises(ValueError, match="choose one of"):
        found.of_kind("near")


def test_points_are_as_far_apart_as_asked():
    points = theory._separated(20, 2, 3.0, np.random.default_rng(0))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert apart[np.triu_indices(20, 1)].min() >= 3.0


def test_the_sampling_bound_holds():
    phi = gaussian_map(200, d=2)
    exact = np.exp(-0.5 * (phi.frequencies**2).sum(1))
    bound = theory.sampling_error(1000, 0.95)
    rng = np.random.default_rng(0)
    errors = [np.sqrt(np.mean(np.abs(sl.sketch(rng.normal(size=(1000, 2)), phi).mean - exact) ** 2)) for _ in range(20)]
    assert max(errors) < bound


def test_sizes_of_theorems_are_larger_than_those_that_work():
    for task in ("kmeans", "gmm"):
        sizes = theory.sketch_sizes(10, 10, task=task)
        assert min(s.size for s in sizes if s.proven) > max(s.size for s in sizes if not s.proven)
    with pytest.raises(ValueError, match="task='ica'"):
        theory.sketch_sizes(2, 2, task="ica")


def test_risk_bounds():
    assert theory.risk_bound(1.0, 10**12, constant=1.0, lipschitz=0.0) == pytest.approx(1.0, abs=1e-5)
    loose = theory.risk_bound(1.0, 100, constant=2.0, lipschitz=0.5, task="kmeans")
    assert loose > theory.risk_bound(1.0, 10_000, constant=2.0, lipschitz=0.5, task="kmeans") > 1.0
    with pytest.raises(ValueError, match="task='pca'"):
        theory.risk_bound(1.0, 10, constant=1.0, lipschitz=1.0, task="pca")
    with pytest.raises(ValueError, match="confidence"):
        theory.sampling_error(10, 1.0)
