import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import fourier as reference

from sketchlearn.kernels import Plan, _plain, _vector, prepare
from sketchlearn.kernels import _constants as K
from sketchlearn.kernels.fourier import FourierSummer

TIERS = {"vector": _vector, "plain": _plain, "numpy": reference}


def _plan(half_turns, rms, center=None):
    m, d = half_turns.shape
    arrays = {"half_turns": half_turns, "center": np.zeros(d) if center is None else center, "rms": rms}
    return Plan("fourier", d, (2, m), np.dtype(np.int64), arrays)


def _summer(module, half_turns, center=None):
    rms = np.pi * np.sqrt((half_turns.astype(float) ** 2).mean(0))
    return FourierSummer(_plan(half_turns, rms, center), module)


def _run(module, X, half_turns, weights=None, skip=False, center=None):
    return _summer(module, half_turns, center).sum_rows(X, weights, skip)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60),
    d=st.integers(1, 40),
    m=st.integers(1, 130),
    spread=st.sampled_from([1e-3, 1.0, 30.0, 1e4, 1e8]),
    dtype=st.sampled_from([np.float32, np.float64]),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_all_tiers_give_the_same_bits(n, d, m, spread, dtype, weighted, seed):
    rng = np.random.default_rng(seed)
    half_turns = rng.normal(size=(m, d)).astype(np.float32)
    X = (rng.normal(size=(n, d)) * spread ** rng.uniform(0, 1, size=(n, 1))).astype(dtype)
    weights = rng.integers(0, 5, n) if weighted else None
    center = rng.normal(size=d).astype(np.float32).astype(float)
    results = [_run(module, X, half_turns, weights, skip=True, center=center) for module in TIERS.values()]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].sums, other.sums)
        np.testing.assert_array_equal(results[0].lower, other.lower)
        np.testing.assert_array_equal(results[0].upper, other.upper)
        assert (results[0].rows, results[0].weight) == (other.rows, other.weight)


@pytest.mark.parametrize("far", [False, True])
def test_one_feature_of_one_row_is_accurate_and_bounded(far):
    """Single rows against the true cosine and sine, over whole turns and the edges of the reduction."""
    edges = np.array([0.5, -0.5, 1.5, -1.5, 2.0, 0.0, np.nextafter(np.float32(0.5), np.float32(1))])
    turns = np.concatenate([np.linspace(-3, 3, 3001), edges]).astype(np.float32).astype(float)
    if far:
        turns = turns + 64.0  # half-turns: the same angles beyond the threshold of the float64 path
    summer = _summer(_vector, np.ones((1, 1), np.float32))
    for t in turns:
        sums = summer.sum_rows(np.array([[t]])).sums[:, 0]
        assert np.abs(sums).max() <= 2**K.GRID_BITS + 1
        error = np.abs(sums / 2.0**K.GRID_BITS - [np.cos(np.pi * t), np.sin(np.pi * t)]).max()
        assert error < 3e-7, t


