import pytest

from sketchlearn.privacy import InsecureNoiseWarning, insecure_noise


@pytest.fixture
def seeded():
    """Noise from a seed: what is learned from it is the same in every run."""
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        yield
