import numpy as np
import pytest

import sketchlearn as sl
import sketchlearn.learn.base  # what is imported while the design is replaced would keep the replacement

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from sketchlearn.cli import main
from sketchlearn.cli.pilot import recipe_text
from sketchlearn.designs.spread import standard_units


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

    def from_bounds(*, bounds, n_components, task, seed, size, missing):
        assert size is None
        assert missing is None
        return sl.FourierFeatures.draw(dim=len(bounds[0]), size=10 * n_components, scale=1.0, seed=seed)

    def from_pilot(request, names, projection, **how):
        assert projection is None
        if request.task not in ("kmeans", "gmm"):
            raise ValueError(f"task={request.task!r}: choose kmeans or gmm")
        rows = request.rows()
        scale = float(np.sqrt(np.var(rows, axis=0).mean())) or 1.0
        phi = sl.FourierFeatures.draw(rows.shape[1], 10 * request.n_components, scale, seed=request.seed)
        phi = phi.standardized(*standard_units(rows, names)) if request.standardize else phi
        return phi.with_columns(names)

    monkeypatch.setattr(sl, "design", from_bounds, raising=False)
    monkeypatch.setattr("sketchlearn.designs.front.design_request", from_pilot)


@pytest.fixture
def features(tmp_path):
    phi = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
    (tmp_path / "map.json").write_bytes(recipe_text(phi))
    return phi
