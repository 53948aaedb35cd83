"""The CUDA kernels against the processor's loops: compiled for the host everywhere, and on a GPU where there is one."""

import os
import shutil
import subprocess
from functools import cache

import emulated_gpu
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.kernels import Plan, _constants, hadamard, prepare
from sketchlearn.kernels.cuda import device, floating, kinds, recipes, rows, source, structured, subsampled, summer
from sketchlearn.kernels.cuda.summer import CudaSummer

# columns and features: whole frequencies in registers, register tiles of 64 and of 128 frequencies, and their ends
SHAPES = [(1, 1), (4, 1330), (10, 130), (37, 130), (70, 200)]


@cache
def _device(kind):
    if kind == "emulated":
        if emulated_gpu.COMPILER is None:
            pytest.skip("no g++ here: the kernels can't be compiled for the host")
        return emulated_gpu.EmulatedDevice()
    try:
        return device.devices()[0]
    except device.GpuUnavailable as error:
        if os.environ.get("SKETCHLEARN_REQUIRE_GPU"):
            raise
        pytest.skip(str(error))


@pytest.fixture(params=["emulated", "real"])
def gpu(request):
    return _device(request.param)


def _fourier(rng, d, m):
    half_turns = rng.normal(size=(m, d)).astype(np.float32)
    center = rng.normal(size=d).astype(np.float32).astype(float)
    rms = np.pi * np.sqrt((half_turns.astype(float) ** 2).mean(0))
    return Plan("fourier", d, (2, m), np.dtype(np.int64), {"half_turns": half_turns, "center": center, "rms": rms})


def _assert_equal(got, want, skip=True):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if b.first_invalid is not None and not skip:
            assert a.first_invalid == b.first_invalid
            continue
        np.testing.assert_array_equal(a.sums, b.sums)
        np.testing.assert_array_equal(a.lower, b.lower)
        np.testing.assert_array_equal(a.upper, b.upper)
        assert (a.rows, a.weight, a.skipped) == (b.rows, b.weight, b.skipped)


