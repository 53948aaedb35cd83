import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders.families import Family, Known
from sketchlearn.decoders.mixtures.own import decode_family
from sketchlearn.designs.gmm import design_gmm


class Laplace(Family):
    """The family of docs/mixtures.md."""

    def damping(self, shapes, w):
        return -np.log1p(0.5 * shapes * w.squared_norms)

    def damping_vjp(self, shapes, w, cotangent):
        r2 = w.squared_norms
        return (cotangent * (-0.5 * r2 / (1 + 0.5 * shapes * r2))).sum(1, keepdims=True)

    def bounds(self, d, smallest, largest):
        return np.array([smallest]), np.array([largest])

    def rounded(self, variances, d):
        return np.asarray(variances, float)[:, None]

    def covariances(self, shapes, k, d):
        return shapes[:, :, None] * np.eye(d)


def test_a_family_of_ones_own():
    """Laplace components with variances 1 and 4: 10 000 rows each, relative standard error about 3 %."""
    rng = np.random.default_rng(0)
    centers, variances = np.array([[100.0, 0.0], [108.0, 8.0]]), [1.0, 4.0]
    X = np.concatenate(
        [
            c + np.sqrt(v * rng.exponential(size=(10_000, 1))) * rng.normal(size=(10_000, 2))
            for c, v in zip(centers, variances, strict=True)
        ]
    )
    s = sl.sketch(X, design_gmm(X[::10], 2, "spherical", seed=0), progress=False)
    solution = sl.decode(s, 2, task="family", family=Laplace(), random_state=0)
    order = np.argsort(solution.means[:, 0])
    np.testing.assert_allclose(solution.means[order], centers, atol=0.15)
    np.testing.assert_allclose(solution.shapes[order, 0], variances, rtol=0.15)
    assert solution.reliable, solution.verdict


def test_requests_are_checked():
    X = np.zeros((5, 1))
    with pytest.raises(ValueError, match="n_components"):
        decode_family(sl.sketch(X, design_gmm(X, 1)), 0, Known(1.0), rng=np.random.default_rng(0))
