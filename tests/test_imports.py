"""What loading costs: nothing heavy before it is needed."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "scipy.optimize", "sklearn", "pyarrow", "matplotlib")


def loaded(statement):
    code = f"import sys; {statement}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import sketchlearn") == []
    assert loaded("import sketchlearn; assert 'numpy' not in sys.modules") == []


def test_help_loads_no_verb():
    statement = "from sketchlearn.cli import main; main(['--help'])"
    code = f"import sys; {statement}; print([m for m in sys.modules if m == 'numpy' or '.verbs.' in m])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip().endswith("[]")
    assert "Choose a feature map" in out


@pytest.mark.parametrize("room", ["features", "sketches"])
def test_values_need_no_compiler(room):
    assert loaded(f"import sketchlearn.{room}") == []