@pytest.mark.parametrize("kind", ["emulated", "real"])
@settings(max_examples=12, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    n=st.integers(0, 400),
    spread=st.sampled_from([1e-3, 1.0, 30.0, 1e4, 1e8]),
    dtype=st.sampled_from([np.float32, np.float64]),
    heaviest=st.sampled_from([None, 3, 2**40]),
    runs=st.sampled_from([1, 1, 7]),
    invalid=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_cosines_and_sines_have_the_bits_of_the_processor(kind, shape, n, spread, dtype, heaviest, runs, invalid, seed):
    gpu = _device(kind)
    rng = np.random.default_rng(seed)
    d, m = shape
    plan = _fourier(rng, d, m)
    X = (rng.normal(size=(n, d)) * spread ** rng.uniform(0, 1, size=(n, 1))).astype(dtype)
    for _ in range(min(n, invalid)):
        X[rng.integers(n), rng.integers(d)] = rng.choice([np.nan, np.inf, -np.inf, 3e38])
    weights = None if heaviest is None else rng.integers(0, heaviest, n)
    starts = np.concatenate([[0], np.sort(rng.integers(0, n + 1, runs - 1)), [n]]).astype(np.int64)
    for skip in (True, False):
        got = CudaSummer(plan, [gpu]).sum_runs(X, starts, weights, skip)
        _assert_equal(got, prepare(plan).sum_runs(X, starts, weights, skip), skip)


@pytest.mark.parametrize("variant", ["gaussian", "sphere", "complex", "difference", "exact"])
@pytest.mark.parametrize(("d", "m"), [(4, 5), (40, 200)])
@pytest.mark.parametrize("weighted", [False, True])
def test_quadratic_features_on_the_grid_have_the_bits_of_the_processor(gpu, variant, d, m, weighted):
    rng = np.random.default_rng(d)
    size = None if variant == "exact" else m
    phi = sl.QuadraticFeatures.draw(d, size, 1, variant=variant, radius=2.0 * np.sqrt(d), center=rng.normal(size=d))
    for dtype in (np.float32, np.float64):
        X = (rng.normal(size=(300, d)) * 4 ** rng.uniform(-1, 1, size=(300, 1))).astype(dtype)
        X[7, 1] = np.inf
        weights = rng.integers(0, 2**30, 300) if weighted else None
        starts = np.array([0, 100, 100, 300])
        got = CudaSummer(phi.plan(), [gpu]).sum_runs(X, starts, weights, True)
        _assert_equal(got, phi.summer.sum_runs(X, starts, weights, True))


def test_sums_of_many_equal_rows_do_not_overflow(gpu):
    # every cosine is about 1: what a block adds modulo 2**32 has to be put away in time
    rng = np.random.default_rng(6)
    for d, kind in ((37, "fourier"), (20, "hadamard")):
        plan = _fourier(rng, d, 64) if kind == "fourier" else _structured(rng, d, 64, "gr2", False)
        X = np.tile(plan.arrays["center"], (12_000, 1)).astype(np.float32)
        _assert_equal([CudaSummer(plan, [gpu]).sum_rows(X)], [prepare(plan).sum_rows(X)])


def _structured(rng, d, m, structure, dithered):
    p = 1 << (d - 1).bit_length()
    blocks, diagonals = -(-m // p), {"hadamard": 3, "gr2": 2, "fastfood": 1}[structure]
    none = np.empty((0, 0), np.float32)
    arrays = {
        "center": rng.normal(size=d).astype(np.float32).astype(float),
        "rms": np.full(d, d**-0.5),
        "stretch": rng.uniform(0.5, 2, d).astype(np.float32),
        "signs": rng.integers(0, 256, (blocks, diagonals, -(-p // 8)), dtype=np.uint8),
        "normals": none if structure == "hadamard" else rng.normal(size=(blocks, p)).astype(np.float32),
        "permutation": none.astype(np.int32),
        "radius": (rng.uniform(0.1, 3, m) * p ** (-1.0 if structure == "fastfood" else -1.5)).astype(np.float32),
    }
    if structure == "fastfood":
        arrays["permutation"] = np.array([rng.permutation(p) for _ in range(blocks)], np.int32)
    if dithered:
        arrays["dither"] = (2 * rng.uniform(size=m)).astype(np.float32)
    return Plan("hadamard", d, (2, m), np.dtype(np.int64), arrays, {"p": p})


def _compare(gpu, plan, rng, spread, n=300):
    """Rows of both precisions, near and far, some invalid, with and without weights, in runs."""
    starts = np.array([0, 100, 100, n])
    for dtype, weights in ((np.float32, None), (np.float64, rng.integers(0, 2**30, n))):
        X = (rng.normal(size=(n, plan.dim)) * spread ** rng.uniform(-0.2, 1, size=(n, 1))).astype(dtype)
        X[7, -1], X[250, 0] = np.inf, np.nan
        want = prepare(plan).sum_runs(X, starts, weights, True)
        _assert_equal(kinds.device_summer(plan, [gpu]).sum_runs(X, starts, weights, True), want)


# one thread per row; one warp per row, with a permutation; several passes; one block of threads per row
@pytest.mark.parametrize(
    ("d", "m", "structure", "dithered"),
    [(10, 40, "gr2", False), (60, 100, "fastfood", True), (600, 1200, "hadamard", False), (1030, 2048, "gr2", True)],
)
def test_structured_features_have_the_bits_of_the_processor(gpu, d, m, structure, dithered):
    rng = np.random.default_rng(d)
    _compare(gpu, _structured(rng, d, m, structure, dithered), rng, 1e4, 300)


@pytest.mark.parametrize(("log", "each_log", "transform"), [(10, 5, 0), (10, 5, 1), (12, 5, 1), (7, 4, 1), (3, 5, 1)])
def test_every_level_of_a_transform_is_in_the_hands_of_a_thread(log, each_log, transform):
    order = hadamard.levels(log, transform)
    for number in range(structured.pass_count(log, each_log)):
        at = structured.places(log, each_log, transform, number)
        np.testing.assert_array_equal(np.sort(at.reshape(-1)), np.arange(1 << log))
        for bit in order[number * each_log : (number + 1) * each_log]:
            assert all(
                (at[:, 0] ^ 1 << bit == other).any() or (at[:, 0] == other ^ 1 << bit).any() for other in at[:, 0]
            )


@pytest.mark.parametrize("each_log", [source.EACH_LOG, source.FAR_EACH_LOG])
@pytest.mark.parametrize("log", range(source.MOST_LOG + 1))
def test_places_in_shared_memory_are_distinct_and_mostly_in_banks_of_their_own(log, each_log):
    steps, size = structured.shared_memory(log, each_log)
    place = np.arange(1 << log)
    at = sum(((place >> bit & 1) * step for bit, step in enumerate(steps)), 0 * place)
    assert len(set(at)) == len(at)
    assert at.min() >= 0
    assert at.max() < size
    group = 1 << max(0, log - each_log)
    for transform in (0, 1):
        for number in range(structured.pass_count(log, each_log)):
            threads = at[structured.places(log, each_log, transform, number)[0]]
            warp = np.concatenate([threads + row * size for row in range(max(1, 32 // group))])[:32]
            if log <= 2 * each_log:
                assert len(set(warp % 32)) == 32


@pytest.mark.parametrize(("d", "m"), [(10, 130), (37, 70)])
def test_signs_have_the_bits_of_the_processor(gpu, d, m):
    rng = np.random.default_rng(d)
    plan = _fourier(rng, d, m)
    arrays = {**plan.arrays, "dither": (2 * rng.uniform(size=m)).astype(np.float32)}
    _compare(gpu, Plan("signs", d, (2, m), np.dtype(np.int64), arrays), rng, 1e4)


@pytest.mark.parametrize(("d", "m"), [(10, 130), (37, 70)])
def test_powers_of_whitened_rows_have_the_bits_of_the_processor(gpu, d, m):
    rng = np.random.default_rng(d)
    plan = sl.QuarticFeatures.draw(dim=d, size=m).plan()
    arrays = {**plan.arrays, "center": rng.normal(size=d), "whitening": rng.normal(size=(d, d)) / np.sqrt(d)}
    _compare(gpu, Plan("powers", d, plan.sums_shape, plan.sums_dtype, arrays, plan.numbers), rng, 4.0)


def test_structured_squares_have_the_bits_of_the_processor(gpu):
    rng = np.random.default_rng(0)
    phi = sl.QuadraticFeatures.draw(50, 90, 1, variant="hadamard", radius=14.0, center=rng.normal(size=50))
    _compare(gpu, phi.plan(), rng, 4.0)


@pytest.mark.parametrize("options", [{"features_per_row": 20}, {"features_per_row": 64, "structure": "gr2"}])
def test_groups_of_features_have_the_bits_of_the_processor(gpu, options, monkeypatch):
    monkeypatch.setattr(subsampled, "_FEWEST_ROWS", 100)
    monkeypatch.setattr(subsampled, "_PIECE_BYTES", 1)
    rng = np.random.default_rng(0)
    phi = sl.FourierFeatures.draw(dim=37, size=130, scale=1.0, seed=3, **options)
    _compare(gpu, phi.plan(), rng, 1e4)
    X = rng.normal(size=(300, 37))
    X[123, 1] = np.nan
    assert kinds.device_summer(phi.plan(), [gpu]).sum_rows(X).first_invalid == 123


def test_blocks_that_are_too_long_are_left_to_the_processor():
    rng = np.random.default_rng(0)
    assert kinds.runs_on_device(_structured(rng, 4096, 10, "hadamard", False))
    assert not kinds.runs_on_device(_structured(rng, 4097, 10, "hadamard", False))


def test_any_strides(gpu):
    rng = np.random.default_rng(0)
    plan = _fourier(rng, 10, 130)
    wide = rng.normal(size=(500, 31)).astype(np.float32)
    for X in (wide[::2, 1::3], np.asfortranarray(wide[:, :10]), wide[::-1, :10], wide[:, 9::-1]):
        _assert_equal([CudaSummer(plan, [gpu]).sum_rows(X)], [prepare(plan).sum_rows(X)])


def test_many_chunks_of_rows_of_the_host_are_one_sum(gpu, monkeypatch):
    monkeypatch.setattr(summer, "_COPIED_BYTES", 1)
    monkeypatch.setattr(device, "PIECE_BYTES", 1000)
    rng = np.random.default_rng(1)
    plan = _fourier(rng, 10, 130)
    X = rng.normal(size=(5000, 10)).astype(np.float32)
    X[4321] = np.nan
    weights = rng.integers(0, 9, 5000)
    starts = np.array([0, 1, 1500, 5000])
    _assert_equal(
        CudaSummer(plan, [gpu]).sum_runs(X, starts, weights, True), prepare(plan).sum_runs(X, starts, weights, True)
    )
    assert CudaSummer(plan, [gpu]).sum_rows(X).first_invalid == 4321


def test_rows_on_the_device_are_read_where_they_are(monkeypatch):
    gpu = _device("emulated")
    monkeypatch.setattr(summer, "_STAGED_BYTES", 1)
    rng = np.random.default_rng(2)
    plan = _fourier(rng, 10, 130)
    wide = rng.normal(size=(2000, 31)).astype(np.float32)
    wide[1555] = np.inf
    raw = np.zeros(4001, np.uint8)
    raw[1:] = np.ascontiguousarray(wide[:100, :10]).view(np.uint8).ravel()
    odd = raw[1:].view(np.float32).reshape(100, 10)  # not even aligned to its items
    weights = rng.integers(0, 3, 2000)
    for X in (wide[:, :10].copy(), np.asfortranarray(wide[:, :10]), wide[::2, ::3][:, :10], odd, wide[::-1, :10]):
        before, w = gpu.uploaded, weights[: len(X)]
        got = CudaSummer(plan, [gpu]).sum_rows(rows.DeviceRows(emulated_gpu.Resident(X)), w, True)
        assert gpu.uploaded - before == w.nbytes
        _assert_equal([got], [prepare(plan).sum_rows(np.array(X), w, True)])
    halves = wide[:100, :10].astype(np.float16)
    got = CudaSummer(plan, [gpu]).sum_rows(rows.DeviceRows(emulated_gpu.Resident(halves)))
    _assert_equal([got], [prepare(plan).sum_rows(halves.astype(float))])


def test_little_memory_means_smaller_chunks_and_then_an_error():
    if emulated_gpu.COMPILER is None:
        pytest.skip("no g++ here: the kernels can't be compiled for the host")
    rng = np.random.default_rng(3)
    plan = _fourier(rng, 10, 130)
    X = rng.normal(size=(20_000, 10))
    small = emulated_gpu.EmulatedDevice(memory=300_000)
    _assert_equal([CudaSummer(plan, [small]).sum_rows(X)], [prepare(plan).sum_rows(X)])
    assert small.launches > 3
    with pytest.raises(MemoryError, match=r"too little free memory even for small chunks.*engine='threads'"):
        CudaSummer(plan, [emulated_gpu.EmulatedDevice(memory=1000)]).sum_rows(X)


def test_rows_on_a_device_that_is_not_in_use_are_refused():
    plan = _fourier(np.random.default_rng(4), 10, 130)
    resident = emulated_gpu.Resident(np.zeros((3, 10)), 5)
    with pytest.raises(ValueError, match="the rows are on GPU 5"):
        CudaSummer(plan, [_device("emulated")]).sum_rows(rows.DeviceRows(resident))


def test_which_rows_are_valid(gpu):
    plan = _fourier(np.random.default_rng(5), 3, 1330)
    X = np.array([[0.0, 1.0, 2.0], [np.nan, 0.0, 0.0], [1e30, 0.0, 0.0]])
    np.testing.assert_array_equal(CudaSummer(plan, [gpu]).valid(X), [True, False, False])


def test_sums_without_kernels_are_refused():
    plan = sl.QuadraticFeatures.draw(dim=4, size=3, seed=0).plan()
    assert not recipes.on_grid(plan)
    with pytest.raises(ValueError, match="no kernels for sums of the kind 'squares'"):
        CudaSummer(plan, [_device("emulated")])


UPPER = [(i, j) for i in range(5) for j in range(i, 5)]


def _exact_squares(phi, rows):
    plan = phi.plan()
    squares = (rows @ plan.arrays["directions"].T.astype(np.longdouble)) ** 2
    second = plan.numbers["second"]
    return squares[:, : phi.size] + second * squares[:, phi.size :] if second else squares


@pytest.mark.parametrize("variant", ["gaussian", "complex", "difference", "exact"])
@pytest.mark.parametrize("spread", [1e-100, 1.0, 1e30])
def test_quadratic_features_without_a_radius_are_as_close_as_the_processors(gpu, variant, spread, monkeypatch):
    rng = np.random.default_rng(0)
    d, size = 5, None if variant == "exact" else 20
    phi = sl.QuadraticFeatures.draw(d, size, 1, variant=variant, center=spread * rng.normal(size=d))
    monkeypatch.setattr(floating, "_BLOCK_BYTES", 5000)
    # far from the centre: what is left of the digits shows how the sums were made
    X = spread * (rng.normal(size=(300, d)) + 1000.0)
    weights = rng.integers(0, 2**30, 300)
    broken = X.copy()
    broken[7, 1], broken[150, 0] = np.nan, np.inf
    free = weights.copy()
    free[[7, 150]] = 0
    kernel = kinds.device_summer(phi.plan(), [gpu])
    for part, w in ((X, None), (X, weights), (broken, weights), (broken, free), (X[:0], None)):
        got, want = kernel.sum_rows(part, w, True), phi.summer.sum_rows(part, w, True)
        # the columns come last but one; the processor projects in float32, which is no measure
        exact = np.longdouble(part[np.isfinite(part).all(1)]) - phi.center
        units = np.ones(len(exact)) if w is None else w[np.isfinite(part).all(1)]
        squares = _exact_squares(phi, exact) if size else np.stack([exact[:, i] * exact[:, j] for i, j in UPPER], 1)
        for values, sums in ((squares, got.sums[:, : -d - 1]), (exact, got.sums[:, -d - 1 : -1])):
            truth = (units[:, None] * values).sum(0)
            error = np.abs(sums.astype(np.longdouble).sum(0) - truth)
            assert error.max() <= 1e-14 * np.abs(truth).max()
        np.testing.assert_array_equal((got.lower, got.upper), (want.lower, want.upper))
        assert (got.rows, got.weight, got.skipped) == (want.rows, want.weight, want.skipped)
    assert kernel.sum_rows(broken, weights).first_invalid == 7
    starts = np.array([0, 10, 10, 300])
    got, want = (s.sum_runs(X, starts, weights) for s in (kernel, phi.summer))
    assert [part.weight for part in got] == [part.weight for part in want]
    np.testing.assert_array_equal(kernel.valid(broken), phi.summer.valid(broken))


def test_no_constant_is_rounded_on_its_way_to_the_compiler():
    text = source.source(source.small(2), "sum_plain")
    literals = dict(
        line.split(" ")[1:] for line in text.splitlines() if line.startswith("#define SL_") and "(" not in line
    )
    for i, c in enumerate(_constants.COS64):
        assert float.fromhex(literals[f"SL_COS64_{i}"]) == c
    for i, c in enumerate(_constants.SIN32):
        assert float.fromhex(literals[f"SL_SIN32_{i}"].removesuffix("f")) == float(np.float32(c))
    assert int(literals["SL_ZERO32"].removesuffix("u"), 16) == np.float32(3.0).view(np.uint32)


@pytest.mark.parametrize(
    ("shape", "entry"),
    [
        (source.small(10), "sum_plain"),
        (source.small(10), "stage_float"),
        (source.small(10), "far_double"),
        (source.tiled(64), "sum_plain"),
        (source.tiled(64).weighted, "sum_weighted"),
        (source.tiled(40, "Squares"), "stage_double"),
        (source.products(40), "sum_weighted"),
        (source.hadamard(600, "Turns", 10, 3, False), "sum_plain"),
        (source.hadamard(40, "Signs", 6, 2, True), "far_float"),
        (source.tiled(64, "Powers"), "whiten_float"),
        (source.rows(10), "pick_double"),
        (source.hadamard(64, "Turns", 6, 3, False), "stage_float"),
        (source.hadamard(32, "Turns", 5, 3, False), "stage_double"),
        (source.hadamard(4096, "Signs", 12, 2, True), "far_double"),
    ],
)
def test_the_source_compiles_for_a_gpu(shape, entry, tmp_path):
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("no nvcc here: the source was not compiled for a GPU")
    path = tmp_path / "kernel.cu"
    path.write_text(source.source(shape, entry))
    command = [
        compiler,
        "-cubin",
        "-arch=sm_90",
        "-Xptxas=-v",
        *source.options(),
        "-o",
        tmp_path / "kernel.cubin",
        path,
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "warning" not in run.stderr
    assert f"'{entry}' for 'sm_90'" in run.stderr