@pytest.mark.parametrize("offset", [0.0, 1.0, 30.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("d", [1, 10, 64])
def test_means_are_within_a_millionth_of_float64(offset, d):
    rng = np.random.default_rng(3)
    half_turns = (rng.normal(size=(300, d)) / np.pi).astype(np.float32)
    X = rng.normal(size=(500, d)) + offset * rng.normal(size=d) / np.sqrt(d)
    for rows in (X, X.astype(np.float32)):
        got = _run(_vector, rows, half_turns).sums / (len(X) * 2.0**K.GRID_BITS)
        phase = np.pi * (rows.astype(np.longdouble) @ half_turns.astype(np.longdouble).T)
        assert np.abs(got[0] - np.cos(phase).mean(0)).max() < 1e-6
        assert np.abs(got[1] - np.sin(phase).mean(0)).max() < 1e-6


@pytest.mark.parametrize("tier", TIERS)
def test_invalid_rows_are_found_or_skipped(tier):
    rng = np.random.default_rng(0)
    half_turns = rng.normal(size=(20, 3)).astype(np.float32)
    X = rng.normal(size=(700, 3))
    bad = {5: np.nan, 300: np.inf, 301: -np.inf, 650: 1e30}
    for row, value in bad.items():
        X[row, row % 3] = value
    assert _run(TIERS[tier], X, half_turns).first_invalid == 5
    got = _run(TIERS[tier], X, half_turns, skip=True)
    want = _run(TIERS[tier], np.delete(X, list(bad), 0), half_turns)
    assert got.skipped == 4
    assert got.rows == want.rows == 696
    np.testing.assert_array_equal(got.sums, want.sums)
    np.testing.assert_array_equal(got.lower, want.lower)


@pytest.mark.parametrize("tier", TIERS)
def test_whole_weights_are_repetition(tier):
    rng = np.random.default_rng(1)
    half_turns = rng.normal(size=(50, 4)).astype(np.float32)
    X = rng.normal(size=(300, 4)) * np.where(rng.uniform(size=300) < 0.3, 100, 1)[:, None]
    weights = rng.integers(0, 4, 300)
    a = _run(TIERS[tier], X, half_turns, weights)
    b = _run(TIERS[tier], np.repeat(X, weights, 0), half_turns)
    np.testing.assert_array_equal(a.sums, b.sums)
    np.testing.assert_array_equal(a.lower, b.lower)
    assert a.weight == b.weight == weights.sum()


def test_any_strides_without_a_copy_give_the_same_sums():
    rng = np.random.default_rng(2)
    half_turns = rng.normal(size=(64, 6)).astype(np.float32)
    big = rng.normal(size=(1000, 18)).astype(np.float32)
    X = big[::2, ::3]
    want = _run(_vector, np.ascontiguousarray(X), half_turns).sums
    frozen = X.copy()
    frozen.flags.writeable = False
    for rows in (X, np.asfortranarray(X), X[::-1][::-1], X.astype(np.float64), frozen):
        np.testing.assert_array_equal(_run(_vector, rows, half_turns).sums, want)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    block=st.integers(1, 60),
    tier=st.sampled_from(sorted(TIERS)),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_runs_are_the_sums_of_their_rows_whatever_the_blocks(lengths, block, tier, weighted, seed):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(starts[-1], 3)) * 10.0 ** rng.integers(-1, 4, (starts[-1], 1))
    X[rng.uniform(size=starts[-1]) < 0.05, 1] = np.nan
    weights = rng.integers(0, 4, starts[-1]) if weighted else None
    summer = _summer(TIERS[tier], rng.normal(size=(21, 3)).astype(np.float32))
    summer._block = block
    runs = summer.sum_runs(X, starts, weights, True)
    for a, b, got in zip(starts[:-1], starts[1:], runs, strict=True):
        want = _summer(TIERS[tier], summer.plan.arrays["half_turns"]).sum_rows(
            X[a:b], None if weights is None else weights[a:b], True
        )
        np.testing.assert_array_equal(got.sums, want.sums)
        np.testing.assert_array_equal([got.lower, got.upper], [want.lower, want.upper])
        assert (got.rows, got.weight, got.skipped, got.first_invalid) == (
            want.rows, want.weight, want.skipped, want.first_invalid,
        )  # fmt: skip
        valid = summer.valid(X[a:b])
        counted = np.ones(b - a, bool) if weights is None else weights[a:b] > 0
        assert (got.rows, got.skipped) == ((valid & counted).sum(), (~valid & counted).sum())


_SCRIPT = """
import hashlib, logging, sys
import numpy as np
from sketchlearn.kernels import Plan, active_kernel, prepare
rng = np.random.Generator(np.random.PCG64(7))
half_turns = (rng.integers(-2**20, 2**20, (333, 17)) / 2**20).astype(np.float32)
X = rng.integers(-2**22, 2**22, (700, 17)) / 2**20
X[::5] *= 1000
arrays = {"half_turns": half_turns, "center": np.zeros(17), "rms": np.full(17, 1.8)}
sums = prepare(Plan("fourier", 17, (2, 333), np.dtype(np.int64), arrays)).sum_rows(X).sums
print(active_kernel(), hashlib.sha256(sums.tobytes()).hexdigest())
"""
GOLDEN = "f79a3ece194478382e4e364ed1702c42b02d9576f3e334b023f7ea4da114646b"


def _subprocess(**environment):
    env = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    return subprocess.run([sys.executable, "-c", _SCRIPT], env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("cpu", ["haswell", pytest.param("skylake-avx512", marks=pytest.mark.slow)])
def test_processor_generations_agree(cpu, tmp_path):
    run = _subprocess(NUMBA_CPU_NAME=cpu, NUMBA_CACHE_DIR=tmp_path)
    assert run.stdout.split() == ["vector", GOLDEN], run.stderr
    assert "compiling" in run.stderr


def test_sums_are_pinned_for_ever():
    rng = np.random.Generator(np.random.PCG64(7))
    half_turns = (rng.integers(-(2**20), 2**20, (333, 17)) / 2**20).astype(np.float32)
    X = rng.integers(-(2**22), 2**22, (700, 17)) / 2**20
    X[::5] *= 1000
    sums = prepare(_plan(half_turns, np.full(17, 1.8))).sum_rows(X).sums
    assert hashlib.sha256(sums.astype("<i8").tobytes()).hexdigest() == GOLDEN


@pytest.mark.slow
def test_read_only_cache_and_two_compilers_at_once(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in both:
        out, err = process.communicate(timeout=300)
        assert out.split() == ["vector", GOLDEN], err
    again = _subprocess(NUMBA_CACHE_DIR=cache)
    assert again.stdout.split() == ["vector", GOLDEN]
    assert "compiling" not in again.stderr, "the cache was not used"


def test_no_writable_cache_at_all(tmp_path):
    """A cache directory that is a file can neither be read nor written."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    run = _subprocess(NUMBA_CACHE_DIR=blocked / "sub", HOME="/nonexistent", XDG_CACHE_HOME="/nonexistent")
    assert run.stdout.split()[-1:] == [GOLDEN], run.stderr


@pytest.mark.parametrize("tier", ["plain", "vector"])
def test_tier_can_be_forced_and_is_visible(tier):
    assert _subprocess(SKETCHLEARN_KERNEL=tier).stdout.split() == [tier, GOLDEN]


def test_unknown_tier_is_refused():
    assert "choose one of" in _subprocess(SKETCHLEARN_KERNEL="cuda").stderr
