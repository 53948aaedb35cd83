import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # helpers shared by several rooms, such as mixtures.py

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: tests of Ctrl-C need it
    signal.signal(signal.SIGINT, signal.default_int_handler)


# checks of scikit-learn that decode several sketches of rows that no model explains: ten seconds and more each
SLOW_CHECKS = dict.fromkeys(("CompressiveICA", "CompressiveDictionaryLearning"), ("check_sample_weight_equivalence",))


def pytest_collection_modifyitems(items):
    """Mark checks that scikit-learn parametrizes, which can't be marked where they are used."""
    for item in items:
        for estimator, checks in SLOW_CHECKS.items():
            if estimator in item.name and any(check in item.name for check in checks):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _no_memory_of_other_tests():
    """Releases of the same sketch in two tests are not two releases."""
    release = sys.modules.get("sketchlearn.privacy.release")
    if release is not None:
        release._released.clear()
