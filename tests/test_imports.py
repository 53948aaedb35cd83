"""What loading costs: nothing heavy before it is needed."""

import subprocess
import sys

import pytest

import sketchlearn as sl

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


@pytest.mark.parametrize(
    ("given", "meant"),
    [("CompressiveKmeans", "CompressiveKMeans"), ("KMeans", "CompressiveKMeans"), ("skecth", "sketch"),
     ("GaussianMixture", "CompressiveGaussianMixture"), ("Dataset", "datasets")],
)  # fmt: skip
def test_names_that_are_nearly_right_are_guessed(given, meant):
    with pytest.raises(AttributeError, match=f"has no attribute '{given}'; did you mean '{meant}'?"):
        getattr(sl, given)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match=r"has no attribute 'tensorflow'$"):
        _ = sl.tensorflow
    assert loaded("import sketchlearn; hasattr(sketchlearn, '__wrapped__'); assert 'difflib' not in sys.modules") == []
