"""After a warm-up no process compiles anything, wherever the package lies."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sketchlearn

_USE = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import numpy as np, sketchlearn as sl
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)) + 5 * rng.integers(0, 3, (2000, 1))
    for rows in (X, X.astype("f4"), np.asfortranarray(X)):
        phi = sl.design(rows, n_components=3)
        s = sl.sketch(rows, phi, sample_weight=rng.uniform(size=2000))
        sl.decode(s + sl.sketch(rows * 100, phi), 3, random_state=0)
        sl.sketch(rows, phi, group_by=rng.integers(0, 9, 2000))
        for radius in (None, 4.0):
            for variant, size in (("complex", 9), ("exact", None)):
                psi = sl.QuadraticFeatures.draw(5, size, variant=variant, radius=radius, center=X.mean(0))
                sl.sketch(rows, psi) + sl.sketch(rows, psi, sample_weight=rng.integers(0, 3, 2000))
    wide = sl.sketch(rng.normal(size=(9000, 99)), sl.QuadraticFeatures.draw(99))
    wide + wide - wide
print([e.data["dispatcher"].py_func.__qualname__ for _, e in recorder.buffer if e.is_start])
"""


def _run(*arguments, **environment):
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env |= {k: str(v) for k, v in environment.items()}
    run = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr
    return run


def test_a_warm_process_compiles_nothing():
    """In the cache that all tests share: what is compiled here is not compiled again elsewhere."""
    first = json.loads(_run("-m", "sketchlearn", "warmup", "--json").stdout)
    assert first["tier"] in ("vector", "plain")
    use = _run("-W", "ignore", "-c", _USE)
    assert use.stdout.strip() == "[]"
    assert "compiling" not in use.stderr
    again = _run("-m", "sketchlearn", "warmup").stdout
    assert again.startswith("nothing to compile")
    assert first["cache"] in again.replace("\n", "")


@pytest.mark.slow
def test_a_package_in_a_read_only_place_keeps_its_code_in_the_users_cache(tmp_path):
    package, home = tmp_path / "site" / "sketchlearn", tmp_path / "home"
    shutil.copytree(Path(sketchlearn.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    # root may write anywhere: a file where the folder should be keeps everybody out
    (package / "kernels" / "__pycache__").write_text("")
    script = "from sketchlearn.kernels import active_kernel, _compile; print(active_kernel(), _compile.cache_folder())"
    where = {"PYTHONPATH": package.parent, "HOME": home, "XDG_CACHE_HOME": home / ".cache"}
    first = _run("-c", script, **where)
    tier, folder = first.stdout.split()
    assert tier in ("vector", "plain")
    assert Path(folder).is_relative_to(home)
    assert list(Path(folder).glob("*.nbi"))
    assert "compiling" in first.stderr
    assert "compiling" not in _run("-c", script, **where).stderr
