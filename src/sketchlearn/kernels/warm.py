"""Compile everything now, so that no first call waits: for the build of a container or an image."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.kernels import amp, atoms, completed, hadamard, lloyd, nearest, pairs, projection, tiers, users
from sketchlearn.kernels.plan import Plan, prepare


@dataclass(frozen=True)
class Warmup:
    """What :func:`warmup` did: the tier in use, the functions it had to compile, seconds, folder of the cache."""

    tier: str
    compiled: tuple[str, ...]
    seconds: float
    cache: str | None


def warmup() -> Warmup:
    """Compile every loop that this processor will use, and keep it in the cache on disk.

    Returns
    -------
    Warmup
        With `cache` None where compiled code can't be kept: then every process compiles for itself.

    Examples
    --------
    >>> from sketchlearn.kernels import warmup
    >>> warmup().tier in ("vector", "plain")
    True
    """
    start = time.perf_counter()
    from numba.core import event

    from sketchlearn.kernels import _compile

    with event.install_recorder("numba:compile") as recorder:
        tier = tiers.active_kernel()
        _sums()
        _decoding()
    own = [e.data["dispatcher"].py_func for _, e in recorder.buffer if e.is_start]
    names = tuple(sorted({f.__qualname__ for f in own if f.__module__.startswith("sketchlearn.")}))
    return Warmup(tier, names, time.perf_counter() - start, _compile.cache_folder())


def _sums() -> None:
    """All passes over rows of either precision, with and without weights, near and far, in runs."""
    rng = np.random.default_rng(0)
    d = 23  # whole vectors of columns and some left over
    center, directions = np.zeros(d), rng.integers(-99, 99, (3, d)).astype(np.int8)
    fourier: dict[str, Any] = {
        "half_turns": rng.normal(size=(3, d)).astype(np.float32),
        "center": center,
        "rms": np.ones(d),
    }
    squares: dict[str, Any] = {"center": center, "directions": directions, "bounds": np.full(3, 1e6)}
    integer, real = np.dtype(np.int64), np.dtype(np.float64)
    triangle = d * (d + 1) // 2
    gaps: dict[str, Any] = {"center": center, "mean": center, "precision": np.eye(d), "units": np.ones(d)}
    plans = [
        Plan("fourier", d, (2, 3), integer, fourier),
        Plan("squares", d, (3 + d,), integer, squares, {"radius": 3.0, "second": 0}),
        Plan("squares", d, (2, 4 + d), real, squares, {"second": 0}),
        Plan("products", d, (triangle + d,), integer, {"center": center}, {"radius": 3.0}),
        Plan("products", d, (2, triangle + d + 1), real, {"center": center}),
        Plan("completed products", d, (2 * triangle + 2 * d,), integer, gaps, {"radius": 3.0}),
        Plan("completed products", d, (2, 2 * triangle + 2 * d + 1), real, gaps),
        Plan("powers", d, (9 + d,), integer, {**squares, "whitening": np.eye(d)}, {"radius": 3.0}),
    ]
    plans += _structured(d)
    one = fourier["half_turns"][:, 0]
    plans.append(Plan("signs", d, (2, 3), integer, {**fourier, "dither": one}))
    halves: dict[str, Any] = {"base": "fourier", "per_row": 2, "seed": 0}
    plans.append(Plan("subsampled", d, (8,), integer, fourier, halves))
    near = rng.normal(size=(50, d))
    spread = near * np.where(np.arange(50) > 40, 1e3, 1.0)[:, None]
    wide = near * np.where(np.arange(50) > 40, 1e15, 1.0)[:, None]  # beyond the provisional scale
    for plan, dtype, weights in itertools.product(plans, (np.float32, np.float64), (None, np.arange(50))):
        summer = prepare(plan)
        phases = plan.kind in ("fourier", "signs", "hadamard", "subsampled")
        for rows in (spread,) if phases else (near, near + 100.0, spread, wide):
            X: Any = rows.astype(dtype)
            summer.sum_rows(X, weights, True)
    person = np.zeros(3, np.uint64)
    users.chosen(person, users.row_hashes(np.zeros((3, 1)), person), 2)
    completed.inverse(np.eye(2))
    pairs.add_large(np.ones((2, 4096)), np.ones((2, 4096)))
    for dtype in (np.float32, np.float64):
        projection.project(near.astype(dtype), center, np.ones(d), np.ones((d, 3)), 1.0)


def _structured(d: int) -> list[Plan]:
    """Plans of structured features, of short transforms and of longer ones; operators are compiled on the way."""
    rng, plans = np.random.default_rng(0), []
    integer, real = np.dtype(np.int64), np.dtype(np.float64)
    none: dict[str, Any] = {"normals": np.empty((0, 0), np.float32), "permutation": np.empty((0, 0), np.int32)}
    for p in (32, 64, 128):
        signs: Any = rng.integers(0, 256, (1, 3, p // 8), dtype=np.uint8)
        radius: Any = np.full(p, p**-1.5, np.float32)
        squares: dict[str, Any] = {"center": np.zeros(d), "signs": signs, **none, "factors": radius}
        phases = {**squares, "rms": np.ones(d), "stretch": np.ones(d, np.float32), "radius": radius}
        plans += [
            Plan("hadamard", d, (2, p), integer, phases, {"p": p}),
            Plan("hadamard", d, (2, p), integer, {**phases, "dither": radius}, {"p": p}),
            Plan("structured squares", d, (p + d,), integer, squares, {"p": p, "radius": 3.0}),
            Plan("structured squares", d, (2, p + d + 1), real, squares, {"p": p}),
        ]
        table = hadamard.diagonals(signs, none["normals"], p)
        for dtype in (np.float32, np.float64):
            operator = hadamard.Blocks(np.ones(d), table, none["permutation"], radius, dtype)
            operator.adjoint(operator.forward(np.zeros((1, d))))
    return plans


def _decoding() -> None:
    def real(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    atoms.atoms(real(2, 3), real(1, 3), real(2), real(2, 3), real(2, 3), real(2, 3))
    atoms.products(real(2, 3), real(2, 3), real(2, 3), real(2))
    atoms.correlate(real(2, 3), real(2, 3), real(3), real(2))
    atoms.shared(real(2, 3), real(3), real(3), real(2, 3), real(3), real(2), real(2, 3), real(2, 3), real(2))
    one, sums = real(2, 3), real(5, 3)
    amp.interference(one, one, one, one, sums)
    amp.moments(one, one, one, one, sums, one, real(3), one, 1.0, real(4), real(2, 3), real(2, 3))
    lloyd.lloyd(real(5, 2), np.ones(5), real(1, 2), 2, 0.0)
    nearest.nearest(np.zeros((5, 2)), np.zeros((1, 2)))
    v, ring, memory = np.zeros(3), np.zeros((2, 3)), np.ones(2)
    limited: Any = tiers.loops("lbfgs")
    limited.descend(v, v, v, v, ring, ring, memory, memory, 1, 0, 1.0, np.zeros(3))
    limited.advance(v, v, 1.0, v, v, v, np.zeros(3))
    limited.remember(v, v, v, v, ring[0], ring[1])
    factors: Any = tiers.loops("factors")
    factors.damp(real(2, 3), real(2, 3))
    factors.scale(real(2, 3), real(2, 3))
