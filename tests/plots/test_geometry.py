import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sketchlearn.models.mixture import Mixture
from sketchlearn.plots.geometry import density_at, ellipse, limits, plane_of

NAMES = ("a", "b", "c", "d")


def mixture(seed=0, k=3, d=4):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d))
    return Mixture(rng.dirichlet(np.ones(k)), 3 * rng.normal(size=(k, d)), roots @ roots.transpose(0, 2, 1))


def test_the_principal_plane_is_that_of_many_rows():
    m = mixture()
    rng = np.random.default_rng(1)
    owner = rng.choice(3, 200_000, p=m.weights)
    X = m.means[owner] + np.einsum(
        "nij,nj->ni", np.linalg.cholesky(m.covariances)[owner], rng.normal(size=(200_000, 4))
    )
    values, vectors = np.linalg.eigh(np.cov(X.T))
    plane = plane_of(m, NAMES)
    overlap = np.abs(np.sum(plane.axes * vectors[:, ::-1][:, :2].T, 1))
    assert (overlap > 0.999).all()
    assert f"({values[-1] / values.sum():.0%} of the variance)" in plane.labels[0]
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)


def test_standardised_planes_dont_depend_on_units():
    m = mixture()
    unit = np.array([1.0, 1000.0, 0.01, 5.0])
    other = Mixture(m.weights, m.means * unit, m.covariances * np.outer(unit, unit))
    spreads = [np.sqrt(np.diag(x.covariance)) for x in (m, other)]
    a, b = plane_of(m, NAMES, unit=spreads[0]), plane_of(other, NAMES, unit=spreads[1])
    np.testing.assert_allclose(np.abs(a.points(m.means)), np.abs(b.points(other.means)), rtol=1e-8)


def test_columns_by_name_and_number():
    m = mixture()
    plane = plane_of(m, NAMES, ["c", 0])
    assert plane.labels == ("c", "a")
    np.testing.assert_array_equal(plane.points(m.means), m.means[:, [2, 0]])
    np.testing.assert_allclose(plane.seen(m).covariances[0], m.covariances[0][np.ix_([2, 0], [2, 0])])
    assert plane_of(mixture(d=2), NAMES[:2]).labels == ("a", "b")
    assert plane_of(mixture(d=1), NAMES[:1]).labels == ("a",)


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        (["a", "a"], "one or two different"), (["a", "b", "c"], "one or two"), ([], "one or two"),
        (["z"], "no column 'z'"), (["4"], "no column '4'"), ([-1], "no column -1"), ("ab", "no column 'ab'"),
    ],
)  # fmt: skip
def test_columns_that_dont_exist_or_dont_make_a_picture(columns, word):
    with pytest.raises(ValueError, match=word):
        plane_of(mixture(), NAMES, columns)


def test_ellipses_have_the_given_distance():
    s = mixture(d=2).covariances[0]
    outline = ellipse(s, 2.0)
    np.testing.assert_allclose(np.einsum("ni,ij,nj->n", outline, np.linalg.inv(s), outline), 4.0)


@pytest.mark.parametrize("d", [1, 2])
def test_densities(d):
    m = mixture(d=d)
    points = np.random.default_rng(0).normal(size=(50, d)) * 3
    expected = sum(
        a * multivariate_normal(mu, s).pdf(points) for a, mu, s in zip(m.weights, m.means, m.covariances, strict=True)
    )
    np.testing.assert_allclose(density_at(m, points), expected, rtol=1e-3, atol=1e-9)
    lower, upper = limits(m, 8.0)
    grid = np.stack(np.meshgrid(*(np.linspace(a, b, 400) for a, b in zip(lower, upper, strict=True))), -1)
    cell = np.prod((upper - lower) / 399)
    assert density_at(m, grid.reshape(-1, d)).sum() * cell == pytest.approx(1.0, abs=0.01)


def test_points_without_width_can_be_drawn():
    m = Mixture(np.array([0.5, 0.5]), np.array([[0.0, 0.0], [1.0, 0.0]]), np.zeros(2))
    lower, upper = limits(m)
    assert (upper > lower).all()
    assert np.isfinite(density_at(m, np.zeros((1, 2)))).all()
