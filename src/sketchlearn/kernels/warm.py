"""Compile everything now, so that no first call waits: for the build of a container or an image."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.kernels import atoms, lloyd, nearest, pairs, tiers
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
    >>> warmup().tier in ("vector", "plain", "numpy")
    True
    """
    start = time.perf_counter()
    if tiers.forced() == "numpy" or not tiers.compiled():
        return Warmup(tiers.active_kernel(), (), time.perf_counter() - start, None)
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
    plans = [
        Plan("fourier", d, (2, 3), integer, fourier),
        Plan("squares", d, (3 + d,), integer, squares, {"radius": 3.0, "second": 0}),
        Plan("squares", d, (2, 4 + d), real, squares, {"second": 0}),
        Plan("products", d, (triangle + d,), integer, {"center": center}, {"radius": 3.0}),
        Plan("products", d, (2, triangle + d + 1), real, {"center": center}),
    ]
    near = rng.normal(size=(50, d))
    spread = near * np.where(np.arange(50) > 40, 1e3, 1.0)[:, None]
    wide = near * np.where(np.arange(50) > 40, 1e15, 1.0)[:, None]  # beyond the provisional scale
    for plan, dtype, weights in itertools.product(plans, (np.float32, np.float64), (None, np.arange(50))):
        summer = prepare(plan)
        for rows in (near, near + 100.0, spread, wide) if plan.kind != "fourier" else (spread,):
            X: Any = rows.astype(dtype)
            summer.sum_rows(X, weights, True)
    pairs.add_large(np.ones((2, 4096)), np.ones((2, 4096)))


def _decoding() -> None:
    def real(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    atoms.atoms(real(2, 3), real(1, 3), real(2), real(2, 3), real(2, 3), real(2, 3))
    atoms.products(real(2, 3), real(2, 3), real(2, 3), real(2))
    lloyd.lloyd(real(2, 5), np.ones(5), real(1, 2), 2, 0.0)
    nearest.nearest(np.zeros((5, 2)), np.zeros((1, 2)))
