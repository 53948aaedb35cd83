import numpy as np
import pytest

import sketchlearn as sl

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from sketchlearn.cli import main
from sketchlearn.cli.pilot import recipe_text


@pytest.fixture
def run(capfdbinary, monkeypatch, tmp_path):
    """Run a command in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = main([str(a) for a in arguments])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return call


@pytest.fixture
def designed(monkeypatch):
    """A plain stand-in for the design, so that these tests are about the command line alone."""

    def design(sample=None, *, bounds=None, n_components, task, seed, size=None, standardize=False, projection=None):
        assert size is None
        assert projection is None
        if task not in ("kmeans", "gmm"):
            raise ValueError(f"task={task!r}: choose kmeans or gmm")
        dim = len(bounds[0]) if sample is None else sample.shape[1]
        scale = 1.0 if sample is None else float(np.sqrt(np.var(sample, axis=0).mean()))
        phi = sl.FourierFeatures.draw(dim=dim, size=10 * n_components, scale=scale, seed=seed)
        return phi.standardized(sample.mean(0), sample.std(0)) if standardize else phi

    monkeypatch.setattr(sl, "design", design, raising=False)


@pytest.fixture
def features(tmp_path):
    phi = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
    (tmp_path / "map.json").write_bytes(recipe_text(phi))
    return phi
