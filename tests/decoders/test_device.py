"""Products of a search on a device, run with NumPy in the place of CuPy."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders import device
from sketchlearn.decoders.budget import spending
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.kernels.cuda import atoms
from sketchlearn.kernels.cuda import lloyd as cuda_lloyd
from tests.clusters import gaussian_clusters


@pytest.fixture
def numpy_device(monkeypatch):
    monkeypatch.setattr(device, "devices", list)
    monkeypatch.setattr(device, "import_cupy", lambda: np)
    monkeypatch.setattr(device, "WORTH", 0)
    monkeypatch.setattr(atoms, "_PIECE", 700)  # so that frequencies, and points, come in several pieces
    monkeypatch.setattr(cuda_lloyd, "_PIECE", 700)


@pytest.fixture(scope="module")
def sketch():
    X, _, _ = gaussian_clusters(5, 3, 100, seed=1)
    return sl.sketch(X, sl.design(X[:1000], n_components=5, seed=0))


def test_products_are_those_of_the_processor(sketch, numpy_device):
    here = Problem.from_sketch(sketch)
    with device.decoding_engine("gpu"):
        there = Problem.from_sketch(sketch)
    assert there.on_device
    assert not here.on_device
    rng = np.random.default_rng(0)
    means, weights = rng.standard_normal((7, 3)), rng.random(7) / 7
    for a, b in zip(here.shared_width(means, 0.1, weights), there.shared_width(means, 0.1, weights), strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)
    target = rng.standard_normal((2, here.size)).astype(np.float32) / here.size
    for a, b in zip(here.correlation(means, target), there.correlation(means, target), strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)
    variances = rng.uniform(0.05, 0.2, 7)
    slopes = (problem.slopes(SPHERICAL, weights, means, variances) for problem in (here, there))
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)
    state = State.shared(weights, means, 0.1)
    np.testing.assert_allclose(there.residual(state), here.residual(state), atol=2e-6)
    np.testing.assert_allclose(there.bends(state), here.bends(state), rtol=2e-5, atol=2e-6)
    for a, b in zip(here.gram(state), there.gram(state), strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)


def test_decoders_find_the_same_centres(sketch, numpy_device, monkeypatch):
    expected = sl.decode(sketch, 5, random_state=0)
    calls = []
    real = atoms.ResidentAtoms.shared_width
    monkeypatch.setattr(atoms.ResidentAtoms, "shared_width", lambda self, *given: calls.append(1) or real(self, *given))
    with sl.decoding_engine("gpu"):
        found = sl.decode(sketch, 5, random_state=0)
    assert calls
    assert found.code == expected.code
    np.testing.assert_allclose(found.centers, expected.centers, rtol=1e-3, atol=1e-3)
    calls.clear()
    sl.decode(sketch, 5, random_state=0)
    assert not calls


def test_cells_are_those_of_the_processor(numpy_device):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2000, 3)).astype(np.float32), rng.random(2000)
    start = np.vstack([x[:6], [[100.0, 0.0, 0.0]]]).astype(np.float32)  # the last one gets no point
    found = {}
    for engine in device.ENGINES:
        centers = start.copy()
        with device.decoding_engine(engine):
            labels, cost = device.lloyd(x, weights, centers, 20, 1e-6)
        found[engine] = labels, cost, centers
    np.testing.assert_array_equal(found["cpu"][0], found["gpu"][0])
    np.testing.assert_allclose(found["gpu"][1], found["cpu"][1], rtol=1e-5)
    np.testing.assert_allclose(found["gpu"][2], found["cpu"][2], rtol=1e-4, atol=1e-5)


def test_work_of_a_device_counts_less(sketch, numpy_device):
    means = np.zeros((7, 3))
    spent = {}
    for engine in device.ENGINES:
        with device.decoding_engine(engine), spending() as budget:
            Problem.from_sketch(sketch).shared_width(means, 0.1, np.ones(7))
            spent[engine] = budget.spent
    assert spent["gpu"] > 0
    assert spent["cpu"] == pytest.approx(device.SPEED * spent["gpu"])


def test_small_problems_stay_on_the_processor(sketch, numpy_device, monkeypatch):
    monkeypatch.setattr(device, "WORTH", 2**20)
    monkeypatch.setattr(device, "resident", None)
    with sl.decoding_engine("gpu"):
        assert len(sl.decode(sketch, 5, random_state=0).centers) == 5


def test_errors():
    with pytest.raises(ValueError, match="engine='tpu': choose one of cpu, gpu"), sl.decoding_engine("tpu"):
        pass
