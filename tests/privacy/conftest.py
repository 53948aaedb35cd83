import pytest

from sketchlearn.privacy import InsecureNoiseWarning, insecure_noise


@pytest.fixture
def seeded():
    """Noise from a seed: what is learned from it is the same in every run."""
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        yield


@pytest.fixture(autouse=True)
def _no_memory_of_other_tests():
    """Releases of the same sketch in two tests are not two releases."""
    from sketchlearn.privacy.release import _released

    _released.clear()
