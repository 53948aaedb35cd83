import numpy as np
import pytest
from clusters import gaussian_clusters

import sketchlearn as sl
from sketchlearn.decoders import problem as problems
from sketchlearn.decoders.families import FULL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State


@pytest.mark.parametrize(("k", "d", "separation"), [(5, 2, 1000), (10, 10, 100), (3, 1, 10), (10, 50, 10)])
def test_location_and_scale_come_from_the_sketch_alone(k, d, separation):
    X, _, _ = gaussian_clusters(k, d, separation)
    spread = np.sqrt(X.var(0).mean())
    for phi in (
        sl.design(X[:1000], n_components=k),
        sl.design(bounds=(X.mean(0) - 12 * spread, X.mean(0) + 12 * spread), n_components=k),
    ):
        problem = Problem.from_sketch(sl.sketch(X, phi))
        assert np.linalg.norm(problem.center - X.mean(0)) < 0.3 * spread * np.sqrt(d)
        assert 0.6 < problem.scale / spread < 1.4


def test_empty_and_uninformative_sketches_are_refused():
    phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1e-4, seed=0)
    with pytest.raises(ValueError, match="empty"):
        Problem.from_sketch(sl.Sketch.empty(phi))
    X = np.random.default_rng(0).normal(size=(5000, 2))
    with pytest.raises(ValueError, match="no information"):
        sl.decode(sl.sketch(X, phi), 2)


def test_atoms_are_characteristic_functions():
    """Monte Carlo: sketch of many normal rows against the atom of their law."""
    rng = np.random.default_rng(0)
    d, n = 3, 200_000
    root = rng.normal(size=(d, d))
    mean = rng.normal(size=d)
    X = rng.normal(size=(n, d)) @ root.T + mean
    phi = sl.FourierFeatures.draw(dim=d, size=60, scale=2.0, seed=0)
    sketch = sl.sketch(X, phi)
    problem = Problem.from_sketch(sketch)
    c = (mean - problem.center)[None] / problem.scale
    s = (root @ root.T)[None] / problem.scale**2
    _, _, model = problem.atoms(State(FULL, np.ones(1), c, s))
    error = np.abs(problem.z - model).max()
    assert error < 5 / np.sqrt(n)


def test_wrong_number_of_components():
    phi = sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)
    s = sl.sketch(np.zeros((3, 2)), phi)
    for k in (0, -1, 2.5, "two", True):
        with pytest.raises(ValueError, match="positive integer"):
            sl.decode(s, k)
    with pytest.raises(ValueError, match="n_samples=3"):
        sl.decode(s, 4)
    with pytest.raises(ValueError, match="choose"):
        sl.decode(s, 2, decoder="magic")
    with pytest.raises(ValueError, match="choose"):
        sl.decode(s, 2, criterion="modes")
    with pytest.raises(TypeError, match="sketch"):
        sl.decode(np.zeros(5), 2)


def test_many_columns_are_solved_like_few():
    rng = np.random.default_rng(0)
    for rank in (220, 150):  # and where a direction is missing, the fit is still the best
        A = rng.normal(size=(500, rank)) @ rng.normal(size=(rank, 220))
        b = rng.normal(size=500)
        best = np.linalg.lstsq(A, b, rcond=None)[0]
        found = problems._least_squares(A, b)
        assert np.linalg.norm(A @ found - b) <= np.linalg.norm(A @ best - b) * (1 + 1e-6)
    np.testing.assert_allclose(problems._least_squares(A[:, :3], b), np.linalg.lstsq(A[:, :3], b, rcond=None)[0])
