"""Where warnings point."""

import warnings

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.privacy import insecure_noise

UNEVEN = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 1.0, 1000.0]
EQUAL = UNEVEN[:, [0, 1, 1]]


def _seeded_noise():
    with insecure_noise(0):
        pass


@pytest.mark.parametrize(
    "act",
    [
        lambda: sl.design(UNEVEN),
        lambda: sl.sketch(UNEVEN, progress=False),
        lambda: sl.CompressiveKMeans(2, random_state=0).fit(UNEVEN),
        lambda: sl.CompressiveLinearRegression().fit(EQUAL, UNEVEN[:, 2]),
        lambda: sl.CompressiveKMeans(2, workers=1),  # an old name
        _seeded_noise,
    ],
)
def test_warnings_are_about_the_line_that_called_the_library(act):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        act()
    assert heard
    assert {warning.filename for warning in heard} == {__file__}
