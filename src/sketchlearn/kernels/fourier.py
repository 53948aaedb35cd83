"""Sums of rounded Fourier features over rows: one entry point, three tiers with the same bits.

The tier is chosen at first use: ``"vector"`` (explicit vectors, numba), ``"plain"`` (plain loops,
numba) or ``"numpy"``.  ``SKETCHLEARN_KERNEL`` forces one of them; :func:`active_kernel` tells which
one runs.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K

TIERS = ("vector", "plain", "numpy")
_log = logging.getLogger("sketchlearn")
_lock = threading.RLock()
_active: tuple[str, ModuleType] | None = None


@contextmanager
def announce_compilation() -> Iterator[None]:
    """Say once that code is being compiled, if numba really compiles (and not when the cache has it)."""
    try:
        from numba.core import event
    except ImportError:
        yield
        return

    class Say(event.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, event: Any) -> None:
            if not Say.said:
                Say.said = True
                _log.warning("compiling the sketching kernel for this processor (once, a few seconds)")

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Say()):
        yield


def _try_tier(name: str) -> ModuleType:
    """Import a tier and run it once on a tiny input; raises whatever goes wrong."""
    module = importlib.import_module(f"sketchlearn.kernels._{name}")
    for dtype in (np.float32, np.float64):
        rows = np.zeros((1, 1), dtype)
        _call(module, rows, np.empty(0, np.int64), PackedFrequencies.pack(np.ones((1, 1), np.float32), module), False)
    return module


def _load() -> tuple[str, ModuleType]:
    global _active
    with _lock:
        if _active is not None:
            return _active
        forced = os.environ.get("SKETCHLEARN_KERNEL")
        if forced and forced not in TIERS:
            raise ValueError(f"SKETCHLEARN_KERNEL={forced!r}: choose one of {', '.join(TIERS)}")
        problem: Exception | None = None
        for name in (forced,) if forced else TIERS:
            try:
                with announce_compilation():
                    _active = name, _try_tier(name)
                break
            except Exception as error:  # whatever a foreign compiler throws: the next tier is as exact
                problem = error
                _log.info("kernel %r is not available here: %s", name, error)
        if _active is None:
            raise RuntimeError(f"kernel {forced!r} can't be built on this platform: {problem}")
        if _active[0] == "numpy" and not forced:
            _log.warning("numba is not usable here (%s): sketching runs on NumPy, exact but slow", problem)
        return _active


def active_kernel() -> str:
    """Name of the tier in use: ``"vector"``, ``"plain"`` or ``"numpy"``.

    Examples
    --------
    >>> from sketchlearn.kernels import active_kernel
    >>> active_kernel() in ("vector", "plain", "numpy")
    True
    """
    return _load()[0]


@dataclass(frozen=True)
class PackedFrequencies:
    """Frequencies (half-turns, float32) laid out for the active tier."""

    panels: npt.NDArray[np.float32]
    size: int
    dim: int
    padded: int
    center: npt.NDArray[np.float64]
    rms: npt.NDArray[np.float64]

    @staticmethod
    def pack(
        half_turns: npt.NDArray[np.float32],
        module: ModuleType,
        center: npt.NDArray[np.float64] | None = None,
        rms: npt.NDArray[np.float64] | None = None,
    ) -> PackedFrequencies:
        size, dim = half_turns.shape
        return PackedFrequencies(
            panels=module.pack(half_turns),
            size=size,
            dim=dim,
            padded=-(-size // module.LANES) * module.LANES,
            center=np.zeros(dim) if center is None else center,
            rms=np.zeros(dim) if rms is None else rms,
        )


@dataclass(frozen=True)
class RowSums:
    """What a pass over some rows leaves: sums, rows and weight, box, invalid rows."""

    sums: npt.NDArray[Any]
    rows: int
    weight: int
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    skipped: int
    first_invalid: int | None

    def with_sums(self, sums: npt.NDArray[Any]) -> RowSums:
        """The same with other sums."""
        return replace(self, sums=sums)


def _call(
    module: ModuleType,
    X: npt.NDArray[np.floating],
    weights: npt.NDArray[np.int64],
    packed: PackedFrequencies,
    skip: bool,
) -> RowSums:
    block = max(8, min(K.BLOCK_ROWS, K.BLOCK_BYTES // (4 * packed.dim)))
    sums = np.zeros((2, packed.padded), np.int64)
    lower, upper = np.full(packed.dim, np.inf), np.full(packed.dim, -np.inf)
    info = np.array([0, -1, 0, 0], np.int64)
    rows = X.view(np.ndarray)
    rows.flags.writeable = False  # of this view: it is what the compiled signatures expect
    module.sum_rows(rows, weights, packed.center, packed.rms, packed.panels, skip, block, sums, lower, upper, info)
    return RowSums(
        sums=sums[:, : packed.size],
        rows=int(info[0]),
        weight=int(info[3]),
        lower=lower,
        upper=upper,
        skipped=int(info[2]),
        first_invalid=None if info[1] < 0 else int(info[1]),
    )


def pack(
    half_turns: npt.NDArray[np.float32], center: npt.NDArray[np.float64], rms: npt.NDArray[np.float64]
) -> PackedFrequencies:
    """Lay out frequencies (m, d; half-turns) for the active tier, with the centre and the rms frequency per column."""
    return PackedFrequencies.pack(half_turns, _load()[1], center, rms)


def sum_rows(
    X: npt.NDArray[np.floating],
    packed: PackedFrequencies,
    weights: npt.NDArray[np.int64] | None = None,
    skip_invalid: bool = False,
) -> RowSums:
    """Sum the rounded features of the rows of X (float32 or float64, any strides).

    With ``skip_invalid=False`` the pass stops at the first invalid row and reports it; the sums are
    then meaningless.
    """
    w = np.empty(0, np.int64) if weights is None else np.ascontiguousarray(weights, np.int64)
    return _call(_load()[1], X, w, packed, skip_invalid)


def sum_runs(
    X: npt.NDArray[np.floating],
    packed: PackedFrequencies,
    starts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int64] | None = None,
    skip_invalid: bool = False,
) -> list[RowSums]:
    """The same as :func:`sum_rows` for each run of rows ``starts[g]`` to ``starts[g + 1]``, in one compiled call."""
    name, module = _load()
    w = np.empty(0, np.int64) if weights is None else np.ascontiguousarray(weights, np.int64)
    runs = [(int(a), int(b)) for a, b in pairwise(starts)]
    if name == "numpy":
        return [_call(module, X[a:b], w[a:b] if len(w) else w, packed, skip_invalid) for a, b in runs]
    block = max(8, min(K.BLOCK_ROWS, K.BLOCK_BYTES // (4 * packed.dim)))
    sums = np.zeros((len(runs), 2, packed.padded), np.int64)
    lower, upper = np.full((len(runs), packed.dim), np.inf), np.full((len(runs), packed.dim), -np.inf)
    info = np.tile(np.array([0, -1, 0, 0], np.int64), (len(runs), 1))
    rows = np.ascontiguousarray(X).view(np.ndarray)
    rows.flags.writeable = False
    w.flags.writeable = False
    tables = (packed.center, packed.rms, packed.panels, skip_invalid, block, sums, lower, upper, info)
    with _lock:  # numba compiles at the first call, if its cache is empty
        module.sum_runs(rows[:0], w[:0], starts[:1], *tables)
    module.sum_runs(rows, w, starts, *tables)
    return [
        RowSums(
            sums=sums[g, :, : packed.size],
            rows=int(info[g, 0]),
            weight=int(info[g, 3]),
            lower=lower[g],
            upper=upper[g],
            skipped=int(info[g, 2]),
            first_invalid=None if info[g, 1] < 0 else int(info[g, 1]),
        )
        for g in range(len(runs))
    ]
