"""Run where only the wheel and its dependencies are installed: the first minute of a new user."""

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import sketchlearn as sl


def smoke() -> None:
    rng = np.random.default_rng(0)
    rows = np.array([[0.0, 0.0], [9.0, 9.0]])[rng.integers(2, size=4000)] + rng.normal(size=(4000, 2))
    phi = sl.design(rows[:500], n_components=2)
    a, b = sl.sketch(rows[:3000], phi), sl.sketch(rows[3000:], phi)
    assert a + b == sl.sketch(rows, phi)
    path = Path(tempfile.mkdtemp()) / "all.sketch"
    (a + b).save(path)
    model = sl.CompressiveKMeans(2, random_state=0).fit_sketch(sl.load(path))
    assert np.allclose(np.sort(model.cluster_centers_[:, 0]), [0, 9], atol=0.3)
    sys.stdout.write(f"sketchlearn {version('sketchlearn')} on Python {sys.version.split()[0]}: works\n")


if __name__ == "__main__":
    smoke()
