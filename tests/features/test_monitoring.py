import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features import FeatureMap, MonitoringFeatures


def joint(**changes):
    return sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=0, **changes)


def test_recipe_file_and_features_agree(tmp_path):
    X = np.random.default_rng(0).normal(size=(500, 3)) + np.array([0.0, 100.0, 0.0])
    phi = sl.design(X, n_components=4, task="monitoring", seed=3)
    assert isinstance(phi, MonitoringFeatures)
    again = FeatureMap.from_recipe(phi.recipe())
    assert again == phi
    s = sl.sketch(X, phi)
    assert np.allclose(s.mean, phi(X).mean(0), atol=1e-6)
    s.save(tmp_path / "x.sketch")
    assert sl.load(tmp_path / "x.sketch").to_bytes() == s.to_bytes()
    for j in range(3):
        mine = phi.frequencies[phi.entries_of(j)]
        assert (np.delete(mine, j, axis=1) == 0).all()
        assert np.allclose(mine[:, j], np.arange(1, phi.harmonics + 1) * mine[0, j], rtol=1e-6)


def test_clusters_are_learned_from_the_features_of_all_columns():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 2000, axis=0) + rng.normal(size=(6000, 2))
    s = sl.sketch(X, sl.design(X[::10], n_components=5, task="monitoring"))
    centres = sl.CompressiveKMeans(3, random_state=0).fit_sketch(s).cluster_centers_
    near = np.linalg.norm(centres[:, None] - np.array([[0, 0], [9, 0], [0, 9]]), axis=2).min(0)
    assert near.max() < 0.2  # 2000 rows of deviation 1 in each: five standard errors are 0.11


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: MonitoringFeatures.of(joint(quantized=True), np.ones(3)), "plain"),
        (lambda: MonitoringFeatures.of(joint(), [1.0, 0.0, 1.0]), "positive"),
        (lambda: MonitoringFeatures.of(joint(), np.ones(2)), "shape"),
        (lambda: MonitoringFeatures.of(joint(), np.ones(3), harmonics=1), "at least 2"),
        (lambda: sl.design(dim=3, task="monitoring"), "range of each column"),
        (lambda: sl.design(np.eye(3), task="monitoring", size=10), "take 18 features"),
    ],
)
def test_faults_are_named(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def test_a_constant_column_of_the_pilot_may_vary_later():
    X = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 0.0]
    phi = sl.design(X, n_components=3, task="monitoring")
    assert np.isfinite(phi.frequencies).all()
