import pytest


@pytest.fixture(autouse=True)
def _no_memory_of_other_tests():
    """Releases of the same sketch in two tests are not two releases."""
    from sketchlearn.privacy.release import _released

    _released.clear()
