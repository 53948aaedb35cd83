"""The engine of GPUs: what every engine promises, on an emulated device everywhere and on a real one where it is."""

import os
import sys
import types
from functools import cache

import emulated_gpu
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.engines import gpu as engine_module
from sketchlearn.engines.gpu import GpuEngine, worth_it
from sketchlearn.kernels.cuda import device

PHI = sl.FourierFeatures.draw(dim=4, size=50, scale=1.0, seed=0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20_000, 4)) * RNG.choice([0.1, 1.0, 1e4], size=(20_000, 1))


@cache
def _engine(kind):
    if kind == "emulated":
        if emulated_gpu.COMPILER is None:
            pytest.skip("no g++ here: the kernels can't be compiled for the host")
        return GpuEngine([emulated_gpu.EmulatedDevice(), emulated_gpu.EmulatedDevice(1)])
    try:
        return GpuEngine(device.devices())
    except device.GpuUnavailable as error:
        if os.environ.get("SKETCHLEARN_REQUIRE_GPU"):
            raise
        pytest.skip(str(error))


@pytest.fixture(params=["emulated", "real"])
def engine(request):
    return _engine(request.param)


@pytest.mark.parametrize("kind", ["emulated", "real"])
@settings(max_examples=8, deadline=None)
@given(
    n=st.integers(1, 3000),
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 5),
    batch=st.integers(1, 700),
    order=st.sampled_from(["C", "F"]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_bytes_are_those_of_threads(kind, n, seed, workers, batch, order, dtype):
    engine = _engine(kind)
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, 4)) * rng.choice([0.1, 1.0, 1e4], size=(n, 1))).astype(dtype)
    want = sl.sketch(rows, PHI, engine="threads").to_bytes()
    shuffled = np.array(rows[rng.permutation(n)], order=order)
    assert sl.sketch(shuffled, PHI, engine=engine, workers=workers).to_bytes() == want
    cuts = np.sort(rng.integers(0, n + 1, size=n // batch))
    assert sl.sketch(iter(np.split(rows, cuts)), PHI, engine=engine, workers=workers).to_bytes() == want


@pytest.mark.parametrize("weights", [RNG.integers(0, 4, 20_000), RNG.uniform(size=20_000) + 0.01])
def test_weights(engine, weights):
    got = sl.sketch(X, PHI, engine=engine, sample_weight=weights)
    assert got.to_bytes() == sl.sketch(X, PHI, sample_weight=weights).to_bytes()


def test_groups(engine):
    labels = np.array(["a", "b", "c"])[RNG.integers(0, 3, 20_000)]
    assert sl.sketch(X, PHI, engine=engine, group_by=labels) == sl.sketch(X, PHI, group_by=labels)


def test_parts_of_both_add_up(engine):
    total = sl.sketch(X[:7000], PHI, engine=engine) + sl.sketch(X[7000:], PHI)
    assert total.to_bytes() == sl.sketch(X, PHI).to_bytes()


def test_other_maps(engine):
    few = X[:500]
    for phi in (
        PHI.standardized(X.mean(0), X.std(0)),
        sl.QuadraticFeatures.draw(dim=4, size=3, seed=0, radius=2.0),
        sl.QuadraticFeatures.draw(dim=4, seed=0, radius=2.0),
        PHI.redrawn(structure="gr2", quantized=True),
        PHI.redrawn(features_per_row=25),
        sl.QuarticFeatures.draw(dim=4, size=10),
        sl.design(few, task="pca", missing="em", bounds=(few.min(0), few.max(0))),
    ):
        assert sl.sketch(few, phi, engine=engine).to_bytes() == sl.sketch(few, phi).to_bytes()
    # no grid: the processor sums, to the same promise
    phi = sl.QuadraticFeatures.draw(dim=4, size=3, seed=0)
    np.testing.assert_allclose(sl.sketch(few, phi, engine=engine).mean, sl.sketch(few, phi).mean, rtol=1e-6)


def test_invalid_rows(engine):
    rows = X.copy()
    rows[17_003, 2] = np.nan
    rows[19_000, 0] = np.inf
    with pytest.raises(ValueError, match=r"row 17003 .* holds NaN or a null in column 2"):
        sl.sketch(rows, PHI, engine=engine)
    with pytest.raises(ValueError, match="row 17003 "):
        sl.sketch(rows, PHI, engine=engine, group_by=np.arange(20_000) % 3)
    weights = RNG.uniform(size=20_000) + 0.1
    for options in ({}, {"sample_weight": weights}, {"group_by": np.arange(20_000) % 3, "sample_weight": weights}):
        assert sl.sketch(rows, PHI, engine=engine, on_invalid="skip", **options) == sl.sketch(
            rows, PHI, on_invalid="skip", **options
        )


def test_files_progress_and_checkpoints(engine, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    want = sl.sketch(X, PHI).to_bytes()
    seen = []

    def interrupt(done, total):
        seen.append((done, total))
        raise KeyboardInterrupt

    point = tmp_path / "pass.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        sl.sketch(tmp_path / "rows.npy", PHI, engine=engine, workers=1, progress=interrupt, checkpoint=point)
    assert 0 < seen[0][0] < seen[0][1] == 20_000
    assert sl.sketch(tmp_path / "rows.npy", PHI, checkpoint=point).to_bytes() == want
    assert sl.sketch(tmp_path / "rows.npy", PHI, engine=engine).to_bytes() == want


def test_devices_share_the_work():
    both = [emulated_gpu.EmulatedDevice(), emulated_gpu.EmulatedDevice(1)]
    if emulated_gpu.COMPILER is None:
        pytest.skip("no g++ here: the kernels can't be compiled for the host")
    assert sl.sketch(X, PHI, engine=GpuEngine(both), workers=2) == sl.sketch(X, PHI)
    assert all(d.launches for d in both)


# -- arrays on the device --------------------------------------------------------------------


def _libraries():
    cupy = pytest.importorskip("cupy")
    yield cupy.asarray
    try:
        import torch
    except ImportError:
        return
    yield lambda a: torch.from_numpy(np.ascontiguousarray(a)).cuda()


def test_arrays_that_are_on_a_gpu_stay_there():
    _engine("real")
    rows = X.astype(np.float32)
    labels, weights = np.arange(len(rows)) % 3, RNG.integers(0, 3, len(rows))
    broken = rows.copy()
    broken[11, 1] = np.nan
    for put in _libraries():
        for engine in ("auto", "gpu"):
            assert sl.sketch(put(rows), PHI, engine=engine).to_bytes() == sl.sketch(rows, PHI).to_bytes()
        there = put(np.ascontiguousarray(rows.T)).T  # columns first in memory
        assert sl.sketch(there, PHI, sample_weight=weights) == sl.sketch(rows, PHI, sample_weight=weights)
        assert sl.sketch(put(rows), PHI, group_by=labels) == sl.sketch(rows, PHI, group_by=labels)
        with pytest.raises(ValueError, match=r"row 11 .* holds NaN or a null in column 1"):
            sl.sketch(put(broken), PHI)
        assert sl.sketch(put(rows), PHI, engine="threads") == sl.sketch(rows, PHI)
        batches = [put(part) for part in np.array_split(rows, 7)]
        assert sl.sketch(iter(batches), PHI, engine="gpu") == sl.sketch(rows, PHI)
        assert sl.sketch(batches, PHI) == sl.sketch(rows, PHI)
        with pytest.raises(ValueError, match="two dimensions"):
            sl.sketch(put(rows[:, 0]), PHI)
        free = sl.QuadraticFeatures.draw(dim=4, size=3, seed=0)
        np.testing.assert_allclose(sl.sketch(put(rows), free).mean, sl.sketch(rows, free).mean, rtol=1e-5)


# -- where a pass runs -----------------------------------------------------------------------


def test_a_gpu_is_used_by_itself_only_where_that_pays(monkeypatch):
    large = sl.read(np.empty((1, 4)))
    phi = sl.FourierFeatures.draw(dim=4, size=1000, scale=1.0, seed=0)
    monkeypatch.setattr(engine_module, "visible", lambda: True)
    monkeypatch.setattr(engine_module.importlib.util, "find_spec", lambda name: object())
    for rows, size, worth in ((10**9, 1000, True), (10**5, 1000, False), (10**10, 50, False), (None, 1000, False)):
        source = sl.sources.Source(large.batches, rows)
        assert worth_it(source, phi if size == 1000 else PHI) is worth
    monkeypatch.setattr(engine_module, "visible", lambda: False)
    assert not worth_it(sl.sources.Source(large.batches, 10**9), phi)


class _CudaError(RuntimeError):
    pass


def _fake_cupy(error=None, count=0):
    def get_device_count():
        if error:
            raise _CudaError(error)
        return count

    runtime = types.SimpleNamespace(
        getDeviceCount=get_device_count, CUDARuntimeError=_CudaError, runtimeGetVersion=lambda: 13000
    )
    return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (None, "needs CuPy, which is not installed: pip install"),
        (_fake_cupy(count=0), "no CUDA device is visible here; use engine='threads'"),
        (_fake_cupy("cudaErrorNoDevice: no CUDA-capable device is detected"), "CUDA_VISIBLE_DEVICES"),
        (
            _fake_cupy("cudaErrorInsufficientDriver: CUDA driver version is insufficient"),
            "too old for this CuPy.*CUDA 13",
        ),
        (_fake_cupy("cudaErrorUnknown: unknown error"), "CUDA can't be used here: cudaErrorUnknown"),
    ],
)
def test_what_is_missing_is_said_in_words(monkeypatch, module, words):
    device.import_cupy.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", module)
    try:
        with pytest.raises(device.GpuUnavailable, match=words):
            sl.sketch(X, PHI, engine="gpu")
        assert not device.visible()
    finally:
        device.import_cupy.cache_clear()
