"""Structured loops: the same bits in every tier, batch and thread; transforms are Walsh-Hadamard transforms."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reference  # noqa: F401  # makes "numpy" a tier
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from sketchlearn.kernels import Plan, prepare
from sketchlearn.kernels.hadamard import Blocks, HadamardSummer, diagonals

TIERS = ("vector", "plain", "numpy")
STAGES = {"hadamard": 3, "gr2": 2, "fastfood": 1}


def arrays(rng, d, m, kind, dithered=False):
    p = 1 << (d - 1).bit_length()
    blocks = -(-m // p)
    out = {
        "center": rng.normal(size=d).astype(np.float32).astype(float),
        "rms": np.full(d, d**-0.5),
        "stretch": rng.uniform(0.5, 2, d).astype(np.float32),
        "signs": rng.integers(0, 256, (blocks, STAGES[kind], -(-p // 8)), dtype=np.uint8),
        "normals": np.empty((0, 0), np.float32),
        "permutation": np.empty((0, 0), np.int32),
        "radius": (rng.uniform(0.1, 3, m) * p ** (-1.5 if kind != "fastfood" else -1.0)).astype(np.float32),
    }
    if kind != "hadamard":
        out["normals"] = rng.normal(size=(blocks, p)).astype(np.float32)
    if kind == "fastfood":
        out["permutation"] = np.array([rng.permutation(p) for _ in range(blocks)], np.int32)
    if dithered:
        out["dither"] = (2 * rng.uniform(size=m)).astype(np.float32)
    return out, p


def plan_of(found, d, m, p):
    return Plan("hadamard", d, (2, m), np.dtype(np.int64), found, {"p": p})


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 300),
    share=st.floats(0.1, 2.5),
    kind=st.sampled_from(sorted(STAGES)),
    dithered=st.booleans(),
    spread=st.sampled_from([1.0, 30.0, 1e4]),
    dtype=st.sampled_from([np.float32, np.float64]),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_all_tiers_give_the_same_bits(n, d, share, kind, dithered, spread, dtype, weighted, seed):
    rng = np.random.default_rng(seed)
    m = max(1, int(share * d))
    found, p = arrays(rng, d, m, kind, dithered)
    X = (rng.normal(size=(n, d)) * spread ** rng.uniform(0, 1, size=(n, 1))).astype(dtype)
    weights = rng.integers(0, 5, n) if weighted else None
    results = [HadamardSummer(plan_of(found, d, m, p), tier).sum_rows(X, weights, True) for tier in TIERS]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].sums, other.sums)
        np.testing.assert_array_equal(results[0].lower, other.lower)
        assert (results[0].rows, results[0].weight) == (other.rows, other.weight)


GOLDEN = "debc4d58c517d2a87995359c8e6f9bf6251e1f9d0305b87db5a9877ea8d16452"


@pytest.mark.parametrize("tier", TIERS)
def test_sums_are_pinned_for_ever(tier):
    rng, found = np.random.Generator(np.random.PCG64(7)), hashlib.sha256()
    cases = [
        (5, 20, "gr2"), (20, 90, "hadamard"), (64, 130, "hadamard"), (64, 64, "gr2"), (64, 70, "fastfood"),
        (100, 256, "hadamard"), (200, 300, "fastfood"), (512, 600, "hadamard"),
    ]  # fmt: skip
    for d, m, kind in cases:
        table, p = arrays(np.random.default_rng(0), d, m, kind)
        table["center"] = np.zeros(d)
        table["stretch"] = np.ones(d, np.float32)
        table["signs"] = rng.integers(0, 256, table["signs"].shape).astype(np.uint8)
        table["permutation"] = np.argsort(rng.integers(0, 2**40, table["permutation"].shape), axis=1).astype(np.int32)
        table["radius"] = (rng.integers(1, 2**20, m) / (2**20 * p)).astype(np.float32)
        table["normals"] = (rng.integers(-(2**20), 2**20, table["normals"].shape) / 2**20).astype(np.float32)
        X = rng.integers(-(2**22), 2**22, (50, d)) / 2**20
        X[::5] *= 1000
        weights = rng.integers(1, 4, 50)
        for names in ((), ("dither",)):
            table |= {name: (rng.integers(0, 2**20, m) / 2**19).astype(np.float32) for name in names}
            for rows in (None, weights):
                sums = HadamardSummer(plan_of(dict(table), d, m, p), tier).sum_rows(X, rows).sums
                found.update(sums.astype("<i8").tobytes())
    assert found.hexdigest() == GOLDEN


@pytest.mark.parametrize("p", [1024, 2048, 8192])
def test_long_transforms_agree_too(p):
    rng = np.random.default_rng(p)
    found, _ = arrays(rng, p, p, "hadamard")
    X = rng.normal(size=(12, p)) * np.where(np.arange(12) == 5, 1e3, 1.0)[:, None]
    sums = [HadamardSummer(plan_of(found, p, p, p), tier).sum_rows(X).sums for tier in TIERS]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])


@pytest.mark.parametrize("d", [20, 70])
@pytest.mark.parametrize("kind", sorted(STAGES))
def test_batches_threads_and_order_change_no_bit(kind, d):
    rng = np.random.default_rng(3)
    found, p = arrays(rng, d, 300, kind)
    summer = prepare(plan_of(found, d, 300, p))
    X = rng.normal(size=(1000, d)).astype(np.float32)
    X[::7] *= 100
    whole = summer.sum_rows(X).sums
    np.testing.assert_array_equal(whole, summer.sum_rows(X[rng.permutation(1000)]).sums)
    edges = [0, 1, 2, 9, 250, 251, 700, 1000]
    runs = summer.sum_runs(X, np.array(edges))
    np.testing.assert_array_equal(whole, sum(run.sums for run in runs))
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda i: summer.sum_rows(X[i : i + 1]).sums, range(1000))
        np.testing.assert_array_equal(whole, sum(parts))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("d", [3, 16, 64, 100, 600])
@pytest.mark.parametrize("kind", sorted(STAGES))
def test_products_are_those_of_the_matrices(tier, d, kind):
    rng = np.random.default_rng(d)
    m = int(1.4 * d) + 1
    found, p = arrays(rng, d, m, kind)
    table = diagonals(found["signs"], found["normals"], p)
    blocks = Blocks(found["stretch"], table, found["permutation"], found["radius"], np.float64, tier)
    H = hadamard(p).astype(float)
    x = rng.normal(size=(3, d))
    padded = np.zeros((3, p))
    padded[:, :d] = x * found["stretch"]
    expected = []
    for b in range(len(table)):
        a = padded
        for stage in range(table.shape[1]):
            if stage == 1 and kind == "fastfood":
                a = a[:, found["permutation"][b]]
            a = (a * table[b, stage]) @ H
        expected.append(a)
    expected = np.concatenate(expected, axis=1)[:, :m] * found["radius"]
    np.testing.assert_allclose(blocks.forward(x), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    v = rng.normal(size=(3, m))
    np.testing.assert_allclose(np.sum(blocks.forward(x) * v, 1), np.sum(x * blocks.adjoint(v), 1), rtol=1e-9)
    parts = list(blocks.parts(p))
    assert [at.stop for at, _ in parts][-1] == m
    np.testing.assert_array_equal(np.concatenate([part.forward(x) for _, part in parts], 1), blocks.forward(x))


@pytest.mark.parametrize("tier", TIERS)
def test_squares_on_the_grid_are_the_same_in_every_tier(tier):
    rng = np.random.default_rng(5)
    found, p = arrays(rng, 100, 200, "hadamard")
    found["radius"] = np.full(200, p**-1.5, np.float32)
    table = diagonals(found["signs"], found["normals"], p)
    u = rng.normal(size=(9, 100))
    u /= np.sqrt((u * u).sum(1))[:, None]
    results = []
    for name in ("numpy", tier):
        blocks = Blocks(np.ones(100), table, found["permutation"], found["radius"], np.float32, name)
        rows = blocks.padded_rows(9)
        rows[:, :100] = u
        sums, whole = np.zeros(blocks.padded_size), np.zeros(blocks.padded_size, np.int64)
        blocks.add_squares(rows, 9, sums)
        blocks.add_rounded_squares(rows, 9, np.arange(9), whole)
        results.append((sums, whole))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_invalid_rows_stop_the_pass_or_are_skipped():
    rng = np.random.default_rng(0)
    found, p = arrays(rng, 20, 64, "gr2")
    summer = prepare(plan_of(found, 20, 64, p))
    X = rng.normal(size=(10, 20))
    X[4, 3] = np.nan
    assert summer.sum_rows(X).first_invalid == 4
    good = np.delete(X, 4, axis=0)
    skipped = summer.sum_rows(X, None, True)
    assert skipped.skipped == 1
    np.testing.assert_array_equal(skipped.sums, summer.sum_rows(good).sums)
    assert summer.valid(X).tolist() == [i != 4 for i in range(10)]
