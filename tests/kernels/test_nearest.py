import numpy as np
import pytest
from reference import nearest as reference

from sketchlearn.kernels import tiers
from sketchlearn.kernels.nearest import nearest


@pytest.fixture(params=["compiled", "numpy"])
def tier(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(tiers, "loops", lambda family: reference)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_center_is_that_of_all_distances(tier, order, dtype):
    rng = np.random.default_rng(0)
    rows = np.asarray(rng.normal(size=(1300, 3)) + 1e4, dtype, order=order)  # more than a tile, far from zero
    centers, spread = rng.normal(size=(7, 3)) + 1e4, np.array([1.0, 5.0, 0.2])
    distances = (((rows[:, None].astype(float) - centers) / spread) ** 2).sum(2)
    assert np.array_equal(nearest(rows, centers, spread), distances.argmin(1))


def test_rows_that_are_none_have_no_center_and_far_rows_have_one(tier):
    rows = np.array([[np.nan, 0.0], [np.inf, 0.0], [1e300, 0.0], [-1e300, 5.0], [0.0, 0.0]])
    assert nearest(rows, np.array([[-1.0, 0.0], [1.0, 0.0]])).tolist() == [-1, -1, 1, 0, 0]
