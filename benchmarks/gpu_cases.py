"""Random cases for comparing sums of a GPU with those of the CPU, possibly of another machine, by their digests.

Inputs are made of uniform integers and IEEE sums and products alone, so that every machine makes the same.

    python benchmarks/gpu_cases.py write cases.json 200     # with the CPU's sums
    python benchmarks/gpu_cases.py check cases.json         # with a GPU's
"""

import hashlib
import json
import math
import sys
import time

import numpy as np

from sketchlearn.kernels.plan import Plan, prepare

KINDS = (
    *["fourier"] * 8, *["hadamard"] * 4, "signs", "squares", "products", "powers", "structured squares", "subsampled",
)  # fmt: skip
WORK = 2e9  # multiply-adds per case, so that the CPU takes seconds


def bell(rng, shape):
    """About normal, from four uniform numbers."""
    a, b, c, d = (rng.random(shape) for _ in range(4))
    return (((a + b) + (c + d)) - 2.0) * 1.75


def between(rng, low, high):
    """A whole number, evenly over the orders of magnitude."""
    return math.floor(low * (high / low) ** rng.random() + 0.5)


def plan_of(rng, kind, dim, size):
    center = bell(rng, dim).astype(np.float32).astype(np.float64) * (rng.random() < 0.5)
    whole = np.dtype(np.int64)
    if kind in ("fourier", "signs", "subsampled"):
        width = np.float64(2.0) ** rng.integers(-3, 4, dim) * (rng.random() < 0.3) + 1.0  # as after standardising
        half_turns = (bell(rng, (size, dim)) / width / (math.sqrt(dim) * 3.0)).astype(np.float32)
        rms = 3.0 * np.abs(half_turns).astype(np.float64).max(0) * 0.5
        arrays = {"half_turns": half_turns, "center": center, "rms": rms}
        if kind == "signs":
            arrays["dither"] = (2.0 * rng.random(size)).astype(np.float32)
        if kind != "subsampled":
            return Plan(kind, dim, (2, size), whole, arrays)
        each = between(rng, max(1, size // 50), size)
        numbers = {"base": "fourier", "per_row": each, "seed": int(rng.integers(0, 2**60))}
        return Plan(kind, dim, (2 * size + -(-size // each),), whole, arrays, numbers)
    if kind in ("hadamard", "structured squares"):
        return structured_plan(rng, kind, center, size)
    radius = 2.0 * math.sqrt(dim)
    if kind == "products":
        shape = (dim * (dim + 1) // 2 + dim,)
        return Plan(kind, dim, shape, whole, {"center": center}, {"radius": radius})
    second = int(rng.integers(-1, 2)) if kind == "squares" else 0
    directions = rng.integers(-100, 101, (size * (1 + (second != 0)), dim)).astype(np.int8)
    bounds = np.maximum((directions.astype(np.int64) ** 2).sum(1), 1).astype(np.float64)
    arrays = {"center": center, "directions": directions, "bounds": bounds}
    if kind == "powers":
        arrays |= {"bounds": np.sqrt(bounds), "whitening": bell(rng, (dim, dim)) / math.sqrt(dim)}
        return Plan(kind, dim, (3 * size + dim,), whole, arrays, {"radius": radius})
    if second:
        arrays["bounds"] = np.tile(np.maximum(bounds[:size], bounds[size:]), 2)
    return Plan(kind, dim, (size + dim,), whole, arrays, {"radius": radius, "second": second})


def structured_plan(rng, kind, center, size):
    """Blocks of all three structures, with and without a dither."""
    dim = len(center)
    p = 1 << (dim - 1).bit_length()
    blocks, structure = -(-size // p), int(rng.integers(0, 3)) if kind == "hadamard" else 0
    none = np.empty((0, 0), np.float32)
    arrays = {
        "center": center,
        "signs": rng.integers(0, 256, (blocks, 3 - structure, -(-p // 8)), dtype=np.uint8),
        "normals": none if structure == 0 else bell(rng, (blocks, p)).astype(np.float32),
        "permutation": none.astype(np.int32),
    }
    if structure == 2:
        arrays["permutation"] = np.argsort(rng.random((blocks, p)), axis=1, kind="stable").astype(np.int32)
    factor = 1.0 / p if structure == 2 else 1.0 / (p * math.sqrt(p))
    if kind == "structured squares":
        arrays["factors"] = np.full(size, factor, np.float32)
        return Plan(kind, dim, (size + dim,), np.dtype(np.int64), arrays, {"p": p, "radius": 2.0 * math.sqrt(dim)})
    arrays |= {
        "radius": (factor * (0.1 + 2.0 * rng.random(size))).astype(np.float32),
        "stretch": (0.5 + rng.random(dim)).astype(np.float32),
        "rms": np.full(dim, 3.0 / math.sqrt(dim)),
    }
    if rng.random() < 0.4:
        arrays["dither"] = (2.0 * rng.random(size)).astype(np.float32)
    return Plan(kind, dim, (2, size), np.dtype(np.int64), arrays, {"p": p})


def case(seed):
    """Plan, rows, weights, starts of runs and whether invalid rows are skipped."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    dim = between(rng, 1, 600 if kind != "products" else 200)
    size = between(rng, 1, 9000)
    cost = dim * (size if kind != "products" else dim)
    rows = min(between(rng, 1, 20000), max(1, int(WORK / cost)))
    spread = (1.0, 1.0, 30.0, 1e4, 1e8)[int(rng.integers(0, 5))]
    X = bell(rng, (rows, dim))
    X *= np.where(rng.random((rows, 1)) < 0.3, spread, 1.0)
    X = X.astype((np.float32, np.float64)[int(rng.integers(0, 2))])
    for _ in range(int(rng.integers(0, 4))):
        X[rng.integers(0, rows), rng.integers(0, dim)] = (np.nan, np.inf, -np.inf, 3e38)[int(rng.integers(0, 4))]
    layout = int(rng.integers(0, 4))
    if layout == 1:
        X = np.asfortranarray(X)
    elif layout == 2:  # every other row and column of something larger
        wide = np.zeros((2 * rows, 2 * dim + 1), X.dtype)
        wide[::2, 1::2] = X
        X = wide[::2, 1::2]
    elif layout == 3:  # aligned to its items and no more
        flat = np.zeros(rows * dim + 1, X.dtype)
        flat[1:] = X.ravel()
        X = flat[1:].reshape(rows, dim)
    weights = None
    if rng.random() < 0.4:
        weights = rng.integers(0, (3, 1000, 2**16)[int(rng.integers(0, 3))], rows)
        weights[rng.integers(0, rows)] += (0, 2**32 + 1)[int(rng.integers(0, 2))]  # beyond 32 bits
    cuts = np.sort(rng.integers(0, rows + 1, int(rng.integers(0, 2)) * between(rng, 1, 40)))
    starts = np.concatenate([[0], cuts, [rows]]).astype(np.int64)
    return plan_of(rng, kind, dim, size), X, weights, starts, bool(rng.random() < 0.8)


def digest_of_input(plan, X, weights, starts):
    h = hashlib.sha256(np.ascontiguousarray(X).tobytes() + starts.tobytes())
    for name in sorted(plan.arrays):
        h.update(np.ascontiguousarray(plan.arrays[name]).tobytes())
    if weights is not None:
        h.update(weights.tobytes())
    return h.hexdigest()[:16]


def digest(parts, skip):
    """Of the sums, boxes and counts of all runs; where a pass stops at an invalid row, of its place."""
    h = hashlib.sha256()
    for part in parts:
        if part.first_invalid is not None and not skip:
            h.update(b"stopped %d" % part.first_invalid)
            continue
        counts = np.array([part.rows, part.weight, part.skipped], np.int64)
        for array in (part.sums.astype(np.int64), part.lower, part.upper, counts):
            h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:16]


def write(path, count):
    lines, begin = {}, time.perf_counter()
    for seed in range(count):
        plan, X, weights, starts, skip = case(seed)
        parts = prepare(plan).sum_runs(X, starts, weights, skip)
        lines[seed] = digest_of_input(plan, X, weights, starts), digest(parts, skip)
    with open(path, "w") as file:  # noqa: PTH123
        json.dump(lines, file)
    print(f"{count} cases with the CPU's sums in {time.perf_counter() - begin:.0f} s")


def check(path, summer_of, seeds=None, rows_as=lambda X: X):
    """Cases whose sums differ (and those whose input can't be made again here)."""
    with open(path) as file:  # noqa: PTH123
        lines = json.load(file)
    wrong, other_input = [], []
    for seed in map(int, lines) if seeds is None else seeds:
        plan, X, weights, starts, skip = case(seed)
        if digest_of_input(plan, X, weights, starts) != lines[str(seed)][0]:
            other_input.append(seed)
            continue
        parts = summer_of(plan).sum_runs(rows_as(X), starts, weights, skip)
        if digest(parts, skip) != lines[str(seed)][1]:
            wrong.append(
                (seed, plan.kind, X.shape, plan.sums_shape, X.dtype.name, weights is not None, len(starts) - 1)
            )
    return wrong, other_input


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]))
    else:
        from sketchlearn.kernels.cuda.kinds import device_summer

        print("cases that differ, cases with other inputs:", check(sys.argv[2], device_summer))
