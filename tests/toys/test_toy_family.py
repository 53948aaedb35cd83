"""A family of one's own: Laplace clusters, in five methods, with search, refinement, certificate and sweep."""

import numpy as np

import sketchlearn as sl
from sketchlearn.decoders.families import Family
from sketchlearn.designs.gmm import design_gmm


class Laplace(Family):
    """The elliptic Laplace law with one variance per component, ``e(w) = 1 / (1 + |w|^2 s / 2)``."""

    name = "laplace"

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

    def draw(self, shapes, owner, d, rng):
        mixing = shapes[owner] * rng.exponential(size=(len(owner), 1))
        return np.sqrt(mixing) * rng.standard_normal((len(owner), d))


CENTERS, SHAPES = np.array([[100.0, 0.0], [108.0, 8.0], [100.0, 12.0]]), np.array([[1.0], [4.0], [2.0]])


def _sketch(seed):
    """10 000 rows of each of three clusters: the standard error of a variance is about 3 %."""
    owner = np.repeat(np.arange(3), 10_000)
    X = CENTERS[owner] + Laplace().draw(SHAPES, owner, 2, np.random.default_rng(seed))
    return sl.sketch(X, design_gmm(X[::15], 4, "spherical", seed=0), progress=False)


def test_clusters_are_found_refined_and_certified():
    solution = sl.decode(_sketch(0), 3, task="family", family=Laplace(), random_state=0)
    order = [int(np.argmin(((solution.means - c) ** 2).sum(1))) for c in CENTERS]
    np.testing.assert_allclose(solution.means[order], CENTERS, atol=0.15)
    np.testing.assert_allclose(solution.shapes[order], SHAPES, rtol=0.15)
    assert solution.reliable, solution.verdict
    assert solution.trace[-1]["stage"] == "certificate"


def test_a_sweep_finds_their_number():
    assert sl.sweep(_sketch(1), range(1, 5), task="family", family=Laplace(), random_state=0).recommended == 3


def test_gaussians_do_not_explain_them():
    """The certificate knows the family: what Laplace clusters explain, Gaussian ones do not."""
    assert not sl.decode(_sketch(2), 3, task="gmm", covariance_type="spherical", random_state=0).reliable
