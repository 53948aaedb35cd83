import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.designs.pca import design_pca, design_regression


def test_sizes_and_places():
    phi, why = design_pca(dim=5500, n_components=2, seed=3)
    assert (phi.size, phi.variant, phi.seed, phi.radius) == (88_000, "sphere", 3, None)
    assert "8 k d" in why
    phi, why = design_pca(dim=784, n_components=20)  # 125 440 random features would be far more work
    assert phi.is_exact
    assert "less work" in why
    assert design_pca(dim=500, n_components=5, size=1000)[0].size == 1000
    phi, why = design_pca(np.random.default_rng(0).normal(size=(50, 12)) + 3.0, n_components=5)
    assert phi.is_exact
    assert abs(phi.center.mean() - 3.0) < 0.3
    phi, why = design_pca(bounds=(0.0, 2.0), dim=100, n_components=2)
    assert phi.radius == pytest.approx(10.0)
    assert "no row looked at" in why
    corner = sl.sketch(np.full((1, 100), 2.0), phi)
    assert phi.is_exact  # up to 511 columns
    np.testing.assert_allclose(phi.row_mean_from_sums(corner.sums, 1.0), 2.0, atol=10 * 2.0**-15)
    assert design_pca(bounds=(0.0, 2.0), dim=600, n_components=2)[0].variant == "orthogonal"


def test_regression_keeps_everything_up_to_thousands_of_columns():
    assert design_regression(dim=300)[0].is_exact
    assert design_regression(dim=300, size=1000)[0].size == 1000
    assert not design_regression(dim=5500, n_components=2)[0].is_exact


@pytest.mark.parametrize(
    "arguments",
    [{}, {"sample": [[1.0]], "bounds": (0, 1)}, {"bounds": (1.0, 0.0), "dim": 3}, {"sample": [[np.nan]]}],
)
def test_nothing_to_design_from(arguments):
    with pytest.raises(ValueError, match=r"design from|not both|bounds|pilot"):
        design_pca(**arguments)
